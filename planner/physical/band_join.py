"""Band joins as equi-joins over bins.

``NeighbourBandJoin``, for a band of constant width: every row falls into one bin, and rows meet when their bins are
near.  One side is copied once for each step between bins; each pair meets once, since a row has one bin.

    left    │    x    │         │        x lives in bin 1
    right   │         │  y      │        y lives in bin 2, and its copy at step -1 meets bin 1
            w         2w        3w

``LevelBandJoin``, for a point in an interval: an interval is copied to every bin it touches, on the level whose bins
suit its length; a point is looked up in its one bin of every level.  Each pair meets once, in the point's bin on the
interval's level.

``VisitBandJoin``, for the same where intervals are few copies dearer or must come out once: an interval stands in the
one bin where it begins, on a level whose bins are longer than it; a point visits its bin and the one before.

``OverlapBandJoin``, for intervals that overlap: the later start lies in the other interval, so it is two points in
intervals, told apart by which start is the later one.  Each pair meets once, in the bin of the later start.

All of them only prune: the condition as written stands beside the equality of bins and decides.
"""

from __future__ import annotations

from typing import ClassVar

from planner.band import Band, DistanceBand, IntervalBand, OverlapBand
from planner.bins import MOST_BINS, MOST_BINS_FLOAT32, Levels, Neighbours
from planner.expr import Scalar
from planner.hints import SideHint
from planner.linear import Side
from planner.logical import JoinKind, conjunction
from planner.physical.bin_join import BinJoin, Keyed
from planner.physical.interval_sql import IntervalSql, double, grouped
from planner.physical.rendered import Names
from planner.tree import Node, plan_node

Named = tuple[tuple[str, ...], tuple[str, ...]]


@plan_node
class NeighbourBandJoin(BinJoin):
    """A band of constant width, cut into bins; the ``moved`` side is copied to the neighbouring bins."""

    label: ClassVar[str] = "NeighbourBandJoin"
    left: Node
    right: Node
    kind: JoinKind
    band: DistanceBand
    condition: tuple[Scalar, ...]
    bins: Neighbours
    moved: Side = "right"
    named: Named = ((), ())
    hints: tuple[SideHint, ...] = ()
    build: Side | None = None

    @property
    def copied(self) -> tuple[Side, ...]:
        return (self.moved,)

    @property
    def detail(self) -> str:
        return _detail(self.kind, self.condition, self.band)

    @property
    def notes(self) -> tuple[str, ...]:
        width = self.band.axis.human(self.bins.width)
        said = f"bins of {width}; {self.moved} side copied to {self.bins.copies} of them"
        if self.band.room:
            said += f"; {self.band.axis.human(self.band.room)} of room at both ends, for changes of clocks"
        return (said, *self.more_notes)

    def keyed(self, sides: tuple[str, ...], names: Names) -> Keyed:
        """``bin(left) = bin(right) + step``, the steps from ``LATERAL explode(array(-1, 0, 1))``."""
        near, step = names.new("step")
        steps = ", ".join(str(n) for n in self._steps())
        copies = f"LATERAL explode(array({steps})) AS {near}({step})"
        left, right = self._bin(self.band.left.text, left=True), self._bin(self.band.right.text, left=False)
        if self.moved == "right":
            return Keyed(sides[0], f"({sides[1]} JOIN {copies})", ((left, f"{right} + {step}"),))
        return Keyed(f"({sides[0]} JOIN {copies})", sides[1], ((f"{left} + {step}", right),))

    def _steps(self) -> range:
        bins = self.bins
        return range(bins.first, bins.last + 1) if self.moved == "right" else range(-bins.last, -bins.first + 1)

    def _bin(self, text: str, *, left: bool) -> str:
        axis, bins = self.band.axis, self.bins
        leaf = self.band.left if left else self.band.right
        position = axis.position(text, leaf.type)
        if axis.exact:
            return f"{grouped(position)} DIV {bins.width}"
        if bins.shift and not left:
            position = f"{position} + {double(float(bins.shift))}"
        most = double(float(MOST_BINS_FLOAT32 if axis.float32 else MOST_BINS))
        return f"floor(least(greatest(({position}) / {double(float(bins.width))}, -{most}), {most}))"


@plan_node
class LevelBandJoin(BinJoin):
    """A point in an interval, cut into bins by the length of the interval."""

    label: ClassVar[str] = "LevelBandJoin"
    left: Node
    right: Node
    kind: JoinKind
    band: IntervalBand
    condition: tuple[Scalar, ...]
    levels: Levels
    measured: bool = False
    named: Named = ((), ())
    hints: tuple[SideHint, ...] = ()
    build: Side | None = None

    @property
    def copied(self) -> tuple[Side, ...]:
        return (self._intervals,) if len(self.levels.widths) == 1 else ("left", "right")

    @property
    def _intervals(self) -> Side:
        return "right" if self.band.side == "left" else "left"

    @property
    def detail(self) -> str:
        return _detail(self.kind, self.condition, self.band)

    @property
    def notes(self) -> tuple[str, ...]:
        said = f"bins by length, {_how(self)}; {self._intervals} side copied to the bins it touches"
        return (said, *self.more_notes)

    def keyed(self, sides: tuple[str, ...], names: Names) -> Keyed:
        """``bin(point) = bin``, from ``LATERAL explode(sequence(…))``; on several levels, the width as well."""
        points, intervals = sides if self.band.side == "left" else sides[::-1]
        bins, bin_ = names.new("bin")
        say = IntervalSql(self.band, self.levels)
        if len(self.levels.widths) == 1:
            width = double(self.levels.widths[0])
            intervals = f"{intervals} JOIN LATERAL explode({say.bins(width)}) AS {bins}({bin_})"
            keys: tuple[tuple[str, str], ...] = ((say.bin(say.point, width), bin_),)
        else:
            (points_at, at), (intervals_at, on) = names.new("width"), names.new("width")
            widths = ", ".join(map(double, self.levels.widths))
            points = f"({points} JOIN LATERAL explode(array({widths})) AS {points_at}({at}))"
            intervals = (
                f"{intervals} JOIN LATERAL explode(array({say.level()})) AS {intervals_at}({on})"
                f" JOIN LATERAL explode({say.bins(on)}) AS {bins}({bin_})"
            )
            keys = ((say.bin(say.point, at), bin_), (at, on))
        return _placed(self.band, points, f"({intervals})", keys)


@plan_node
class VisitBandJoin(BinJoin):
    """A point in an interval; an interval stands in one bin, and points visit the two bins where theirs may stand."""

    label: ClassVar[str] = "VisitBandJoin"
    left: Node
    right: Node
    kind: JoinKind
    band: IntervalBand
    condition: tuple[Scalar, ...]
    levels: Levels
    measured: bool = False
    named: Named = ((), ())
    hints: tuple[SideHint, ...] = ()
    build: Side | None = None

    @property
    def copied(self) -> tuple[Side, ...]:
        return (self.band.side,)

    @property
    def detail(self) -> str:
        return _detail(self.kind, self.condition, self.band)

    @property
    def notes(self) -> tuple[str, ...]:
        said = f"bins longer than intervals, {_how(self)}; {self.band.side} side copied to two bins of every level"
        return (said, *self.more_notes)

    def keyed(self, sides: tuple[str, ...], names: Names) -> Keyed:
        """``bin = bin(low end) AND width = width(interval)``, the former from ``LATERAL explode`` over the points."""
        points, intervals = sides if self.band.side == "left" else sides[::-1]
        (levels, at), (bins, bin_) = names.new("width"), names.new("bin")
        say = IntervalSql(self.band, self.levels)
        widths = ", ".join(map(double, self.levels.widths))
        points = (
            f"({points} JOIN LATERAL explode(array({widths})) AS {levels}({at})"
            f" JOIN LATERAL explode({say.visited(at)}) AS {bins}({bin_}))"
        )
        width, bin_of = say.standing()
        return _placed(self.band, points, intervals, ((bin_, bin_of), (at, width)))


@plan_node
class OverlapBandJoin(BinJoin):
    """Two intervals that overlap, cut into bins; each stands in its bins, and its start is looked up in the other's."""

    label: ClassVar[str] = "OverlapBandJoin"
    left: Node
    right: Node
    kind: JoinKind
    band: OverlapBand
    condition: tuple[Scalar, ...]
    left_levels: Levels
    right_levels: Levels
    measured: bool = False
    named: Named = ((), ())
    hints: tuple[SideHint, ...] = ()
    build: Side | None = None

    @property
    def copied(self) -> tuple[Side, ...]:
        return ("left", "right")

    @property
    def detail(self) -> str:
        return _detail(self.kind, self.condition, self.band)

    @property
    def notes(self) -> tuple[str, ...]:
        return (f"bins by length, {_how(self)}; pairs meet in the bin of the later start", *self.more_notes)

    def keyed(self, sides: tuple[str, ...], names: Names) -> Keyed:
        """Keys are the width of the bins, negative where the right side has the interval, and the bin."""
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
        earlier = f"{self.band.in_right.point.text} < {self.band.in_left.point.text}"
        return Keyed(left, right, ((at, on), (bin_, bin2)), lambda keys: (f"({keys[0]} > 0) = ({earlier})",))


def _placed(band: IntervalBand, points: str, intervals: str, keys: tuple[tuple[str, str], ...]) -> Keyed:
    """Points and intervals as left and right."""
    if band.side == "left":
        return Keyed(points, intervals, keys)
    return Keyed(intervals, points, tuple((b, a) for a, b in keys))


def _how(join: LevelBandJoin | VisitBandJoin | OverlapBandJoin) -> str:
    return "lengths measured" if join.measured else "lengths not measured"


def _detail(kind: JoinKind, condition: tuple[Scalar, ...], band: Band) -> str:
    rest = tuple(c for c in condition if c not in band.conjuncts)
    return ", ".join([kind, *([conjunction(rest)] if rest else []), str(band)])
