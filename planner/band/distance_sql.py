"""The SQL of the bins that rows fall into by a band of constant width."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dovetail.planner.band.axis import real
from dovetail.planner.band.bins import MOST_BINS, MOST_BINS_FLOAT32, FixedWidthBins, halved
from dovetail.planner.band.condition import DistanceBand
from dovetail.planner.band.interval_sql import double, grouped
from dovetail.planner.band.linear import Side


@dataclass(frozen=True)
class DistanceSql:
    """A band of constant width, binned."""

    band: DistanceBand
    bins: FixedWidthBins

    def bin_of(self, side: Side) -> str:
        """The bin that a row of a side lies in."""
        return self._bin(self._position(side))

    def touched(self, side: Side) -> str:
        """The bins of the other side that the band of a row touches."""
        low, high = self.bins.low, self.bins.high
        first, last = (low, high) if side == "right" else (-high, -low)
        return f"sequence({self._bin(self._position(side), first)}, {self._bin(self._position(side), last)})"

    def _position(self, side: Side) -> str:
        leaf = self.band.left if side == "left" else self.band.right
        return grouped(self.band.axis.position(leaf.text, leaf.type))

    def _bin(self, position: str, added: Fraction | None = None) -> str:
        """The bin number of a shifted position: an integer that grows with the position."""
        axis, width = self.band.axis, self.bins.width
        if axis.exact:
            if added is None:
                return f"{position} DIV {width}"
            if halved(axis):
                position, added, width = f"{position} DIV 2", added / 2, width / 2
            return f"({position}{_plus(added, 'L')}) DIV {width}" if added else f"{position} DIV {width}"
        most = double(float(MOST_BINS_FLOAT32 if axis.float32 else MOST_BINS))
        quotient = f"{position} / {double(real(width))}"
        if added is not None:
            share = real(added / width)
            quotient += f" {'-' if share < 0 else '+'} {double(abs(share))}"
        return f"floor(least(greatest({quotient}, -{most}), {most}))"


def _plus(amount: Fraction, suffix: str) -> str:
    return f" {'-' if amount < 0 else '+'} {abs(amount)}{suffix}"
