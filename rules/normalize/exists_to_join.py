"""Turns EXISTS and IN into semi joins: ``FROM p WHERE EXISTS (SELECT 1 FROM i WHERE p.x BETWEEN i.lo AND i.hi)``."""

from __future__ import annotations

import re
from contextlib import suppress

from sqlglot import exp

from planner.band.comparisons import looks_like_band, may_equal
from planner.errors import Refused
from planner.expr import Scalar, sql
from planner.expr.subqueries import SubqueryTest
from planner.logical import JOIN_KEYWORDS, Filter, Join, Limit, Logical, OneRow, Project
from planner.sql.scope import BoundColumn, Scope
from planner.types.schema import SqlType
from rules.context import Context
from rules.query.decorrelation import (
    bounds,
    check_deterministic,
    check_inner,
    has_lateral_view,
    more_than_a_block,
    why_not_simple,
)
from rules.query.exists_tests import simple_test
from rules.query.query_block import QueryBlock, read_block
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
        return _report_other_places(node.items, "in the select list", ctx)
    if node.clause != "WHERE" or isinstance(node.child, OneRow):
        return _report_other_places(node.condition, f"in {node.clause}", ctx)
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
    """Join the relations of a query with those of the subquery in a conjunct; None if the rule does not apply."""
    test = simple_test(conjunct)
    if not test:
        return _report_other_places((conjunct,), "in a larger condition", ctx)
    block = read_block(test.query)
    if not block:
        return None
    if bounds(block.condition) < 2:
        return None if test.value or any(map(may_equal, block.condition)) else _report_one_bound(test, block, tree, ctx)
    place = next(c.place for c in block.condition if looks_like_band(c))
    try:
        scope = ctx.scope(block.tree, outer=ctx.scope(tree))
        across = tuple(c for c in block.condition if looks_like_band(c) and len(scope.bind(c).levels) > 1)
        if bounds(across) < 2:
            return None
        if why := _why_not(test, block, tree):
            raise Refused(why)
        return _join(test, block, tree, ctx)
    except Refused as no:
        return ctx.decline(f"{test} stays a subquery: {no}", place, no.code)


def _report_one_bound(test: SubqueryTest, block: QueryBlock, tree: Logical, ctx: Context) -> None:
    """Decline where the rows of a subquery are compared by nothing but one end of a band."""
    with suppress(Refused):
        scope = ctx.scope(block.tree, outer=ctx.scope(tree))
        for c in filter(looks_like_band, block.condition):
            if len(scope.bind(c).levels) > 1:
                ctx.decline(
                    f"{test} stays a subquery: {c.shown} bounds the value on one side only, so there is no band",
                    c.place,
                    "one_sided",
                )


def _report_other_places(scalars: tuple[Scalar, ...], where: str, ctx: Context) -> None:
    """Decline for EXISTS over a band where it is no conjunct of WHERE, and so no join."""
    for scalar in scalars:
        if scalar.plans and re.search(r"(?i)\bEXISTS\b", scalar.text):
            blocks = [block for plan in scalar.plans if (block := read_block(plan))]
            if any(bounds(block.condition) >= 2 for block in blocks):
                ctx.decline(f"EXISTS {where} stays a subquery: it is not a whole condition of WHERE", scalar.place)


def _why_not(test: SubqueryTest, block: QueryBlock, tree: Logical) -> str:
    """Return the reason why a subquery, or its outer query, cannot become a join."""
    for clause in block.clauses:
        if test.value or not (isinstance(clause, Limit) and clause.keeps_a_row):
            return more_than_a_block(clause)
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


def _join(test: SubqueryTest, block: QueryBlock, tree: Logical, ctx: Context) -> Join:
    check_inner(block.tree, ctx.names)
    outer, both = ctx.scope(tree), ctx.scope(tree, block.tree)
    inner = ctx.scope(block.tree, outer=outer)

    def beside(column: BoundColumn) -> tuple[int, str]:
        return (len(outer.sources) if column.level == 0 else 0) + column.relation, column.column.name

    condition = []
    for conjunct in block.condition:
        check_deterministic(conjunct)
        condition.append(inner.bind(conjunct).rebind(both, beside))
    if test.value:
        item = block.project.items[0]
        wanted = Scalar(sql(item.tree.unalias()), (), item.place)
        x = ctx.scope(outer=outer).bind(test.value).rebind(both, beside)
        y = inner.bind(wanted).rebind(both, beside)
        _check_types(x, y, both, Join(tree, block.tree, "cross", "CROSS JOIN"), ctx)
        equal = f"{_operand(x)} = {_operand(y)}"
        condition.insert(0, Scalar(f"({equal}) IS NOT FALSE" if test.negated else equal, (), test.value.place))
    kind = "anti" if test.negated else "semi"
    return Join(tree, block.tree, kind, JOIN_KEYWORDS[kind], tuple(condition))  # type: ignore[arg-type, index]


def _check_types(x: Scalar, y: Scalar, scope: Scope, both: Join, ctx: Context) -> None:
    """Raise ``Refused`` unless ``=`` compares two values just as IN does: no cast, and no padding of CHAR."""
    found: list[SqlType] = []
    for one in (x, y):
        type_ = scope.bind(one).type or ctx.type_of(one.text, both)
        if type_ is None:
            raise Refused(f"the type of {one.shown} is not known")
        found.append(type_)
    if "char" in (found[0].name, found[1].name):
        raise Refused("IN compares CHAR columns differently than a join does")
    if found[0] != found[1] and not (found[0].integral and found[1].integral):
        raise Refused(f"IN compares {x.shown} {found[0]} with {y.shown} {found[1]}")


def _operand(value: Scalar) -> str:
    return value.text if isinstance(value.tree, exp.Column | exp.Literal | exp.Paren) else f"({value.text})"
