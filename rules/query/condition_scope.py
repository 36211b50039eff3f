"""The scope of a join condition: for each name its side, its type and its canonical form."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Literal

from sqlglot import exp

from planner.band.linear import ConditionScope, Side
from planner.conditions.compared import Comparison, compared
from planner.errors import Refused
from planner.expr import Scalar, sql
from planner.logical import BandJoin, Join
from planner.types.schema import SqlType
from rules.context import Context


def condition_scope(join: Join | BandJoin, ctx: Context) -> ConditionScope:
    """The scope of a condition over both sides of a join."""
    scope = ctx.scope(join.left, join.right)
    both = Join(join.left, join.right, "cross", "CROSS JOIN")  # ON of a semi join sees both sides, too

    def side(tree: exp.Expression) -> Side | Literal["both"] | None:
        found: set[Side] = {"right" if item else "left" for item in scope.bind(tree).items}
        return "both" if len(found) > 1 else next(iter(found), None)

    def type_of(tree: exp.Expression) -> SqlType | None:
        return scope.bind(tree).type or ctx.type_of(sql(tree), both)

    settings = ctx.catalog.settings
    return ConditionScope(
        side,
        type_of,
        lambda tree: scope.bind(tree).canonical,
        settings.ansi,
        settings.has_fixed_offset_zone,
        lambda tree: ctx.volatile_call(tree, both),
    )


def equalities(conjuncts: Iterable[Scalar], scope: ConditionScope) -> Iterator[Comparison]:
    """Yield the equalities of both sides, each with its operand over the left side first.

    An equality with a name that cannot be resolved is left out.
    """
    for found in map(compared, conjuncts):
        with suppress(Refused):
            if found and found.equal and (equality := scope.compare_sides(found)):
                yield equality
