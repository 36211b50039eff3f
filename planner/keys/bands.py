"""Keys of bands in a branch of an OR: the number of a bin, and its width where there are several.

a.t BETWEEN b.s AND b.e     an interval has one key, the bin that it begins in, of the least width that is more than its
                            length; a point has two keys of each width, its bin and the one before
abs(a.x - b.x) <= 5         a row of the left side has its bin; one of the right side all bins that its band touches
a.s <= b.e AND b.s <= a.e   two branches: the later start is a point in the interval that begins earlier

A pair that satisfies the band shares exactly one of these, whatever the widths are, so a sample may choose them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil

from sqlglot import exp

from dovetail.planner.band.bins import EVERYTHING, Levels, neighbours, single_bin_levels, unmeasured_levels
from dovetail.planner.band.comparisons import comparisons, endless_comparison, may_read_both_sides
from dovetail.planner.band.condition import Band, DistanceBand, IntervalBand, OverlapBand, leaves_of
from dovetail.planner.band.distance_sql import DistanceSql
from dovetail.planner.band.interval_sql import IntervalSql, double
from dovetail.planner.band.linear import ConditionScope, Side
from dovetail.planner.band.read_bands import read_bands
from dovetail.planner.catalog import Numbers
from dovetail.planner.catalog.measure import length_classes
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, sql
from dovetail.planner.keys.elements import on_sides
from dovetail.planner.keys.key_set import KeySet, Leveled, Sides

_WIDTH, _BIN = "__dt_w", "__dt_b"  # variables in lambdas, like ELEMENT


@dataclass(frozen=True)
class IntervalKeys(Leveled):
    """A point in an interval, by bins of some widths."""

    band: IntervalBand
    levels: Levels

    @property
    def sides(self) -> Sides:
        in_bins = IntervalSql(self.band, self.levels)
        low, high = in_bins.ends()
        intervals = KeySet((in_bins.hashed_bin(),), (f"{high} - {low}",))
        widths = f"array({', '.join(map(double, self.levels.widths))})"
        point = self.band.axis.real_position(self.band.point.text, self.band.point.type)
        if self.band.null_points:
            widths = f"CASE WHEN {point} IS NULL THEN array({double(EVERYTHING)}) ELSE {widths} END"
        bins = f"transform({in_bins.visited(_WIDTH)}, {_BIN} -> xxhash64({_WIDTH}, {_BIN}))"
        points = KeySet(
            required=() if self.band.null_points else (point,),
            elements=f"flatten(transform({widths}, {_WIDTH} -> {bins}))",
            nulls=True,
            copies=2 * len(self.levels.widths) - 1,
        )
        return on_sides(self.band.side, points, intervals)

    @property
    def sampled(self) -> tuple[Side, str]:
        return "right" if self.band.side == "left" else "left", ", ".join(IntervalSql(self.band).ends())

    def fitted(self, sample: Sequence[Numbers], rows: int | None) -> IntervalKeys:
        """Widths that suit the lengths of a sample, which is a part of all intervals."""
        classes = length_classes(sample, (rows or len(sample)) / len(sample))
        return replace(self, levels=single_bin_levels(classes, self.band.axis)) if classes else self


def read_band(parts: Iterable[exp.Expression], scope: ConditionScope) -> tuple[tuple[Sides | Leveled, str], ...]:
    """Return the keys of the first band in the parts of a conjunction; of two intervals that overlap, in two branches.

    Each comes with a condition as SQL, besides the conjunction, under which a pair shares such a key.  Empty where
    nothing is compared by order.  Raises ``Refused``.
    """
    bands, refused = read_bands(tuple(Scalar(sql(part)) for part in parts), scope)
    if not bands:
        if refused:
            raise refused[0]
        return ()
    band = bands[0]
    _check(band)
    match band:
        case DistanceBand():
            return ((_distance(band), ""),)
        case IntervalBand():
            return ((_interval(band), ""),)
        case OverlapBand():
            return (_interval(band.in_left), _left_begins_earlier(band)), (_interval(band.in_right), "")


def looks_like_bounds(parts: Iterable[exp.Expression]) -> bool:
    """Whether comparisons of a conjunction may bound a value on two sides; cheap, and never looks anything up."""
    count = 0
    for part in parts:
        endless = endless_comparison(part)
        for operands in comparisons(endless.comparison if endless else part):
            count += may_read_both_sides(*operands) + any(map(may_read_both_sides, operands))  # sqrt(…) < 5 has two
    return count > 1


def _check(band: Band) -> None:
    """Raise ``Refused`` for a band that has no bins, or none that are known to be of use."""
    if any(leaf.computed for _, leaf in leaves_of(band)):
        raise Refused(f"{band}: it calls a function that is not Spark's")
    if band.axis.name == "text":
        raise Refused(f"{band}: in a branch of an OR, bins need numbers or times")


def _left_begins_earlier(band: OverlapBand) -> str:
    """A start that is NULL is earlier than all others, where the band has such starts."""
    left, right = band.in_right.point.text, band.in_left.point.text
    if not (band.in_left.null_points or band.in_right.null_points):
        return f"{left} < {right}"
    return f"{right} IS NOT NULL AND ({left} IS NULL OR {left} < {right})"


def _interval(band: IntervalBand) -> IntervalKeys:
    return IntervalKeys(band, unmeasured_levels(band.axis, 1))


def _distance(band: DistanceBand) -> Sides:
    bins = neighbours(band.low - band.room, band.high + band.room, band.axis)
    if bins is None:
        raise Refused(f"{band}: the band is too wide, so bins would prune nothing")
    of_row = DistanceSql(band, bins)
    left = KeySet((of_row.bin_of("left"),), (band.left.text,))
    return left, KeySet(elements=of_row.touched("right"), distinct=True, copies=ceil(bins.copies))
