"""Bands: conditions that keep a value of one side of a join between two ends.

    DistanceBand   a.x - b.y in [-250, 250]        both ends are the same leaf and a constant
    IntervalBand   p.x between i.lo and i.hi       anything else
    OverlapBand    a.s <= b.e and b.s <= a.e       the later of both starts lies in the other interval

A band is used to prune, never to decide: it has to hold for every pair for which the condition is true, and may hold
for more.  So strict and closed bounds are the same here, and ``axis.py`` widens bounds where Spark's arithmetic
differs from real numbers (rounding, calendar days).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

from dovetail.planner.band.axis import Axis
from dovetail.planner.band.linear import Leaf, Side
from dovetail.planner.expr import Scalar

B = TypeVar("B", bound="Band")


@dataclass(frozen=True)
class End:
    """An end of an interval:  Σ sign·leaf + constant, in units of the axis.

    ``room``: the greatest distance by which the exact end may lie further outward, since months and days differ in
    length.  ``as_date``: it is compared as a DATE, on an axis of timestamps, so that it may lie beyond all of them.
    ``endless``: NULL means that the interval has no end here, so that it is unbounded on this side.
    """

    terms: tuple[tuple[int, Leaf], ...]
    constant: Fraction = Fraction(0)
    room: Fraction = Fraction(0)
    as_date: bool = False
    endless: bool = False

    @property
    def bare(self) -> Leaf | None:
        """The leaf, if the end is a single leaf with nothing added."""
        alone = len(self.terms) == 1 and self.terms[0][0] == 1
        return self.terms[0][1] if alone and not self.constant and not self.room and not self.as_date else None


@dataclass(frozen=True)
class DistanceBand:
    """``left - right`` lies in [``low``, ``high``], in units of the axis."""

    left: Leaf
    right: Leaf
    low: Fraction
    high: Fraction
    axis: Axis
    conjuncts: tuple[Scalar, ...]
    room: Fraction = Fraction(0)  # as in ``End``, of both ends
    implied: bool = False  # by a conjunct, which says more than this difference

    def __str__(self) -> str:
        low, high = self.axis.human(self.low), self.axis.human(self.high)
        return f"{self.left.text} - {self.right.text} in [{low}, {high}]"


@dataclass(frozen=True)
class IntervalBand:
    """``point``, on ``side``, lies between ``low`` and ``high``, on the other side.

    ``null_points``: a point that is NULL may match as well, and lies below all others.
    """

    point: Leaf
    side: Side
    low: End
    high: End
    axis: Axis
    conjuncts: tuple[Scalar, ...]
    null_points: bool = False

    def __str__(self) -> str:
        return f"{self.point.text} between {self.show(self.low)} and {self.show(self.high)}"

    def show(self, end: End) -> str:
        """Format an end for plans."""
        text = ""
        for sign, leaf in end.terms:
            text += (" + " if sign > 0 else " - ") + leaf.text if text else ("" if sign > 0 else "-") + leaf.text
        if end.constant:
            text += (" + " if end.constant > 0 else " - ") + self.axis.human(abs(end.constant))
        return f"{text} (NULL: no end)" if end.endless else text

    @property
    def endless(self) -> bool:
        """Whether intervals may have no end on one side."""
        return self.low.endless or self.high.endless


@dataclass(frozen=True)
class OverlapBand:
    """``left_start <= right_end and right_start <= left_end``, as two bands; every pair satisfies one of them.

    Where the left start is the earlier one, the right start lies in the left interval (``in_left``); where it is not,
    the left start lies in the right interval (``in_right``).  That holds for intervals whose ends are the wrong way
    round, too, and so for containment: ``a.s >= b.s and a.e <= b.e`` is such a pair with a's ends exchanged.
    """

    in_left: IntervalBand
    in_right: IntervalBand
    axis: Axis
    conjuncts: tuple[Scalar, ...]

    def __str__(self) -> str:
        one, other = self.in_right, self.in_left
        return f"{one.point.text} <= {one.show(one.high)} and {other.point.text} <= {other.show(other.high)}"


Band = DistanceBand | IntervalBand | OverlapBand


def leaves_of(band: Band) -> tuple[tuple[Side, Leaf], ...]:
    """The leaves of a band, each with the side that it is computed on."""
    if isinstance(band, DistanceBand):
        return ("left", band.left), ("right", band.right)
    if isinstance(band, OverlapBand):
        return (*leaves_of(band.in_left), *leaves_of(band.in_right))
    other: Side = "right" if band.side == "left" else "left"
    return (band.side, band.point), *((other, leaf) for end in (band.low, band.high) for _, leaf in end.terms)


def map_leaves(band: B, fn: Callable[[Leaf], Leaf]) -> B:
    """A band with ``fn`` applied to its leaves."""
    if isinstance(band, OverlapBand):
        return replace(band, in_left=map_leaves(band.in_left, fn), in_right=map_leaves(band.in_right, fn))
    if isinstance(band, DistanceBand):
        return replace(band, left=fn(band.left), right=fn(band.right))
    low, high = (replace(end, terms=tuple((s, fn(leaf)) for s, leaf in end.terms)) for end in (band.low, band.high))
    return replace(band, point=fn(band.point), low=low, high=high)
