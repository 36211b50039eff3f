"""Chooses the bins for each shape of band, and estimates their cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from dovetail.planner.band.bins import (
    EVERYTHING,
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
from dovetail.planner.catalog.cost import Cost, cost, estimate_copies, times_to_match
from dovetail.planner.catalog.stats import LengthClass, Statistics
from dovetail.planner.explain.records import CandidatePlan, MeasuredLengths
from dovetail.planner.logical import BandJoin, JoinKind, Logical
from dovetail.planner.physical.band_join import ByLength, FixedWidth, SingleAssignment
from dovetail.planner.physical.key_join import Scheme, preserved_sides
from dovetail.planner.physical.overlap_band_join import CommonBin, TwoPoints
from dovetail.rules.analysis.sizes import Sizes
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

    def seconds(self, kind: JoinKind, key_share: float = 1.0) -> float:
        """Estimate the seconds on one core of the join, of whose pairs this share has equal columns as well."""
        if self.cost is None:
            return 0
        times = times_to_match(kind) if any(side in self.scheme.copied for side in preserved_sides(kind)) else 1
        return times * replace(self.cost, pairs=(self.cost.pairs or 0) * key_share).seconds

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
            return _PointInInterval(join, join.band, (left, right), ctx).candidates()
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


class _PointInInterval:
    """Bins for a point in an interval: intervals are copied to the bins they touch, or points to two bins a level."""

    def __init__(self, join: BandJoin, band: IntervalBand, sizes: Sizes, ctx: Context):
        self.join, self.band, self.ctx = join, band, ctx
        left = band.side == "left"
        points, inside = (join.left, join.right) if left else (join.right, join.left)
        self.points, self.intervals = sizes if left else sizes[::-1]
        self.measured = ctx.lengths(Intervals(inside, *IntervalSql(band).ends(), self.intervals.cheap))[0]
        self.lengths = _measured_lengths(band, ("right" if left else "left", self.measured))
        known = self.measured is not None or join.bin_width or ctx.force or self.intervals.cheap
        self.computed = not known and ctx.measures
        self.by_density = _levels_from_density(points, band, self.points, ctx) if self.computed else None

    def candidates(self) -> list[Candidate]:
        kept = preserved_sides(self.join.kind)
        if self.band.side in kept:
            return [self._copied_intervals()]
        either = self.measured is not None and not self.join.bin_width
        if kept:  # intervals that are copied need their matches found first
            return [self._copied_points(), *([self._copied_intervals()] if either else [])]
        return [self._copied_intervals(), *([self._copied_points()] if either else [])]

    def _copied_intervals(self) -> Candidate:
        band, width, single = self.band, self.join.bin_width, None
        if self.measured and preserved_sides(self.join.kind) and not width and not band.endless:
            single = one_level(self.measured, band.axis, max_bins=self.ctx.thresholds.level_reach)
        by_length = generic_levels(band.axis) if self.computed else _levels(self.measured, band, width, self.ctx)
        chosen = single or self.by_density or by_length
        scheme = ByLength(band, chosen, self.measured is not None)
        return Candidate(scheme, f"bins of {_widths(chosen, band)} for {band}", self._cost(chosen), self.lengths)

    def _copied_points(self) -> Candidate:
        band = self.band
        chosen = _single_bin_levels(self.measured, self.by_density, band, self.ctx)
        if self.join.bin_width:
            width = hinted_width(self.join.bin_width, band.axis)
            chosen = Levels((width, *(w for w in chosen.widths if w > width)), 1)
        scheme = SingleAssignment(band, chosen, self.measured is not None)
        description = f"bins of {_widths(chosen, band)}, each interval in one bin, for {band}"
        return Candidate(scheme, description, self._cost(chosen, single_bin=True), self.lengths)

    def _cost(self, chosen: Levels, *, single_bin: bool = False) -> Cost | None:
        """The cost with intervals counted where they were measured; ``single_bin``: each of them is in one bin."""
        if self.measured is None:
            return None
        meets = met(chosen, self.measured, single_bin=single_bin)
        pairs = None if meets is None or self.points.rows is None else self.points.rows * meets
        bins = 2 * len(chosen.widths) - 1 if single_bin else len(chosen.widths)
        counted = Statistics(_count(self.measured), self.intervals.bytes)
        copies = 1 if single_bin else touched(chosen, self.measured)
        sides = estimate_copies(self.points, bins), estimate_copies(counted, copies)
        return cost(*(sides if self.band.side == "left" else sides[::-1]), pairs)


@dataclass(frozen=True)
class _Overlapping:
    """A side of an overlap: the band of its intervals, their measured lengths, and its size."""

    band: IntervalBand
    measured: Classes | None
    size: Statistics

    def levels(self, join: BandJoin, ctx: Context) -> Levels:
        """The levels of its intervals; those that were not measured are computed."""
        if self.measured is None and not (self.size.cheap or ctx.force or join.bin_width) and ctx.measures:
            return generic_levels(self.band.axis)
        return _levels(self.measured, self.band, join.bin_width, ctx)


def _overlap(join: BandJoin, band: OverlapBand, left: Statistics, right: Statistics, ctx: Context) -> list[Candidate]:
    """Bins for both intervals: of one width if that suits all lengths; else of several levels, by length."""
    ones, others = ctx.lengths(
        _measured_intervals(join.left, band.in_left, left),
        _measured_intervals(join.right, band.in_right, right),
    )
    sides = _Overlapping(band.in_left, ones, left), _Overlapping(band.in_right, others, right)
    common, by_length = _common(join, band, sides, ctx), _by_length(join, band, sides, ctx)
    if common is None:
        return [by_length]
    return [common] if join.bin_width else [common, by_length]


def _common(
    join: BandJoin, band: OverlapBand, sides: tuple[_Overlapping, _Overlapping], ctx: Context
) -> Candidate | None:
    """Both sides in bins of one width; None unless their lengths are measured, and suit one width."""
    ones, others = (side.measured for side in sides)
    if ones is None or others is None or any(side.band.endless for side in sides):
        return None
    width = hinted_width(join.bin_width, band.axis) if join.bin_width else None
    max_bins = ctx.thresholds.level_reach
    bins = common_bins(ones, others, band.axis, max_bins=max_bins, width=width)
    if bins is None:
        return None
    left, right = (
        estimate_copies(Statistics(count, side.size.bytes), rows / max(count, 1))
        for side, count, rows in zip(sides, (_count(ones), _count(others)), bins.rows, strict=True)
    )
    description = f"bins of {band.axis.human(Fraction(bins.width))} for {band}, both sides copied"
    lengths = _measured_lengths(band, ("left", ones), ("right", others))
    return Candidate(CommonBin(band, bins.width), description, cost(left, right, bins.pairs), lengths)


def _by_length(join: BandJoin, band: OverlapBand, sides: tuple[_Overlapping, _Overlapping], ctx: Context) -> Candidate:
    """Bins whose width depends on the length of each interval; each side probes the levels of the other."""
    a, b = (side.levels(join, ctx) for side in sides)
    ones, others = (side.measured for side in sides)
    scheme = TwoPoints(band, a, b, ones is not None and others is not None)
    widths = f"{_widths(a, band.in_left)} on the left and {_widths(b, band.in_right)} on the right"
    description = f"bins of {widths} for {band}"
    lengths = _measured_lengths(band, ("left", ones), ("right", others))
    if ones is None or others is None:
        return Candidate(scheme, description, None, lengths)
    left, right = (Statistics(_count(c), side.size.bytes) for c, side in zip((ones, others), sides, strict=True))
    meet = met(a, ones), met(b, others)
    pairs = None if meet[0] is None or meet[1] is None else _count(others) * meet[0] + _count(ones) * meet[1]
    left_copies = estimate_copies(left, len(b.widths) + touched(a, ones))
    right_copies = estimate_copies(right, len(a.widths) + touched(b, others))
    return Candidate(scheme, description, cost(left_copies, right_copies, pairs), lengths)


def _measured_lengths(band: Band, *sides: tuple[Side, Classes | None]) -> tuple[MeasuredLengths, ...]:
    """The classes of both sides that were measured."""
    return tuple(
        MeasuredLengths(str(band), side, tuple((one.longest, one.count) for one in classes))
        for side, classes in sides
        if classes
    )


def _count(classes: Classes) -> int:
    return sum(c.count for c in classes)


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
