"""Chooses the bins for each shape of band, and estimates their cost."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dovetail.planner.band.bins import (
    EVERYTHING,
    Common,
    Levels,
    common_bins,
    generic_levels,
    hinted_width,
    levels,
    levels_from,
    levels_from_density,
    met,
    neighbours,
    one_level,
    single_bin_levels,
    touched,
    unmeasured_levels,
)
from dovetail.planner.band.condition import Band, DistanceBand, IntervalBand, OverlapBand
from dovetail.planner.band.interval_sql import IntervalSql
from dovetail.planner.band.linear import Side
from dovetail.planner.catalog.cost import ROW_IN_PAIRS, Cost, cost, estimate_copies
from dovetail.planner.catalog.stats import LengthClass, Statistics
from dovetail.planner.explain.records import CandidatePlan, MeasuredLengths
from dovetail.planner.logical import BandJoin, Logical
from dovetail.planner.physical.band_join import ByLength, FixedWidth, SingleAssignment
from dovetail.planner.physical.key_join import Scheme, preserved_sides
from dovetail.planner.physical.overlap_band_join import CommonBin, TwoPoints
from dovetail.rules.context import Context, Intervals

Classes = tuple[LengthClass, ...]
_SORTED_WIDTH = 2  # times the band's width; measured with 1, 2 and 4


@dataclass(frozen=True)
class Candidate:
    """A scheme of bins for a band join with its description, and its estimated cost; None if sizes are not known.

    ``sizes``: the estimated bytes of both sides with their copies.  ``lengths``: the measured intervals.
    """

    scheme: Scheme
    description: str
    cost: Cost | None
    lengths: tuple[MeasuredLengths, ...] = ()

    @property
    def sizes(self) -> tuple[float, float] | None:
        return self.cost.sizes if self.cost else None

    @property
    def plan(self) -> CandidatePlan:
        """The record of this candidate for ``Context.choose``."""
        cost = self.cost
        if cost is None:
            return CandidatePlan(str(self), lengths=self.lengths)
        seconds = None if cost.pairs is None else cost.seconds
        return CandidatePlan(str(self), cost.rows, cost.bytes, cost.pairs, self.lengths, self.description, seconds)

    def __str__(self) -> str:
        return f"{self.description}: {self.cost}" if self.cost else self.description


def candidates(join: BandJoin, left: Statistics, right: Statistics, ctx: Context, times: int = 1) -> list[Candidate]:
    """The candidate plans over bins, the usual one first; none if the band is too wide for bins.

    Bins for a band of constant width are ``times`` as wide as the band.
    """
    match join.band:
        case DistanceBand():
            return _distance(join, join.band, left, right, times)
        case IntervalBand():
            return _interval(join, join.band, left, right, ctx)
        case OverlapBand():
            return _overlap(join, join.band, left, right, ctx)


def for_sorting(found: list[Candidate], join: BandJoin, left: Statistics, right: Statistics) -> list[Candidate]:
    """The candidate plans for a join that sorts both sides."""
    return _distance(join, join.band, left, right, _SORTED_WIDTH) if isinstance(join.band, DistanceBand) else found


def _distance(
    join: BandJoin, band: DistanceBand, left: Statistics, right: Statistics, times: int = 1
) -> list[Candidate]:
    """Bins of about the band's width; one side is copied into several bins, if possible not a preserved one."""
    bins = neighbours(band.low - band.room, band.high + band.room, band.axis, join.bin_width, times=times)
    if bins is None:
        return []
    kept = preserved_sides(join.kind)
    found = []
    for moved, n, m in (("right", 1.0, bins.copies), ("left", bins.copies, 1.0)):
        if len(kept) == 1 and moved in kept:
            continue
        side: Side = "left" if moved == "left" else "right"
        description = f"bins of {band.axis.human(bins.width)} for {band}, {side} side copied {bins.copies:.2g} times"
        copies = cost(estimate_copies(left, n), estimate_copies(right, m), None)
        found.append(Candidate(FixedWidth(band, bins, side), description, copies))
    return found


def _interval(join: BandJoin, band: IntervalBand, left: Statistics, right: Statistics, ctx: Context) -> list[Candidate]:
    """Bins for a point in an interval: intervals are copied to the bins they touch, or points to two bins a level."""
    kept, max_bins = preserved_sides(join.kind), ctx.thresholds.level_reach
    inside, size, points = (join.right, right, left) if band.side == "left" else (join.left, left, right)
    measured = _lengths(inside, band, size, ctx)
    known, found = measured is not None, []
    lengths = _measured_lengths(band, ("left" if inside is join.left else "right", measured))
    beside = join.left if inside is join.right else join.right
    computed = not (known or join.bin_width or ctx.force or size.cheap) and ctx.measures
    by_density = _levels_from_density(beside, band, points, ctx) if computed else None
    if not kept or band.side in kept:
        several = not kept or join.bin_width or band.endless
        single = one_level(measured, band.axis, max_bins=max_bins) if measured and not several else None
        levels_ = generic_levels(band.axis) if computed else _levels(measured, band, join.bin_width, ctx)
        chosen = single or by_density or levels_
        estimate = _estimate(band, points, len(chosen.widths), size, chosen, measured)
        description = f"bins of {_widths(chosen, band)} for {band}"
        found.append(Candidate(ByLength(band, chosen, known), description, estimate, lengths))
    if band.side not in kept and (known or kept) and not (join.bin_width and not kept):
        chosen = _single_bin_levels(measured, by_density, band, ctx)
        if join.bin_width:
            width = hinted_width(join.bin_width, band.axis)
            chosen = Levels((width, *(w for w in chosen.widths if w > width)), 1)
        estimate = _estimate(band, points, 2 * len(chosen.widths) - 1, size, chosen, measured, single_bin=True)
        description = f"bins of {_widths(chosen, band)}, each interval in one bin, for {band}"
        found.append(Candidate(SingleAssignment(band, chosen, known), description, estimate, lengths))
    return found


def _overlap(join: BandJoin, band: OverlapBand, left: Statistics, right: Statistics, ctx: Context) -> list[Candidate]:
    """Bins for both intervals: of one width if that suits all lengths; else of several levels, by length."""
    ones, others = ctx.lengths(
        _measured_intervals(join.left, band.in_left, left),
        _measured_intervals(join.right, band.in_right, right),
    )
    if ones is None or others is None:
        return [_by_length(join, band, ones, others, (left, right), ctx)]
    meet = _count(ones), _count(others)
    max_bins = ctx.thresholds.level_reach
    width = hinted_width(join.bin_width, band.axis) if join.bin_width else None
    endless = band.in_left.endless or band.in_right.endless
    found = None if endless else common_bins(ones, others, band.axis, max_bins=max_bins, row=ROW_IN_PAIRS, width=width)
    lengths = _measured_lengths(band, ("left", ones), ("right", others))
    common = [_common(band, found, left, right, meet, lengths)] if found else []
    by_length = _by_length(join, band, ones, others, (left, right), ctx)
    return common if common and join.bin_width else [*common, by_length]


def _common(
    band: OverlapBand,
    bins: Common,
    left: Statistics,
    right: Statistics,
    counts: tuple[int, int],
    lengths: tuple[MeasuredLengths, ...],
) -> Candidate:
    """Both sides in bins of one width; rows that have been measured are counted."""
    sides = [
        estimate_copies(Statistics(count, side.bytes), rows / max(count, 1))
        for side, count, rows in zip((left, right), counts, bins.rows, strict=True)
    ]
    description = f"bins of {band.axis.human(Fraction(bins.width))} for {band}, both sides copied"
    return Candidate(CommonBin(band, bins.width), description, cost(sides[0], sides[1], bins.pairs), lengths)


def _by_length(
    join: BandJoin,
    band: OverlapBand,
    ones: Classes | None,
    others: Classes | None,
    sizes: tuple[Statistics, Statistics] | None,
    ctx: Context,
) -> Candidate:
    """Bins whose width depends on the length of each interval; each side probes the levels of the other."""
    a, b = (_levels(m, x, join.bin_width, ctx) for m, x in ((ones, band.in_left), (others, band.in_right)))
    if sizes and not ctx.force and not join.bin_width and ctx.measures:  # what was not measured is computed
        unknown = generic_levels(band.axis)
        a, b = (
            unknown if m is None and not size.cheap else x
            for m, x, size in zip((ones, others), (a, b), sizes, strict=True)
        )
    known = ones is not None and others is not None
    scheme = TwoPoints(band, a, b, known)
    widths = f"{_widths(a, band.in_left)} on the left and {_widths(b, band.in_right)} on the right"
    description = f"bins of {widths} for {band}"
    lengths = _measured_lengths(band, ("left", ones), ("right", others))
    if ones is None or others is None or sizes is None:
        return Candidate(scheme, description, None, lengths)
    left, right = (Statistics(_count(c), size.bytes) for c, size in zip((ones, others), sizes, strict=True))
    meet = met(a, ones), met(b, others)
    pairs = None if meet[0] is None or meet[1] is None else _count(others) * meet[0] + _count(ones) * meet[1]
    sides = (
        estimate_copies(left, len(b.widths) + touched(a, ones)),
        estimate_copies(right, len(a.widths) + touched(b, others)),
    )
    return Candidate(scheme, description, cost(*sides, pairs), lengths)


def _measured_lengths(band: Band, *sides: tuple[Side, Classes | None]) -> tuple[MeasuredLengths, ...]:
    """The classes of both sides that were measured."""
    return tuple(
        MeasuredLengths(str(band), side, tuple((one.longest, one.count) for one in classes))
        for side, classes in sides
        if classes
    )


def _count(classes: Classes) -> int:
    return sum(c.count for c in classes)


def _estimate(
    band: IntervalBand,
    points: Statistics,
    looked_up: int,
    intervals: Statistics,
    chosen: Levels,
    measured: Classes | None,
    *,
    single_bin: bool = False,
) -> Cost | None:
    """The cost of a point in an interval; intervals have been counted where they were measured."""
    if measured is None:
        return None
    meets = met(chosen, measured, single_bin=single_bin)
    pairs = None if meets is None or points.rows is None else points.rows * meets
    counted = Statistics(_count(measured), intervals.bytes)
    sides = estimate_copies(points, looked_up), estimate_copies(counted, 1 if single_bin else touched(chosen, measured))
    return cost(*(sides if band.side == "left" else sides[::-1]), pairs)


def _lengths(relation: Logical, band: IntervalBand, size: Statistics, ctx: Context) -> Classes | None:
    return ctx.lengths(Intervals(relation, *IntervalSql(band).ends(), size.cheap))[0]


def _measured_intervals(relation: Logical, band: IntervalBand, size: Statistics) -> Intervals:
    """The intervals to measure, with those that end before they begin as points.

    No point lies in such an interval; but two intervals also overlap where one contains the other, and then the end of
    the inner one is read as its start.
    """
    low, high = IntervalSql(band).ends()
    return Intervals(relation, low, f"CASE WHEN ({high}) < ({low}) THEN {low} ELSE {high} END", size.cheap)


def _levels(measured: Classes | None, band: IntervalBand, width: Fraction | None, ctx: Context) -> Levels:
    """Levels for intervals that were measured or not; the last one takes everything where there may be no end."""
    found = _levels_by_length(measured, band, width, ctx)
    if band.endless and EVERYTHING not in found.widths:
        return Levels((*found.widths, EVERYTHING), found.max_bins)
    return found


def _levels_by_length(measured: Classes | None, band: IntervalBand, width: Fraction | None, ctx: Context) -> Levels:
    at = ctx.thresholds
    if width is not None:
        wide = hinted_width(width, band.axis)
        return levels_from(wide, measured, band.axis, max_bins=at.level_reach, generic_plan=ctx.generic_plan)
    if ctx.generic_plan:
        return generic_levels(band.axis)
    if measured is None:
        return unmeasured_levels(band.axis, at.level_reach)
    return levels(measured, band.axis, spread=at.level_spread, max_bins=at.level_reach)


def _single_bin_levels(measured: Classes | None, by_density: Levels | None, band: IntervalBand, ctx: Context) -> Levels:
    if measured is not None:
        return single_bin_levels(measured, band.axis)
    if by_density or ctx.generic_plan:
        return Levels((by_density or generic_levels(band.axis)).widths, 1)
    return unmeasured_levels(band.axis, 1)


def _levels_from_density(points: Logical, band: IntervalBand, size: Statistics, ctx: Context) -> Levels | None:
    """Levels for the lengths of intervals that are computed, from where the points lie; None if those are computed."""
    at = band.axis.real_position(band.point.text, band.point.type)
    span = ctx.extent(points, at) if size.plain and size.rows else None
    return levels_from_density(band.axis, span[1] - span[0], size.rows) if span and size.rows else None


def _widths(levels_: Levels, band: IntervalBand) -> str:
    finite = ", ".join(band.axis.human(Fraction(w)) for w in levels_.widths if w < EVERYTHING)
    return finite if levels_.widths[-1] < EVERYTHING else f"{finite} and one for all longer intervals"
