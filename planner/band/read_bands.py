"""Parses band conditions: ``p.x BETWEEN i.lo AND i.hi``, ``abs(a.x - b.y) <= 5``, ``a.ts - b.ts <= …``.

Every comparison is brought into the form  Σ ±leaf + constant ≤ 0  over real numbers; a leaf is the largest piece of
an expression that is not a sum.  One leaf on one side of the join against a sum on the other is a *bound* of that
leaf, its *point*; a lower and an upper bound of the same point are a *band*, and so are two upper bounds, one on a leaf
of either side.

NULL may stand for no end: ``p.x < i.hi OR i.hi IS NULL``, ``p.x <= coalesce(i.hi, p.x)``, ``greatest(a.lo, b.lo) <
least(a.hi, b.hi)``.  Such a bound is read so that NULL on either side of the comparison passes, which is true of more
pairs than the condition.  A condition on the row of an end may as well: ``p.x < i.hi OR i.is_current``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import NamedTuple

from sqlglot import exp

from dovetail.planner.band.axis import DAY, Axis, axis_of
from dovetail.planner.band.comparisons import (
    EndlessComparison,
    comparisons,
    endless_comparison,
    from_extremes,
    looks_like_band,
    without_abs,
    without_default,
)
from dovetail.planner.band.condition import Band, DistanceBand, End, IntervalBand, OverlapBand
from dovetail.planner.band.distances import Difference, differences
from dovetail.planner.band.linear import UNKNOWN, Amount, ConditionScope, Leaf, Side, Sum, leaf_of, speculative
from dovetail.planner.errors import Place, Refused
from dovetail.planner.expr import HOLE, Scalar, sql, without_parentheses
from dovetail.planner.types.schema import INTEGRAL
from dovetail.planner.types.typed import type_of

# What Spark casts a text to that is compared with a value of these types.
_TEXT_AS = {
    **dict.fromkeys(INTEGRAL, exp.DType.BIGINT),
    **dict.fromkeys(("float", "double", "decimal"), exp.DType.DOUBLE),
    "date": exp.DType.DATE,
    "timestamp": exp.DType.TIMESTAMPLTZ,
    "timestamp_ntz": exp.DType.TIMESTAMPNTZ,
}

_SIDES: tuple[Side, ...] = ("left", "right")


class OneSided(Refused):
    """A comparison that bounds a value on one side, where no other one bounds it on the other side."""

    code = "one_sided"

    def __init__(self, fact: str, remedy: str, place: Place | None):
        super().__init__(f"{fact}, so there is no band; {remedy}", place)
        self.fact = fact


@dataclass(frozen=True)
class _Bound:
    point: Leaf
    side: Side
    lower: bool
    end: End
    mixed: bool  # the user's text does arithmetic over both sides
    nan_passes: bool  # a difference stands on the larger side, where NaN is greater than anything
    sum: str  # what is added up on the other side, where that is more than one leaf
    amount: Amount  # what the end adds to its leaves
    wraps: bool  # Spark adds integers, which wrap around without ANSI
    conjunct: Scalar
    null_point_passes: bool = False  # whatever the end is
    implied: bool = False  # by a distance


def read_bands(conjuncts: tuple[Scalar, ...], scope: ConditionScope) -> tuple[tuple[Band, ...], tuple[Refused, ...]]:
    """Find the bands in a condition.

    Returns the bands, those of constant width first and otherwise in the order in which they are written, and a reason
    for every comparison across the join that belongs to none.
    """
    bounds: list[_Bound] = []
    refusals: list[Refused] = []
    refused: set[Scalar] = set()
    for number, conjunct in enumerate(conjuncts):
        if not looks_like_band(conjunct):
            continue
        behind = replace(scope, guards=(*scope.guards, *conjuncts[:number]))
        endless = endless_comparison(conjunct.tree)
        compared = without_parentheses(endless.comparison if endless else conjunct.tree)
        guarded = isinstance(compared.this, exp.Abs) or isinstance(compared.expression, exp.Abs)
        for operands in comparisons(compared):
            try:
                if not endless and "both" in map(scope.side, operands) and (implied := from_extremes(*operands)):
                    bounds += _read_implied(implied, conjunct, behind)
                    continue
                small, large, default = without_default(*operands)
                open_end = endless or default
                if apart := [] if open_end else differences(small, large, behind):
                    bounds += _read_differences(apart, conjunct, behind)
                    continue
                found = _read_bounds(small, large, conjunct, behind, guarded=guarded)
                bounds += _endless(found, open_end, behind) if open_end else found
            except Refused as no:
                refusals.append(Refused(f"{conjunct.shown}: {no.reason}", no.place or conjunct.place))
                refused.add(conjunct)
    bands, more = _pair(bounds, scope, refused)
    return bands, (*refusals, *more)


def _read_differences(apart: list[Difference], conjunct: Scalar, scope: ConditionScope) -> list[_Bound]:
    """The bounds on the differences of a distance that can be read; raises ``Refused`` if none can."""
    found: list[_Bound] = []
    reason = Refused("none of its terms is a difference of both sides")
    for difference, most in apart:
        try:
            for small, large in without_abs(exp.Abs(this=difference.copy()), most):
                bounds = _read_bounds(small, large, conjunct, scope, guarded=True)
                found += (replace(bound, implied=True) for bound in bounds)
        except Refused as no:
            reason = no
    if not found:
        raise reason
    return found


def _read_implied(implied: tuple[EndlessComparison, ...], conjunct: Scalar, scope: ConditionScope) -> list[_Bound]:
    """The bounds of comparisons that follow from a conjunct, each of which NULL passes.

    They follow if the arguments of a function are compared as they are: Spark casts them to one type first, and a
    BIGINT may be rounded, or compared as a text.
    """
    found = []
    for part in ("this", "expression"):
        types = {type_of(one.comparison.args[part], scope.type_of) for one in implied}
        if len(types) > 1 and not all(type_ and type_.integral for type_ in types):
            raise Refused("it compares values of different types by greatest() or least(); cast them to one type")
    for one in implied:
        small, large = one.comparison.this, one.comparison.expression
        if bounds := _read_bounds(small, large, conjunct, scope, guarded=False):
            found += _endless(bounds, one, scope)
    return found


def _read_bounds(
    small: exp.Expression, large: exp.Expression, conjunct: Scalar, scope: ConditionScope, *, guarded: bool
) -> list[_Bound]:
    """The bounds that ``small ≤ large`` puts on a leaf of either side; none when it is not across the join."""
    if any(c.name.startswith(HOLE) for tree in (small, large) for c in tree.find_all(exp.Column)):
        raise Refused("a subquery stands in it")
    small, large = _with_one_type(small, large, scope)
    sum_ = _sum_across(small, large, scope)
    if sum_ is None:
        return []
    mixed = "both" in (scope.side(small), scope.side(large))
    wraps = not scope.ansi and any(_adds_integers(operand, scope) for operand in (small, large))
    nan_passes = scope.side(large) == "both" and not guarded
    found = []
    reason = Refused("it does not bound one expression of either side")
    for side in _SIDES:
        try:
            solved = _term_as_point(sum_, side) or _operand_as_point(small, large, side, scope)
        except Refused as no:
            reason = no
            continue
        if solved is None or solved.point.type.name == "micros" or any(abs(c) != 1 for c, _ in solved.rest):
            continue
        # coefficient·point + Σ + amount ≤ 0
        amount = Amount().plus(solved.amount, -solved.coefficient)
        terms = tuple((-solved.coefficient * c, leaf) for c, leaf in solved.rest)
        end, lower = End(terms, amount.number + amount.micros), solved.coefficient < 0
        added = " and ".join(leaf.text for _, leaf in terms) if len(terms) > 1 else ""
        found.append(_Bound(solved.point, side, lower, end, mixed, nan_passes, added, amount, wraps, conjunct))
    if not found:
        raise reason
    return found


def _sum_across(small: exp.Expression, large: exp.Expression, scope: ConditionScope) -> Sum | None:
    """The sum ``small - large``; None unless it has terms of both sides.  Raises ``Refused`` for a term of both."""
    sum_ = Sum(scope)
    for operand, sign in ((small, 1), (large, -1)):
        sum_.add(operand, sign, whole=_negates_reals(operand, scope))
    sum_.finish()
    sides = {side for side, *_ in sum_.terms.values()}
    if not {"left", "right"} <= sides and "both" not in sides:
        return None
    for side, _, leaf in sum_.terms.values():
        if side == "both":
            raise Refused(f"{leaf.text} mixes both sides of the join")
        if leaf.type == UNKNOWN:
            raise Refused(f"the type of {leaf.text} is not known")
    return sum_


class _Solved(NamedTuple):
    """A comparison as ``coefficient·point + Σ rest + amount ≤ 0``."""

    coefficient: int
    point: Leaf
    rest: list[tuple[int, Leaf]]
    amount: Amount


def _term_as_point(sum_: Sum, side: Side) -> _Solved | None:
    """Read the only term of a side as the point; None if it has more terms, or several times the same."""
    points = [(c, leaf) for owner, c, leaf in sum_.terms.values() if owner == side]
    if len(points) != 1 or abs(points[0][0]) != 1:
        return None
    rest = [(c, leaf) for owner, c, leaf in sum_.terms.values() if owner != side]
    return _Solved(*points[0], rest, sum_.amount)


def _negates_reals(operand: exp.Expression, scope: ConditionScope) -> bool:
    """Whether an operand of one side subtracts a FLOAT or DOUBLE: negated, NaN is still greater than anything."""
    if not operand.find(exp.Neg, exp.Sub, exp.Func) or scope.side(operand) not in ("left", "right"):
        return False
    sum_ = Sum(scope)
    sum_.add(operand, 1)
    return any(count < 0 and leaf.type.approximate for _, count, leaf in sum_.terms.values())


def _with_one_type(
    small: exp.Expression, large: exp.Expression, scope: ConditionScope
) -> tuple[exp.Expression, exp.Expression]:
    """Cast a text that is compared with a number or a time, as Spark does under ANSI."""
    if not scope.ansi or {scope.side(small), scope.side(large)} != {"left", "right"}:
        return small, large
    types = type_of(small, scope.type_of), type_of(large, scope.type_of)
    wanted = tuple(
        _TEXT_AS.get(other.name) if own and own.text == "string" and other else None
        for own, other in (types, types[::-1])
    )
    return tuple(exp.cast(one.copy(), to) if to else one for one, to in zip((small, large), wanted, strict=True))  # type: ignore[return-value]


def _endless(bounds: list[_Bound], read: EndlessComparison, scope: ConditionScope) -> list[_Bound]:
    """The bounds that NULL and other conditions pass, where these are about the one leaf of the end, or its side."""
    reason = Refused("it is an OR, so rows may match outside the band")
    found = []
    for bound in bounds:
        try:
            found.append(_endless_bound(bound, read, scope))
        except Refused as no:
            reason = no
    if not found or len(list(comparisons(read.comparison))) != 1:
        raise reason
    return found


def _endless_bound(bound: _Bound, read: EndlessComparison, scope: ConditionScope) -> _Bound:
    reason = Refused("it is an OR, so rows may match outside the band")
    if len(bound.end.terms) != 1 or bound.end.terms[0][0] != 1:
        raise reason
    (_, leaf), point = bound.end.terms[0], bound.point
    tested = {scope.canonical(one): one for one in read.tested}
    passes = tested.pop(point.key, None) is not None
    tested.pop(leaf.key, None)
    others = [*read.others, *(exp.Is(this=one.copy(), expression=exp.Null()) for one in tested.values())]
    if any(scope.side(one) in (bound.side, "both") for one in others) or (others and leaf.computed):
        raise reason
    if point.type.name != leaf.type.name and not (point.type.numeric and leaf.type.numeric):
        raise Refused(f"{point.text} is {point.type} and {leaf.text} is {leaf.type}, beside a test for NULL")
    if others:  # the end of rows that they hold for is NULL
        open_: exp.Expression = exp.or_(*(speculative(one, scope) for one in others))  # type: ignore[assignment]
        text = f"CASE WHEN {sql(open_)} THEN NULL ELSE {leaf.text} END"
        leaf = replace(leaf, text=text, key=f"{leaf.key} unless {scope.canonical(open_)}")
    return replace(bound, end=replace(bound.end, terms=((1, leaf),), endless=True), null_point_passes=passes)


def _adds_integers(operand: exp.Expression, scope: ConditionScope) -> bool:
    sum_ = Sum(scope)
    sum_.add(operand, 1)
    integers = [c for _, c, leaf in sum_.terms.values() if leaf.type.integral]
    return sum(map(abs, integers)) + bool(sum_.amount.number) > 1 and bool(integers)


def _operand_as_point(
    small: exp.Expression, large: exp.Expression, side: Side, scope: ConditionScope
) -> _Solved | None:
    """Read the operand over ``side`` as one leaf, the point, although it is a sum: Spark computes that sum.

    Returns None if the operands are not over one side each.
    """
    for point, rest, coefficient in ((small, large, 1), (large, small, -1)):
        if scope.side(point) == side and {side, scope.side(rest)} == {"left", "right"}:
            sum_ = Sum(scope)
            sum_.add(rest, -coefficient)
            leaf = leaf_of(without_parentheses(point), scope)
            if leaf.type == UNKNOWN:
                raise Refused(f"the type of {leaf.text} is not known")
            return _Solved(coefficient, leaf, [(c, term) for _, c, term in sum_.terms.values()], sum_.amount)
    return None


def _pair(
    bounds: list[_Bound], scope: ConditionScope, refused: set[Scalar]
) -> tuple[tuple[Band, ...], tuple[Refused, ...]]:
    """Put lower and upper bounds of the same point together; ``refused`` conjuncts already have a reason."""
    distances: dict[tuple[str, str], DistanceBand] = {}
    intervals: dict[tuple[Side, str], IntervalBand] = {}
    refusals: list[Refused] = []
    used = set(refused)
    for low, high in filter(_bound_one_point, product(bounds, bounds)):
        used.update((low.conjunct, high.conjunct))
        try:
            band = _between(low, high, scope)
        except Refused as no:
            refusals.append(Refused(no.reason, no.place or low.conjunct.place))
            continue
        if isinstance(band, IntervalBand):
            intervals.setdefault((low.side, low.point.key), band)
        elif low.side == "left":  # the same distance is read from the right side as well
            distances.setdefault((band.left.key, band.right.key), band)
    overlaps = _overlaps([b for b in bounds if b.conjunct not in used and not b.lower], scope)
    used.update(c for overlap in overlaps for c in overlap.conjuncts)
    unpaired = dict.fromkeys(b.conjunct for b in bounds if b.conjunct not in used)
    refusals += (_why_unpaired([b for b in bounds if b.conjunct == conjunct]) for conjunct in unpaired)
    return (*distances.values(), *intervals.values(), *overlaps), tuple(refusals)


def _bound_one_point(bounds: tuple[_Bound, _Bound]) -> bool:
    low, high = bounds
    return low.lower and not high.lower and (low.side, low.point) == (high.side, high.point)


def _between(low: _Bound, high: _Bound, scope: ConditionScope) -> DistanceBand | IntervalBand:
    """The band of a lower and an upper bound of one point.  Raises ``Refused`` if they make none."""
    axis = _axis((low, high), scope)
    conjuncts = tuple(dict.fromkeys((low.conjunct, high.conjunct)))
    low_end, high_end = _in_units(low, axis, scope), _in_units(high, axis, scope)
    nulls = low_end.endless and high_end.endless
    if nulls and (low.null_point_passes or high.null_point_passes):
        raise Refused(f"{low.conjunct.shown}: where {low.point.text} is NULL, it may match any interval")
    terms, endless = low.end.terms, low.end.endless or high.end.endless
    if endless or len(terms) != 1 or terms != high.end.terms or terms[0][0] != 1:
        return IntervalBand(low.point, low.side, low_end, high_end, axis, conjuncts, nulls)
    if low_end.constant > high_end.constant:
        raise Refused(f"{low.conjunct.shown}: no value lies in so narrow a band")
    room = max(abs(low_end.room), abs(high_end.room))
    ends = low_end.constant, high_end.constant
    return DistanceBand(low.point, terms[0][1], *ends, axis, conjuncts, room, low.implied or high.implied)


def _why_unpaired(bounds: list[_Bound]) -> Refused:
    """Why the bounds of one conjunct are in no band."""
    first, place = bounds[0], bounds[0].conjunct.place
    if first.sum and {b.lower for b in bounds} == {True, False}:
        return Refused(f"{first.conjunct.shown} adds up {first.sum}; a band holds one expression", place)
    fact = f"{first.conjunct.shown} bounds {first.point.text} on one side only"
    return OneSided(fact, f"add {'an upper' if first.lower else 'a lower'} bound", place)


def _overlaps(uppers: list[_Bound], scope: ConditionScope) -> list[OverlapBand]:
    """Put upper bounds of either side together, in the order in which they are written."""
    found = []
    rights = [b for b in uppers if b.side == "right"]
    for left in (b for b in uppers if b.side == "left"):
        for right in rights:
            try:
                axis = _axis((left, right), scope)
                left_end, right_end = _in_units(right, axis, scope), _in_units(left, axis, scope)
            except Refused:
                continue
            if left_end.as_date or right_end.as_date:  # a start may lie beyond all timestamps, too
                continue
            conjuncts = tuple(dict.fromkeys((left.conjunct, right.conjunct)))
            # A start may be NULL where the bound on it is one that NULL passes.
            nulls = left.end.endless, right.end.endless
            starts = [End(((1, b.point),), endless=b.end.endless) for b in (left, right)]
            in_left = IntervalBand(right.point, "right", starts[0], left_end, axis, conjuncts, nulls[1])
            in_right = IntervalBand(left.point, "left", starts[1], right_end, axis, conjuncts, nulls[0])
            found.append(OverlapBand(in_left, in_right, axis, conjuncts))
            rights.remove(right)
            break
    return found


def _axis(bounds: tuple[_Bound, ...], scope: ConditionScope) -> Axis:
    """The axis of points and their ends.  Raises ``Refused`` where real arithmetic is not a safe guide."""
    low = bounds[0]
    leaves = [*(b.point for b in bounds), *(leaf for b in bounds for _, leaf in b.end.terms)]
    arithmetic = any(b.mixed or not b.end.bare for b in bounds)
    clock = any(b.amount.clock for b in bounds)
    axis = axis_of([leaf.type for leaf in leaves], arithmetic=arithmetic, ansi=scope.ansi, clock=clock, texts=True)
    if isinstance(axis, str):
        raise Refused(f"{low.conjunct.shown}: {axis}", low.conjunct.place)
    if any(b.nan_passes for b in bounds) and any(leaf.type.approximate for leaf in leaves):
        raise Refused(
            f"{low.conjunct.shown}: a difference with NaN is NaN, which would pass as the greatest value",
            low.conjunct.place,
        )
    if axis.name in ("number", "date") and not scope.ansi:
        for b in bounds:
            if b.wraps and not _wraps_harmlessly(b):
                raise Refused(
                    f"{b.conjunct.shown}: sums could wrap around, since spark.sql.ansi.enabled is false",
                    b.conjunct.place,
                )
    return axis


def _wraps_harmlessly(bound: _Bound) -> bool:
    """Without ANSI, integer sums wrap.  Outward (``hi + 5``) that only loses matches; inward it would make new ones."""
    end = bound.end
    if end.bare and not bound.mixed:
        return True
    outward = end.constant <= 0 if bound.lower else end.constant >= 0
    return not bound.mixed and len(end.terms) == 1 and end.terms[0][0] == 1 and outward


def _in_units(bound: _Bound, axis: Axis, scope: ConditionScope) -> End:
    """The end of a bound with its constant in units of the axis, outward where months differ.

    On TIMESTAMP room is left for calendar and clock to differ, by up to 26 hours: a day or more that is added is
    calendar days in the session's zone, and a difference is one of local times.
    """
    end, amount, sign = bound.end, bound.amount, -1 if bound.lower else 1
    types = {leaf.type.name for leaf in (bound.point, *(leaf for _, leaf in end.terms))}
    dates = axis.name != "number" and "date" in types
    if (amount.total_length and axis.name == "number") or (amount.number and not dates and axis.name != "number"):
        reason = "it adds a time to a number, or a number to a time"
        raise Refused(f"{bound.conjunct.shown}: {reason}", bound.conjunct.place)
    length = amount.micros + sign * amount.spread
    if axis.name in ("number", "date"):
        return replace(end, constant=amount.number + length / DAY)
    room = Fraction(0)
    if axis.name == "timestamp" and not scope.has_fixed_offset_zone:
        calendar = bound.mixed or amount.lengths or amount.total_length + abs(amount.number) * DAY >= DAY
        if calendar or (amount.total_length and "timestamp_ntz" in types):
            room = sign * 26 * Fraction(DAY, 24)
    constant = amount.number * DAY + length
    return replace(end, constant=constant, room=room, as_date=types == {"date"} and not amount.clock)
