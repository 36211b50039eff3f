"""Bins for two intervals that overlap.

``CommonBin`` (in plans ``CommonBinBandJoin``), where one width of bins suits all: both sides are copied to the bins
they touch.  Two intervals that overlap have bins in common, and the first of these is the one in which the later of
them begins; there the pair is taken.

    left    │    ━━━━━│━━━━━━━━━│━━       │        bins 1, 2, 3
    right   │         │  ━━━━━━━│━━━━━━━━━│        bins 2, 3: taken in bin 2, its first

``TwoPoints`` (``OverlapBandJoin``), where lengths differ too widely for that: the later start lies in the other
interval, so it is two points in intervals, distinguished by which start is the later one.  Each pair is found once, in
the later start's bin.

Both only prune: the original condition is evaluated together with the equality of bins.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from dovetail.planner.band.bins import Levels
from dovetail.planner.band.condition import OverlapBand
from dovetail.planner.band.interval_sql import IntervalSql, double
from dovetail.planner.band.linear import Side
from dovetail.planner.physical.band_join import how
from dovetail.planner.physical.key_join import BandScheme, Keyed
from dovetail.planner.rendered import NameGenerator


@dataclass(frozen=True)
class CommonBin(BandScheme):
    """``CommonBinBandJoin``: bins for two intervals that overlap.

    Each is copied to the bins it touches; a pair is taken in the first common bin.
    """

    label: ClassVar[str] = "CommonBinBandJoin"
    band: OverlapBand
    width: float

    @property
    def copied(self) -> tuple[Side, ...]:
        return ("left", "right")

    @property
    def note(self) -> str:
        width = self.band.axis.human(Fraction(self.width))
        return f"bins of {width}, lengths measured; both sides copied to the bins they touch, pairs meet in the first"

    def keyed(self, sides: tuple[str, ...], names: NameGenerator) -> Keyed:
        """``bin = bin``, each from ``LATERAL explode(sequence(first, last))``; also, it is the later of both firsts."""
        found, firsts, keys = [], [], []
        for side, interval in zip(sides, (self.band.in_left, self.band.in_right), strict=True):
            bins, bin_ = names.new("bin")
            first, touched = IntervalSql(interval).touched(self.width, whole=self._whole)
            found.append(f"({side} JOIN LATERAL explode({touched}) AS {bins}({bin_}))")
            firsts.append(first)
            keys.append(bin_)
        later = f"greatest({', '.join(firsts)})"
        return Keyed(found[0], found[1], ((keys[0], keys[1]),), lambda keys: (f"{keys[0]} = {later}",))

    @property
    def _whole(self) -> bool:
        """Whether all ends are plain integers, so that bins can be computed by integer division."""
        bands = self.band.in_left, self.band.in_right
        return self.band.axis.exact and all(end.bare for band in bands for end in (band.low, band.high))


@dataclass(frozen=True)
class TwoPoints(BandScheme):
    """``OverlapBandJoin``: bins for two intervals that overlap.

    Each is copied to its bins, and its start is looked up in the bins of the other side.
    """

    label: ClassVar[str] = "OverlapBandJoin"
    band: OverlapBand
    left_levels: Levels
    right_levels: Levels
    measured: bool = False

    @property
    def copied(self) -> tuple[Side, ...]:
        return ("left", "right")

    @property
    def note(self) -> str:
        return f"bins by length, {how(self.measured)}; pairs meet in the bin of the later start"

    def keyed(self, sides: tuple[str, ...], names: NameGenerator) -> Keyed:
        """Keys are the bin, and the width of the bins, negative where the right side has the interval."""
        in_left = IntervalSql(self.band.in_left, self.left_levels)
        in_right = IntervalSql(self.band.in_right, self.right_levels)
        (left_at, at), (left_bins, bin_) = names.new("width"), names.new("bin")
        (right_at, on), (right_bins, bin2) = names.new("width"), names.new("bin")
        left_widths = ", ".join(map(double, self.left_levels.widths))
        right_widths = ", ".join(f"-{double(w)}" for w in self.right_levels.widths)
        left_bin = in_right.bin(in_right.point, f"-{at}")
        right_bin = in_left.bin(in_left.point, on)
        left = (
            f"({sides[0]} JOIN LATERAL explode(array({in_left.level()}, {right_widths})) AS {left_at}({at})"
            f" JOIN LATERAL explode(CASE WHEN {at} > 0 THEN {in_left.bins(at)} ELSE array({left_bin}) END)"
            f" AS {left_bins}({bin_}))"
        )
        right = (
            f"({sides[1]} JOIN LATERAL explode(array({left_widths}, -({in_right.level()}))) AS {right_at}({on})"
            f" JOIN LATERAL explode(CASE WHEN {on} > 0 THEN array({right_bin}) ELSE {in_right.bins(f'-{on}')} END)"
            f" AS {right_bins}({bin2}))"
        )
        starts = [self.band.in_right.point.text, self.band.in_left.point.text]
        if self.band.in_right.null_points or self.band.in_left.null_points:
            starts = [in_right.point, in_left.point]
        earlier = " < ".join(starts)
        return Keyed(left, right, ((bin_, bin2), (at, on)), lambda keys: (f"({keys[1]} > 0) = ({earlier})",))
