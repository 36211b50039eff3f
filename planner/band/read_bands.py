"""Parses band conditions: ``p.x BETWEEN i.lo AND i.hi``, ``abs(a.x - b.y) <= 5``, ``a.ts - b.ts <= …``.

A lower and an upper bound (``bounds.py``) of the same point are a *band*, and so are two upper bounds, one on a leaf of
either side.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

from dovetail.planner.band.axis import DAY, Axis, axis_of
from dovetail.planner.band.bounds import Bound, BoundReader
from dovetail.planner.band.comparisons import looks_like_band
from dovetail.planner.band.condition import Band, DistanceBand, End, IntervalBand, OverlapBand
from dovetail.planner.band.linear import ConditionScope, Side
from dovetail.planner.errors import Place, Refused
from dovetail.planner.expr import Scalar


class OneSided(Refused):
    """A comparison that bounds a value on one side, where no other one bounds it on the other side."""

    code = "one_sided"

    def __init__(self, fact: str, remedy: str, place: Place | None):
        super().__init__(f"{fact}, so there is no band; {remedy}", place)
        self.fact = fact


def read_bands(conjuncts: tuple[Scalar, ...], scope: ConditionScope) -> tuple[tuple[Band, ...], tuple[Refused, ...]]:
    """Find the bands in a condition.

    Returns the bands, those of constant width first and otherwise in the order in which they are written, and a reason
    for every comparison across the join that belongs to none.
    """
    bounds: list[Bound] = []
    refusals: list[Refused] = []
    refused: set[Scalar] = set()
    readers = [
        BoundReader(conjunct, replace(scope, guards=(*scope.guards, *conjuncts[:number])))
        for number, conjunct in enumerate(conjuncts)
        if looks_like_band(conjunct)
    ]
    for reader in readers:
        bounds += reader.read()
        if reader.refusals:
            refusals += reader.refusals
            refused.add(reader.conjunct)
    bands, more = _pair(bounds, scope, refused)
    if any(isinstance(no, OneSided) for no in more):
        paired = {conjunct for band in bands for conjunct in band.conjuncts}
        times = [b for reader in readers if reader.conjunct not in paired for b in reader.by_times().read()]
        bands, more = _pair([*bounds, *times], scope, refused) if times else (bands, more)
    return bands, (*refusals, *more)


def _pair(
    bounds: list[Bound], scope: ConditionScope, refused: set[Scalar]
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


def _bound_one_point(bounds: tuple[Bound, Bound]) -> bool:
    low, high = bounds
    return low.lower and not high.lower and (low.side, low.point) == (high.side, high.point)


def _between(low: Bound, high: Bound, scope: ConditionScope) -> DistanceBand | IntervalBand:
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


def _why_unpaired(bounds: list[Bound]) -> Refused:
    """Why the bounds of one conjunct are in no band."""
    first, place = bounds[0], bounds[0].conjunct.place
    if first.sum and {b.lower for b in bounds} == {True, False}:
        return Refused(f"{first.conjunct.shown} adds up {first.sum}; a band holds one expression", place)
    fact = f"{first.conjunct.shown} bounds {first.point.text} on one side only"
    return OneSided(fact, f"add {'an upper' if first.lower else 'a lower'} bound", place)


def _overlaps(uppers: list[Bound], scope: ConditionScope) -> list[OverlapBand]:
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


def _axis(bounds: tuple[Bound, ...], scope: ConditionScope) -> Axis:
    """The axis of points and their ends.  Raises ``Refused`` where real arithmetic is not a safe guide."""
    low = bounds[0]
    leaves = [*(b.point for b in bounds), *(leaf for b in bounds for _, leaf in b.end.terms)]
    arithmetic = any(b.mixed or not b.end.bare for b in bounds)
    clock = any(b.amount.clock for b in bounds)
    axis = axis_of([leaf.type for leaf in leaves], arithmetic=arithmetic, ansi=scope.ansi, clock=clock, texts=True)
    if isinstance(axis, str):
        raise Refused(f"{low.conjunct.shown}: {axis}", low.conjunct.place)
    if (passing := _pass_nan(bounds)) and any(leaf.type.approximate for leaf in leaves):
        reason = f"{passing[0].shown}: what is computed from NaN is NaN, which would pass as the greatest value"
        raise Refused(reason, passing[0].place)
    if axis.name in ("number", "date") and not scope.ansi:
        for b in bounds:
            if b.wraps and not b.wraps_harmlessly:
                remedy = "; compare one column with the other plus or minus a constant" if b.mixed else ""
                reason = f"sums could wrap around, since spark.sql.ansi.enabled is false{remedy}"
                raise Refused(f"{b.conjunct.shown}: {reason}", b.conjunct.place)
    return axis


def _pass_nan(bounds: tuple[Bound, ...]) -> list[Scalar]:
    """The conjuncts that pass NaN, where no other bound on the same values fails for it."""
    failing = [b.leaves for b in bounds if b.nan_fails]
    return [b.conjunct for b in bounds if b.nan_passes and not any(b.leaves <= leaves for leaves in failing)]


def _in_units(bound: Bound, axis: Axis, scope: ConditionScope) -> End:
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
