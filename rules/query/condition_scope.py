"""The scope of a join condition: for each name its side, its type and its canonical form."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Literal

from sqlglot import exp

from dovetail.planner.band.linear import ConditionScope, Side
from dovetail.planner.conditions.compared import Comparison, compared
from dovetail.planner.errors import NoSuchColumn, Refused
from dovetail.planner.expr import Scalar, sql
from dovetail.planner.logical import BandJoin, Join, Logical
from dovetail.planner.types.schema import SqlType
from dovetail.rules.context import Context


def condition_scope(join: Join | BandJoin, ctx: Context, whole: Logical | None = None) -> ConditionScope:
    """The scope of a condition over both sides of a join.

    ``whole``: a FROM that begins with the join, whose further relations count as the left side.
    """
    scope = ctx.scope(join.left, join.right)
    both = Join(join.left, join.right, "cross", "CROSS JOIN")  # ON of a semi join sees both sides, too

    def side(tree: exp.Expression) -> Side | Literal["both"] | None:
        try:
            return scope.bind(tree).side
        except NoSuchColumn:
            if whole is None:
                raise
        around = ctx.scope(whole)
        further = len(around.sources) - len(scope.sources)
        return replace(around, items=(*scope.items, *(0,) * further)).bind(tree).side

    def type_of(tree: exp.Expression) -> SqlType | None:
        return scope.bind(tree).type or ctx.spark_type(sql(tree), both)

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
