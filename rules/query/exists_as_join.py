"""The semi or anti join that EXISTS or IN over a query block means."""

from __future__ import annotations

from sqlglot import exp

from dovetail.planner.bind.scope import BoundColumn, Scope
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, is_star, sql
from dovetail.planner.expr.subqueries import SubqueryTest
from dovetail.planner.keys.comparable import without_names
from dovetail.planner.logical import JOIN_KEYWORDS, Join, Limit, Logical
from dovetail.planner.types.typed import known_type
from dovetail.rules.context import Context
from dovetail.rules.query.decorrelation import (
    check_deterministic,
    check_inner,
    has_lateral_view,
    more_than_a_block,
    why_not_rows,
)
from dovetail.rules.query.query_block import QueryBlock


def exists_as_join(test: SubqueryTest, block: QueryBlock, tree: Logical, ctx: Context) -> Join:
    """The semi or anti join of a FROM tree with the block of a subquery in its WHERE.

    The subquery's WHERE becomes the condition, as written, except that ambiguous names are qualified.  Raises
    ``Refused`` where that could change the result.
    """
    if why := _why_not(test, block, tree):
        raise Refused(why)
    check_inner(block.tree, ctx.names)
    outer, both = ctx.scope(tree), ctx.scope(tree, block.tree)
    inner = ctx.scope(block.tree, outer=outer)

    def beside(column: BoundColumn) -> tuple[tuple[int, int], str]:
        return (0, (len(outer.sources) if column.level == 0 else 0) + column.relation), column.column.name

    cross = Join(tree, block.tree, "cross", "CROSS JOIN")

    def written(conjunct: Scalar) -> Scalar:
        new = inner.bind(conjunct).rebind(both, beside)
        check_deterministic(new, lambda call: ctx.volatile_call(call, cross))
        return new

    condition = map(written, block.condition)
    equalities = []
    for value, item in zip(test.values, block.project.items if test.value else (), strict=True):
        wanted = Scalar(sql(item.tree.unalias()), (), item.place)
        x = ctx.scope(outer=outer).bind(value).rebind(both, beside)
        y = inner.bind(wanted).rebind(both, beside)
        _check_types(x, y, both, cross, ctx)
        equal = f"{_operand(x)} = {_operand(y)}"
        equalities.append(Scalar(f"({equal}) IS NOT FALSE" if test.negated else equal, (), value.place))
    kind = "anti" if test.negated else "semi"
    return Join(tree, block.tree, kind, JOIN_KEYWORDS[kind], (*equalities, *condition))  # type: ignore[arg-type, index]


def _why_not(test: SubqueryTest, block: QueryBlock, tree: Logical) -> str:
    """Return the reason why a subquery, or its outer query, cannot become a join."""
    for clause in block.clauses:
        if test.value or not (isinstance(clause, Limit) and clause.keeps_a_row):
            return more_than_a_block(clause)
    if block.project.hint:
        return "the subquery has a hint of its own"
    if test.value and len(block.project.items) != len(test.values):
        starred = any(item.known is not None and is_star(item.known) for item in block.project.items)
        others = "*; name its columns" if starred else len(block.project.items)
        return f"it compares {len(test.values)} values with {others}"
    if why := why_not_rows(block.project.items):
        return why
    return "joins cannot be written behind LATERAL VIEW" if has_lateral_view(tree) else ""


def _check_types(x: Scalar, y: Scalar, scope: Scope, both: Join, ctx: Context) -> None:
    """Raise ``Refused`` unless ``=`` compares two values just as IN does: no cast, and no padding of CHAR."""
    found = [known_type(scope.bind(e).type or ctx.spark_type(e.text, both), e.shown) for e in (x, y)]
    if "char" in (found[0].name, found[1].name):
        raise Refused("IN compares CHAR columns differently than a join does")
    same = without_names(found[0]) == without_names(found[1])
    if not same and not (found[0].integral and found[1].integral):
        raise Refused(f"IN compares {x.shown} {found[0]} with {y.shown} {found[1]}")


def _operand(value: Scalar) -> str:
    return value.text if isinstance(value.tree, exp.Column | exp.Literal | exp.Paren) else f"({value.text})"
