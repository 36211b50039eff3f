"""Push filters into subqueries: ``FROM (SELECT … FROM p, i) z WHERE z.x BETWEEN z.lo AND z.hi``."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from planner.band.comparisons import looks_like_band
from planner.errors import Unsupported
from planner.expr import ColumnRef, Scalar, column_ref, quote
from planner.logical import Derived, Filter, Join, Logical, Nested, Project, Scan
from planner.sql.names import Source, Unresolved
from rules.analysis.respelling import respelt
from rules.context import Context
from rules.query.moving import block_of, check_deterministic, why_not_simple
from rules.query.standing_for import definition_of
from rules.rule import rule


@rule(Filter, streams="one")
def carry_filters(node: Filter, ctx: Context) -> Logical | None:
    """Push a WHERE condition into the subquery or CTE that joins the relations whose columns it compares.

    Spark does this as well, but later; the rules need to see the band at its join now.  Only a condition that could
    be a band moves, and only where the subquery returns the columns unchanged.
    """
    if node.clause != "WHERE" or not any(map(looks_like_band, node.condition)):
        return None
    relations = _relations(node.child)
    if len(relations) == 1 and _pairs_and_more(relations[0]):
        place = next(c.place for c in node.condition if looks_like_band(c))
        return ctx.decline("the subquery does more than join, so the condition stays above it", place)
    if not any(_joined(relation, ctx) for relation in relations):
        return None
    tree, kept = node.child, []
    for conjunct in node.condition:
        new = _carried(conjunct, tree, ctx) if looks_like_band(conjunct) else None
        if new is None:
            kept.append(conjunct)
        else:
            tree = new
    if tree is node.child:
        return None
    return replace(node, child=tree, condition=tuple(kept)) if kept else tree


def _relations(tree: Logical) -> list[Logical]:
    """The relations of inner joins; others may bring rows that a condition has to drop behind them."""
    if isinstance(tree, Join):
        inner = tree.kind in ("inner", "cross") and not tree.using and not tree.natural
        return [*_relations(tree.left), *_relations(tree.right)] if inner else []
    return [tree]


def _pairs_and_more(relation: Logical) -> bool:
    """Whether a subquery makes all pairs of tables, and more of them than a condition could pass."""
    block = block_of(relation.query) if isinstance(relation, Derived) and not relation.lateral else None
    if block is None or not isinstance(block.tree, Join) or block.tree.kind != "cross" or block.condition:
        return False
    return bool(block.more) or any("(" in item.text for item in block.project.items)


def _joined(relation: Logical, ctx: Context) -> Project | None:
    """The SELECT of a subquery that joins relations and does nothing that a condition could not pass."""
    query = relation.query if isinstance(relation, Derived) and not relation.lateral else None
    if isinstance(relation, Scan) and relation.cte:
        query = definition_of(relation, ctx)
    block = block_of(query) if isinstance(query, Project) else None
    if block is None or block.more or block.project.quantifier or block.project.hint:
        return None
    if not isinstance(block.tree, Join) or block.tree.kind not in ("inner", "cross"):
        return None
    try:
        simple = all(not item.plans and not why_not_simple(item.tree) for item in block.project.items)
    except Unsupported:
        return None
    return block.project if simple else None


def _carried(conjunct: Scalar, tree: Logical, ctx: Context) -> Logical | None:
    """The FROM tree with the conjunct in the one subquery whose columns it names; None where there is no such."""
    try:
        check_deterministic(conjunct)
        sources = ctx.names.sources(tree)
        found = {ctx.names.resolve(ref, sources)[0] for ref in conjunct.columns}
        relations = _relations(tree)
        if len(found) != 1 or len(relations) != len(sources):
            return None
        relation = relations[at := found.pop()]
        project = _joined(relation, ctx)
        if project is None:
            return None
        shown = _shown(project, sources[at], ctx)
        text = respelt(conjunct, lambda ref: shown[ctx.names.fold(ctx.names.resolve(ref, sources)[1].name)])
        inner = _within(project, Scalar(text, (), conjunct.place))
    except (Unsupported, Unresolved, KeyError):
        return None
    return _put(tree, relation, _subquery(relation, inner, ctx))


def _shown(project: Project, source: Source, ctx: Context) -> dict[str, str]:
    """What each column of a subquery is inside it, where it is a column.  Raises ``Unresolved``."""
    made: list[str | None] = []
    inner = ctx.names.sources(project.child)
    for item in project.items:
        tree = item.tree
        bare = tree.unalias()
        if isinstance(bare, exp.Star) or (isinstance(bare, exp.Column) and isinstance(bare.this, exp.Star)):
            made += _all(item, inner)
        else:
            made.append(column_ref(bare).text if isinstance(bare, exp.Column) else None)
    if source.columns is None or len(source.columns) != len(made):
        raise Unresolved("the columns of a subquery are not known")
    found: dict[str, str] = {}
    for column, text in zip(source.columns, made, strict=True):
        name = ctx.names.fold(column.name)
        if name in found:
            raise Unresolved(f"{column.name} is the name of two columns")
        if text is not None:
            ctx.names.resolve(_ref(text), inner)
        found[name] = text or ""
    return {name: text for name, text in found.items() if text}


def _ref(text: str) -> ColumnRef:
    return column_ref(Scalar(text).tree)


def _all(star: Scalar, inner: tuple[Source, ...]) -> list[str | None]:
    """The columns that ``*`` shows."""
    if star.text != "*" or any(s.columns is None or not s.names for s in inner):
        raise Unresolved(f"the columns of {star.shown} are not known")
    return [f"{quote(s.names[-1])}.{quote(c.name)}" for s in inner for c in s.columns or ()]


def _within(project: Project, conjunct: Scalar) -> Project:
    child = project.child
    if isinstance(child, Filter):
        return replace(project, child=replace(child, condition=(*child.condition, conjunct)))
    return replace(project, child=Filter(child, (conjunct,), "WHERE"))


def _subquery(relation: Logical, query: Project, ctx: Context) -> Derived:
    if isinstance(relation, Derived):
        return replace(relation, query=query)
    assert isinstance(relation, Scan)
    alias = relation.alias or relation.name[-1]
    renames = relation.renames or ctx.definitions[relation.cte].renames
    suffix = f"AS {quote(alias)}" + (f"({', '.join(map(quote, renames))})" if renames else "")
    return Derived(query, alias, renames, suffix)


def _put(tree: Logical, old: Logical, new: Logical) -> Logical:
    if tree is old:
        return new
    if isinstance(tree, Join):
        return replace(tree, left=_put(tree.left, old, new), right=_put(tree.right, old, new))
    return replace(tree, child=_put(tree.child, old, new)) if isinstance(tree, Nested) else tree
