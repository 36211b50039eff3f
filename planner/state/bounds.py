"""Distance bounds of matching pairs: ``c.ts BETWEEN v.ts AND v.ts + INTERVAL 10 MINUTES``.

A band has two bounds; here each bound is used by itself, since one is enough to expire rows.  An equality bounds both
directions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from sqlglot import exp

from dovetail.planner.band.axis import DAY, Axis, axis_of
from dovetail.planner.band.comparisons import comparisons
from dovetail.planner.band.linear import UNKNOWN, Amount, ConditionScope, Leaf, Sum
from dovetail.planner.errors import Refused, Unsupported
from dovetail.planner.expr import Scalar, without_parentheses

_ROOM = 26 * Fraction(DAY, 24)  # by which calendar and clock may differ, as in bands


@dataclass(frozen=True)
class Bound:
    """Of every pair that matches, ``large - small >= least``, in whole units of the axis; sides are numbers."""

    small: Leaf
    small_side: int
    large: Leaf
    large_side: int
    least: Fraction
    axis: Axis


def read_bounds(
    conjuncts: Iterable[Scalar], scope: ConditionScope, sides: tuple[int, int] = (0, 1)
) -> tuple[Bound, ...]:
    """The bounds that a condition puts on pairs of two sides, in the order in which they are written.

    Only whole positions (integers, dates, times); what cannot be read is left out, which is always sound.
    """
    return tuple(b for c in conjuncts if not c.plans for b in _bounds_of(c, scope, sides))


def with_implied(bounds: Sequence[Bound], sides: int) -> tuple[Bound, ...]:
    """Bounds, and those that follow from them over a third side: b - a >= 1 and c - b >= 2 make c - a >= 3.

    The greatest ``least`` of each two leaves counts.
    """
    best: dict[tuple[_Leaf, _Leaf], Bound] = {}

    def learn(bound: Bound) -> None:
        ends = _small_end(bound), _large_end(bound)
        if bound.small_side != bound.large_side and (ends not in best or best[ends].least < bound.least):
            best[ends] = bound

    for bound in bounds:
        learn(bound)
    for _ in range(sides - 2):
        found = list(best.values())
        for one in found:
            for other in found:
                if _large_end(one) == _small_end(other):
                    learn(replace(other, small=one.small, small_side=one.small_side, least=one.least + other.least))
    return tuple(best.values())


_Leaf = tuple[int, str, str]  # a side, a leaf of it, its axis


def _small_end(bound: Bound) -> _Leaf:
    return bound.small_side, bound.small.key, bound.axis.name


def _large_end(bound: Bound) -> _Leaf:
    return bound.large_side, bound.large.key, bound.axis.name


def equalities(conjunct: Scalar, *, of_nulls: bool = False) -> tuple[exp.Expression, exp.Expression] | None:
    """The operands of ``x = y``; with ``of_nulls`` of ``x <=> y`` as well; None for anything else."""
    try:
        tree = conjunct.tree
    except Unsupported:
        return None
    tree = without_parentheses(tree)
    kinds = (exp.EQ, exp.NullSafeEQ) if of_nulls else exp.EQ
    return (tree.this, tree.expression) if isinstance(tree, kinds) else None


def _bounds_of(conjunct: Scalar, scope: ConditionScope, sides: tuple[int, int]) -> Iterator[Bound]:
    try:
        pairs = list(comparisons(conjunct.tree))
    except Unsupported:
        return
    if equal := equalities(conjunct):
        pairs = [equal, equal[::-1]]
    for small, large in pairs:
        try:
            found = _bound(small, large, scope, sides)
        except Refused:
            continue
        if found:
            yield found


def _bound(small: exp.Expression, large: exp.Expression, scope: ConditionScope, sides: tuple[int, int]) -> Bound | None:
    total = Sum(scope)
    total.add(small, 1)
    total.add(large, -1)
    total.finish()
    ends = {count: (side, leaf) for side, count, leaf in total.terms.values()}
    if len(total.terms) != 2 or set(ends) != {1, -1}:
        return None
    (small_side, small_leaf), (large_side, large_leaf) = ends[1], ends[-1]
    types = [small_leaf.type, large_leaf.type]
    if {small_side, large_side} != {"left", "right"} or UNKNOWN in types:
        return None
    amount = total.amount
    mixed = "both" in (scope.side(small), scope.side(large))
    adds = bool(amount.number or amount.total_length or amount.lengths)
    axis = axis_of(types, arithmetic=mixed or adds, ansi=scope.ansi, clock=amount.clock)
    if isinstance(axis, str) or not axis.exact:
        return None
    least = _least(amount, axis, {type_.name for type_ in types}, scope, mixed=mixed)
    number = {"left": sides[0], "right": sides[1]}
    if least is None:
        return None
    return Bound(small_leaf, number[small_side], large_leaf, number[large_side], least, axis)  # type: ignore[index]


def _least(amount: Amount, axis: Axis, types: set[str], scope: ConditionScope, *, mixed: bool) -> Fraction | None:
    """An amount in units of the axis, with room for calendar and clock; None where Spark may compute another sum."""
    if axis.name in ("number", "date"):
        may_wrap = (amount.number or mixed) and not scope.ansi
        if may_wrap or (axis.name == "number" and amount.total_length):
            return None
        return amount.number + (amount.micros - amount.spread) / DAY
    least = amount.micros - amount.spread
    if axis.name == "timestamp" and not scope.has_fixed_offset_zone:
        calendar = mixed or amount.lengths or amount.total_length >= DAY
        if calendar or "date" in types or (amount.total_length and "timestamp_ntz" in types):
            least -= _ROOM
    return None if amount.number else least
