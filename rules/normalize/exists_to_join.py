"""EXISTS and IN as joins: ``FROM p WHERE EXISTS (SELECT 1 FROM i WHERE p.x BETWEEN i.lo AND i.hi)`` is a semi join."""

from __future__ import annotations

import re
from contextlib import suppress

from sqlglot import exp

from planner.band.comparisons import looks_like_band, may_equal
from planner.errors import Unsupported
from planner.expr import Scalar, sql
from planner.logical import JOIN_KEYWORDS, Filter, Join, Limit, Logical, OneRow, Project
from planner.sql.names import Unresolved
from planner.types.schema import SqlType
from rules.context import Context
from rules.query.exists_tests import Test, at_least_one, read_test
from rules.query.moving import (
    Home,
    SelectBlock,
    Sources,
    block_of,
    bounds,
    check_deterministic,
    check_inner,
    has_lateral_view,
    homes,
    more_than_a_block,
    moved,
    why_not_simple,
)
from rules.rule import rule


@rule(Filter, Project, streams="one")
def exists_to_join(node: Filter | Project, ctx: Context) -> Logical | None:
    """Turn EXISTS and IN in WHERE into semi joins, and NOT EXISTS and NOT IN into anti joins.

    Spark does this as well, but later; the rules need to see the band between the query and its subquery now.  The
    subquery's FROM becomes the right side and its WHERE the condition, as written, except that ambiguous names are
    qualified.  Subqueries without a possible band are skipped, so that resolving names costs them nothing.  (Kim,
    "On Optimizing an SQL-like Nested Query", TODS 1982.)
    """
    if isinstance(node, Project):
        return _say_of_other_places(node.items, "in the select list", ctx)
    if node.clause != "WHERE" or isinstance(node.child, OneRow):
        return _say_of_other_places(node.condition, f"in {node.clause}", ctx)
    tree, kept = node.child, []
    for conjunct in node.condition:
        join = _joined(conjunct, tree, ctx) if conjunct.plans else None
        if join is None:
            kept.append(conjunct)
        else:
            tree = join
    if tree is node.child:
        return None
    return Filter(tree, tuple(kept), node.clause) if kept else tree


def _joined(conjunct: Scalar, tree: Logical, ctx: Context) -> Join | None:
    """The relations of a query joined with those of the subquery in a conjunct; None where that is not to be."""
    test = read_test(conjunct)
    if not test:
        return _say_of_other_places((conjunct,), "in a larger condition", ctx)
    block = block_of(test.query)
    if not block:
        return None
    if bounds(block.condition) < 2:
        return None if test.value or any(map(may_equal, block.condition)) else _say_of_one_end(test, block, tree, ctx)
    place = next(c.place for c in block.condition if looks_like_band(c))
    try:
        scopes = (ctx.names.sources(block.tree), ctx.names.sources(tree))
        across = tuple(c for c in block.condition if looks_like_band(c) and len(homes(c, scopes, ctx.names)) > 1)
        if bounds(across) < 2:
            return None
        if why := _why_not(test, block, tree):
            raise Unresolved(why)
        return _join(test, block, tree, ctx)
    except (Unsupported, Unresolved) as no:
        return ctx.decline(f"{test} stays a subquery: {no}", place)


def _say_of_one_end(test: Test, block: SelectBlock, tree: Logical, ctx: Context) -> None:
    """Decline where the rows of a subquery are compared by nothing but one end of a band."""
    with suppress(Unsupported, Unresolved):
        scopes = (ctx.names.sources(block.tree), ctx.names.sources(tree))
        for c in filter(looks_like_band, block.condition):
            if len(homes(c, scopes, ctx.names)) > 1:
                ctx.decline(f"{test} stays a subquery: {c.shown} is open at one end, so it is no band", c.place)


def _say_of_other_places(scalars: tuple[Scalar, ...], where: str, ctx: Context) -> None:
    """Decline for EXISTS over a band where it is no conjunct of WHERE, and so no join."""
    for scalar in scalars:
        if scalar.plans and re.search(r"(?i)\bEXISTS\b", scalar.text):
            blocks = [block for plan in scalar.plans if (block := block_of(plan))]
            if any(bounds(block.condition) >= 2 for block in blocks):
                ctx.decline(f"EXISTS {where} stays a subquery: it is not a whole condition of WHERE", scalar.place)


def _why_not(test: Test, block: SelectBlock, tree: Logical) -> str:
    """What else a subquery does, or the query around it, that a join could not."""
    for more in block.more:
        if test.value or not (isinstance(more, Limit) and at_least_one(more)):
            return more_than_a_block(more)
    if block.project.hint:
        return "the subquery has a hint of its own"
    if test.value and len(block.project.items) != 1:
        return "it compares rows of several values"
    for item in block.project.items:
        if item.plans:
            return "its select list holds a subquery"
        if why := why_not_simple(item.tree):
            return why
    return "joins cannot be written behind LATERAL VIEW" if has_lateral_view(tree) else ""


def _join(test: Test, block: SelectBlock, tree: Logical, ctx: Context) -> Join:
    names = ctx.names
    check_inner(block.tree, names)
    inner, outer = names.sources(block.tree), names.sources(tree)
    both = (*outer, *inner)

    def beside(home: Home) -> tuple[int, str]:
        return (len(outer) if home.scope == 0 else 0) + home.relation, home.column

    condition = []
    for conjunct in block.condition:
        check_deterministic(conjunct)
        condition.append(moved(conjunct, (inner, outer), both, beside, names))
    if test.value:
        item = block.project.items[0]
        wanted = Scalar(sql(item.tree.unalias()), (), item.place)
        x = moved(test.value, ((), outer), both, beside, names)
        y = moved(wanted, (inner, outer), both, beside, names)
        _check_types(x, y, both, Join(tree, block.tree, "cross", "CROSS JOIN"), ctx)
        equal = f"{_operand(x)} = {_operand(y)}"
        condition.insert(0, Scalar(f"({equal}) IS NOT FALSE" if test.negated else equal, (), test.value.place))
    kind = "anti" if test.negated else "semi"
    return Join(tree, block.tree, kind, JOIN_KEYWORDS[kind], tuple(condition))  # type: ignore[arg-type, index]


def _check_types(x: Scalar, y: Scalar, sources: Sources, both: Join, ctx: Context) -> None:
    """Raise ``Unresolved`` unless ``=`` compares two values just as IN does: no cast, and no padding of CHAR."""
    found: list[SqlType] = []
    for one in (x, y):
        type_ = ctx.names.type_of(one.tree, sources) or ctx.type_of(one.text, both)
        if type_ is None:
            raise Unresolved(f"the type of {one.shown} is not known")
        found.append(type_)
    if "char" in (found[0].name, found[1].name):
        raise Unresolved("IN compares CHAR columns in another way than a join does")
    if found[0] != found[1] and not (found[0].integral and found[1].integral):
        raise Unresolved(f"IN compares {x.shown} {found[0]} with {y.shown} {found[1]}")


def _operand(value: Scalar) -> str:
    return value.text if isinstance(value.tree, exp.Column | exp.Literal | exp.Paren) else f"({value.text})"
