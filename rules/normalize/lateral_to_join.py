"""Turns LATERAL into a join: ``FROM p, LATERAL (SELECT i.lo, i.hi FROM i WHERE p.x BETWEEN i.lo AND i.hi) t``.

Where the subquery does not return what its conditions compare, its rows are joined under a name that no ``*`` shows:

LATERAL (SELECT i.w FROM i WHERE p.x BETWEEN i.lo AND i.hi) t
→
JOIN (SELECT named_struct('c0', i.w) AS row, i.lo AS k0, i.hi AS k1 FROM i) h ON p.x BETWEEN h.k0 AND h.k1,
LATERAL (SELECT h.row.c0 AS w) t
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, is_star, quote
from dovetail.planner.expr.substitution import without_alias
from dovetail.planner.logical import JOIN_KEYWORDS, Derived, Filter, Join, JoinKind, Logical, OneRow, Project
from dovetail.planner.logical.relations import alias_clause, subquery_as
from dovetail.planner.logical.self_join import HiddenRows
from dovetail.planner.sql.join_scope import scope_of
from dovetail.planner.sql.scope import BoundColumn, Scope
from dovetail.planner.types.schema import Column
from dovetail.rules.context import Context
from dovetail.rules.query.char_columns import check_aliases, check_value
from dovetail.rules.query.decorrelation import (
    check_deterministic,
    check_inner,
    has_band_or_keys,
    is_aggregated,
    may_have_band_or_keys,
    more_than_a_block,
    why_not_rows,
)
from dovetail.rules.query.query_block import QueryBlock, read_block
from dovetail.rules.query.star_columns import expand_items
from dovetail.rules.rule import rule


@rule(Join, streams="one")
def lateral_to_join(join: Join, ctx: Context) -> Logical | None:
    """Turn a LATERAL subquery that filters by the left row into a join.

    Spark does this as well, but later; the rules need to see the band or the keys between the two sides now.  A
    subquery without a possible band and keys is left as it is.
    (Decorrelation: Galindo-Legaria and Joshi, "Orthogonal Optimization of Subqueries and Aggregation", SIGMOD
    2001.)
    """
    right = join.right
    if not isinstance(right, Derived) or not right.lateral or join.kind not in ("inner", "cross", "left"):
        return None
    block = read_block(right.query)
    if not block or join.using or join.natural or not has_band_or_keys((*block.condition, *join.condition)):
        return None
    if block.is_plain and is_aggregated(block):
        return None  # correlated_groups
    place = next(c.place for c in (*block.condition, *join.condition) if may_have_band_or_keys(c))
    try:
        return _join(join, right, block, ctx)
    except Refused as no:
        return ctx.decline(f"LATERAL stays a subquery: {no}", place)


def _join(join: Join, right: Derived, block: QueryBlock, ctx: Context) -> Join:
    names = ctx.names
    if block.clauses:
        raise Refused(more_than_a_block(block.clauses[0]))
    if block.project.hint or block.project.quantifier:
        raise Refused("the subquery has a hint, DISTINCT or ALL of its own")
    if not right.alias:
        raise Refused("the subquery has no name")
    check_inner(block.tree, names)
    outer = Scope.of(names, join.left)
    inner = Scope.of(names, block.tree, outer=outer)
    inside: list[Scalar] = []
    across: list[Scalar] = []
    for conjunct in block.condition:
        check_deterministic(conjunct)
        (inside if inner.bind(conjunct).levels <= {0} else across).append(conjunct)
    tree = Filter(block.tree, tuple(inside), "WHERE") if inside else block.tree
    alone = replace(right, query=replace(block.project, child=tree), lateral=False)
    made = [m for item in block.project.items for m in _made(item, block.tree, inner)]
    after = Scope.of(names, join.left, alone)
    seen = after.sources[-1]
    if seen.columns is None or len(seen.columns) != len(made):
        raise Refused("the columns of the subquery are not known")
    shown = {m: column.name for m, column in zip(made, seen.columns, strict=True) if m}
    compared = {(c.relation, c.column) for one in across for c in inner.bind(one).columns if not c.level}
    if compared - {*shown} or any(_reads_outer(item, inner) for item in block.project.items):
        return _hidden_join(join, right, block, tree, tuple(across), after, ctx)

    def beside(origin: BoundColumn) -> tuple[int, str]:
        if origin.level:
            return origin.relation, origin.column.name
        return len(outer.sources), shown[origin.relation, origin.column]

    condition = (*join.condition, *(inner.bind(c).rebind(after, beside) for c in across))
    kind = "left" if join.kind == "left" else "inner"
    keyword = join.keyword if join.kind == kind else JOIN_KEYWORDS["inner"]
    return Join(join.left, alone, kind, keyword, condition)  # type: ignore[arg-type]


def _reads_outer(item: Scalar, scope: Scope) -> bool:
    """Whether an item of a subquery reads columns of the query around it."""
    return not is_star(item.tree.unalias()) and bool(scope.bind(item).levels - {0})


def _hidden_join(
    join: Join,
    right: Derived,
    block: QueryBlock,
    rows: Logical,
    across: tuple[Scalar, ...],
    after: Scope,
    ctx: Context,
) -> Join:
    """A join with some ``rows`` of a subquery by its conditions ``across``, behind it the columns that it shows.

    Those come from a struct, which is NULL where a left join finds no row, and keeps comments and lengths of CHAR.
    ``after``: the scope of ON, where the subquery is the last relation.
    """
    on = tuple(c for c in join.condition if not isinstance(c.tree, exp.Boolean) or not c.tree.this)
    if on and join.kind == "left":
        raise Refused("ON tests rows of the subquery; move the condition into its WHERE", on[0].place)
    names = [column.name for column in after.sources[-1].columns or ()]
    kind: JoinKind = "left" if join.kind == "left" else "inner"
    hidden, inner = ctx.fresh("rows"), ctx.scope(block.tree, outer=ctx.scope(join.left))
    keys: dict[str, str] = {}
    items = expand_items(block.project.items, scope_of(ctx.names, block.tree), ctx.names)

    def key(text: str) -> str:
        return f"{hidden}.{keys.setdefault(text, f'{hidden}_k{len(keys)}')}"

    def beside(column: BoundColumn) -> str | None:
        return None if column.level else key(column.ref.text)

    def tested(column: BoundColumn) -> str | None:
        if column.relation < len(after.sources) - 1:
            return None
        item = items[names.index(column.check_no_field().column.name)]
        if _reads_outer(item, inner):
            raise Refused(f"ON tests {item.shown}, which is of both rows; move the condition into WHERE", item.place)
        return key(without_alias(item).text)

    condition = tuple(inner.bind(conjunct).substitute(beside) for conjunct in across)
    condition = (*(after.bind(conjunct).substitute(tested) for conjunct in on), *condition)
    fields, shown = [], []
    if any(_reads_outer(item, inner) for item in items):
        check_aliases(items, ctx.names)
    for n, (item, name) in enumerate(zip(items, names, strict=True)):
        value = f"{hidden}.{hidden}_row.c{n}"
        if not _reads_outer(item, inner):
            fields.append(f"'c{n}', {without_alias(item).text}")
        else:
            for column in inner.bind(item).columns:
                check_value(column.column)
            value = inner.bind(without_alias(item)).substitute(beside).text
            value = f"CASE WHEN {hidden}.{hidden}_row IS NOT NULL THEN {value} END" if kind == "left" else value
        shown.append(Scalar(f"{value} AS {quote(name)}"))
    compared = (Scalar(f"{text} AS {name}") for text, name in keys.items())
    ctx.written |= {f"{hidden}.{name}": text for text, name in keys.items()}
    row = ", ".join(fields) or "'found', true"
    query = Project(rows, (Scalar(f"named_struct({row}) AS {hidden}_row"), *compared))
    relation = HiddenRows(query, hidden, (), alias_clause(hidden))
    below = Join(join.left, relation, kind, JOIN_KEYWORDS[kind], condition)
    lateral = replace(subquery_as(Project(OneRow(), tuple(shown)), right.alias or ""), lateral=True)
    return Join(below, lateral, "cross", JOIN_KEYWORDS["cross"])


def _made(item: Scalar, tree: Logical, scope: Scope) -> list[tuple[int, Column] | None]:
    """For each column that an item of the select list makes, the column that it is; None for one that is computed."""
    if why := why_not_rows((item,)):
        raise Refused(why)
    bare = item.tree.unalias()
    if is_star(bare):
        return list(scope.names.expand_star(bare, scope.sources, tree))
    if _reads_outer(item, scope) or not isinstance(bare, exp.Column):
        return [None]
    column = scope.column(bare)
    return [(column.relation, column.column)]
