"""Bins for a band of constant width, and for a point in an interval.

``FixedWidth`` (in plans ``NeighbourBandJoin``), for a band of constant width: a row of one side lies in one bin, and
one of the other is copied to the bins that its band touches, two if bins are as wide as the band.  Each pair matches
once, since a row has one bin.

    left    │         │  x      │        x lies in bin 2
    right   │      ───│─y───    │        y's band touches bins 1 and 2
            w         2w        3w

``ByLength`` (``LevelBandJoin``), for a point in an interval: an interval is copied to every bin it touches, on the
level whose bins suit its length; a point is looked up in its one bin of every level.  Each pair matches once, in the
point's bin on the interval's level.

``SingleAssignment`` (``VisitBandJoin``), for the same where copies of intervals are expensive or each must come out
once: an interval is in the one bin where it begins, on a level whose bins are longer than it; a point visits its bin
and the one before.

All of them only prune: the original condition is evaluated together with the equality of bins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dovetail.planner.band.bins import FixedWidthBins, Levels
from dovetail.planner.band.condition import DistanceBand, IntervalBand
from dovetail.planner.band.distance_sql import DistanceSql
from dovetail.planner.band.interval_sql import IntervalSql, double
from dovetail.planner.band.linear import Side
from dovetail.planner.physical.key_join import BandScheme, Keyed, Pairs
from dovetail.planner.rendered import NameGenerator


@dataclass(frozen=True)
class FixedWidth(BandScheme):
    """``NeighbourBandJoin``: bins for a band of constant width.

    A row of the ``moved`` side is copied to the bins that its band touches.
    """

    label: ClassVar[str] = "NeighbourBandJoin"
    band: DistanceBand
    bins: FixedWidthBins
    moved: Side = "right"

    @property
    def copied(self) -> tuple[Side, ...]:
        return (self.moved,)

    @property
    def note(self) -> str:
        bins, copies = self.band.axis.human(self.bins.width), f"{self.bins.copies:.2g}"
        note = f"bins of {bins}; {self.moved} side copied to about {copies} of them"
        if self.band.room:
            note += f"; {self.band.axis.human(self.band.room)} of room at both ends, for changes of clocks"
        return note

    def keyed(self, sides: tuple[str, ...], names: NameGenerator) -> Keyed:
        """``bin(left) = bin``, from ``LATERAL explode(sequence(…))`` over the bins that a right row's band touches."""
        bins, bin_ = names.new("bin")
        of_row = DistanceSql(self.band, self.bins)
        moved = sides[self.moved == "right"]
        copies = f"({moved} JOIN LATERAL explode({of_row.touched(self.moved)}) AS {bins}({bin_}))"
        if self.moved == "right":
            return Keyed(sides[0], copies, ((of_row.bin_of("left"), bin_),))
        return Keyed(copies, sides[1], ((bin_, of_row.bin_of("right")),))


@dataclass(frozen=True)
class ByLength(BandScheme):
    """``LevelBandJoin``: bins for a point in an interval, by the length of the interval."""

    label: ClassVar[str] = "LevelBandJoin"
    band: IntervalBand
    levels: Levels
    measured: bool = False

    @property
    def copied(self) -> tuple[Side, ...]:
        return (self._intervals,) if len(self.levels.widths) == 1 else ("left", "right")

    @property
    def _intervals(self) -> Side:
        return "right" if self.band.side == "left" else "left"

    @property
    def note(self) -> str:
        return f"bins by length, {how(self.measured)}; {self._intervals} side copied to the bins it touches"

    def keyed(self, sides: tuple[str, ...], names: NameGenerator) -> Keyed:
        """``bin(point) = bin``, from ``LATERAL explode(sequence(…))``; on several levels, the width as well."""
        points, intervals = sides if self.band.side == "left" else sides[::-1]
        bins, bin_ = names.new("bin")
        of_interval = IntervalSql(self.band, self.levels)
        if len(self.levels.widths) == 1:
            width = double(self.levels.widths[0])
            intervals = f"{intervals} JOIN LATERAL explode({of_interval.bins(width)}) AS {bins}({bin_})"
            keys: Pairs = ((of_interval.bin(of_interval.point, width), bin_),)
        else:
            (points_at, at), (intervals_at, on) = names.new("width"), names.new("width")
            widths = ", ".join(map(double, self.levels.widths))
            points = f"({points} JOIN LATERAL explode(array({widths})) AS {points_at}({at}))"
            intervals = (
                f"{intervals} JOIN LATERAL explode(array({of_interval.level()})) AS {intervals_at}({on})"
                f" JOIN LATERAL explode({of_interval.bins(on)}) AS {bins}({bin_})"
            )
            keys = ((of_interval.bin(of_interval.point, at), bin_), (at, on))
        return _placed(self.band, points, f"({intervals})", keys)


@dataclass(frozen=True)
class SingleAssignment(BandScheme):
    """``VisitBandJoin``: bins for a point in an interval.

    An interval is in a single bin, and a point visits the two bins in which its intervals may be.
    """

    label: ClassVar[str] = "VisitBandJoin"
    band: IntervalBand
    levels: Levels
    measured: bool = False

    @property
    def copied(self) -> tuple[Side, ...]:
        return (self.band.side,)

    @property
    def note(self) -> str:
        lengths = how(self.measured)
        return f"bins longer than intervals, {lengths}; {self.band.side} side copied to two bins of every level"

    def keyed(self, sides: tuple[str, ...], names: NameGenerator) -> Keyed:
        """``bin = bin(low end) AND width = width(interval)``, the former from ``LATERAL explode`` over the points."""
        points, intervals = sides if self.band.side == "left" else sides[::-1]
        (levels, at), (bins, bin_) = names.new("width"), names.new("bin")
        of_interval = IntervalSql(self.band, self.levels)
        widths = ", ".join(map(double, self.levels.widths))
        points = (
            f"({points} JOIN LATERAL explode(array({widths})) AS {levels}({at})"
            f" JOIN LATERAL explode({of_interval.visited(at)}) AS {bins}({bin_}))"
        )
        width, bin_of = of_interval.single_bin()
        return _placed(self.band, points, intervals, ((bin_, bin_of), (at, width)))


def _placed(band: IntervalBand, points: str, intervals: str, keys: Pairs) -> Keyed:
    """Points and intervals as left and right."""
    if band.side == "left":
        return Keyed(points, intervals, keys)
    return Keyed(intervals, points, tuple((b, a) for a, b in keys))


def how(measured: bool) -> str:
    """Notes on the source of the interval lengths."""
    return "lengths measured" if measured else "lengths not measured"
