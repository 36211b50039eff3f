"""Band joins as equi-joins over bins.

``NeighbourBandJoin``, for a band of constant width: every row falls into one bin, and rows meet when their bins are
near.  One side is copied once for each step between bins; each pair meets once, since a row has one bin.

    left    │    x    │         │        x lives in bin 1
    right   │         │  y      │        y lives in bin 2, and its copy at step -1 meets bin 1
            w         2w        3w

``LevelBandJoin``, for a point in an interval: an interval is copied to every bin it touches, on the level whose bins
suit its length; a point is looked up in its one bin of every level.  Each pair meets once, in the point's bin on the
interval's level.

Both only prune: the condition as written stands beside the equality of bins and decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from planner.band import DistanceBand, End, IntervalBand
from planner.bins import EVERYTHING, MOST_BINS, MOST_BINS_FLOAT32, Levels, Neighbours
from planner.expr import Scalar
from planner.linear import Side
from planner.logical import JOIN_KEYWORDS, JoinKind, conjunction
from planner.physical.base import Physical
from planner.physical.rendered import Names
from planner.tree import Node, plan_node

_FARTHEST = "1e15D"  # bins beyond are one bin: DOUBLE counts exactly up to 9e15


class BinJoin(Physical):
    """What joins over bins share: two sides, of which the right one is gone after a semi or anti join."""

    left: Node
    right: Node
    kind: JoinKind

    @property
    def sides(self) -> tuple[Node, ...]:
        """The two inputs."""
        return (self.left, self.right)

    @property
    def output(self) -> tuple[str, ...]:
        kept = self.sides[:1] if self.kind in ("semi", "anti") else self.sides
        return tuple(name for side in kept for name in side.output)  # type: ignore[attr-defined]


@plan_node
class NeighbourBandJoin(BinJoin):
    """A band of constant width, cut into bins; the ``copied`` side is copied to the neighbouring bins."""

    label: ClassVar[str] = "NeighbourBandJoin"
    left: Node
    right: Node
    kind: JoinKind
    band: DistanceBand
    condition: tuple[Scalar, ...]
    bins: Neighbours
    copied: Side = "right"

    def __post_init__(self) -> None:
        _refuse_to_copy(self.kind, self.copied)

    @property
    def detail(self) -> str:
        return _detail(self.kind, self.condition, self.band)

    @property
    def notes(self) -> tuple[str, ...]:
        width = self.band.axis.human(self.bins.width)
        said = f"bins of {width}; {self.copied} side copied to {self.bins.copies} of them"
        if self.band.room:
            said += f"; {self.band.axis.human(self.band.room)} of room at both ends, for changes of clocks"
        return (said,)

    def render(self, sides: tuple[str, ...], names: Names, conjunction: Callable[[tuple[Scalar, ...]], str]) -> str:
        """``left JOIN (right JOIN LATERAL explode(array(-1, 0, 1)) AS n(step)) ON bin(left) = bin(right) + step …``."""
        near, step = names.new("step")
        steps = ", ".join(str(n) for n in self._steps())
        copies = f"LATERAL explode(array({steps})) AS {near}({step})"
        left, right = self._bin(self.band.left.text, left=True), self._bin(self.band.right.text, left=False)
        if self.copied == "right":
            joined = f"{sides[0]}\n{JOIN_KEYWORDS[self.kind]} ({sides[1]} JOIN {copies})"
            equal = f"{left} = {right} + {step}"
        else:
            joined = f"({sides[0]} JOIN {copies})\n{JOIN_KEYWORDS[self.kind]} {sides[1]}"
            equal = f"{left} + {step} = {right}"
        return f"{joined}\nON {equal} AND {conjunction(self.condition)}"

    def _steps(self) -> range:
        bins = self.bins
        return range(bins.first, bins.last + 1) if self.copied == "right" else range(-bins.last, -bins.first + 1)

    def _bin(self, text: str, *, left: bool) -> str:
        axis, bins = self.band.axis, self.bins
        leaf = self.band.left if left else self.band.right
        position = axis.position(text, leaf.type)
        if axis.exact:
            return f"{_grouped(position)} DIV {bins.width}"
        if bins.shift and not left:
            position = f"{position} + {_double(float(bins.shift))}"
        most = _double(float(MOST_BINS_FLOAT32 if axis.float32 else MOST_BINS))
        return f"floor(least(greatest(({position}) / {_double(float(bins.width))}, -{most}), {most}))"


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

    def __post_init__(self) -> None:
        _refuse_to_copy(self.kind, self.copied)
        if len(self.levels.widths) > 1:
            _refuse_to_copy(self.kind, self.band.side)

    @property
    def copied(self) -> Side:
        """The side of the intervals, each of which is copied to the bins it touches."""
        return "right" if self.band.side == "left" else "left"

    @property
    def detail(self) -> str:
        return _detail(self.kind, self.condition, self.band)

    @property
    def notes(self) -> tuple[str, ...]:
        how = "lengths measured" if self.measured else "lengths not measured"
        return (f"bins by length, {how}; {self.copied} side copied to the bins it touches",)

    def render(self, sides: tuple[str, ...], names: Names, conjunction: Callable[[tuple[Scalar, ...]], str]) -> str:
        """``points JOIN (intervals JOIN LATERAL explode(sequence(…)) AS b(bin)) ON bin(point) = b.bin AND …``."""
        points, intervals = sides if self.band.side == "left" else sides[::-1]
        bins, bin_ = names.new("bin")
        say = _IntervalSql(self.band, self.levels)
        if len(self.levels.widths) == 1:
            width = _double(self.levels.widths[0])
            intervals = f"{intervals} JOIN LATERAL explode({say.bins(width)}) AS {bins}({bin_})"
            equal = f"{say.bin(say.point, width)} = {bin_}"
        else:
            (points_at, at), (intervals_at, on) = names.new("width"), names.new("width")
            widths = ", ".join(map(_double, self.levels.widths))
            points = f"({points} JOIN LATERAL explode(array({widths})) AS {points_at}({at}))"
            intervals = (
                f"{intervals} JOIN LATERAL explode(array({say.level()})) AS {intervals_at}({on})"
                f" JOIN LATERAL explode({say.bins(on)}) AS {bins}({bin_})"
            )
            equal = f"{say.bin(say.point, at)} = {bin_} AND {at} = {on}"
        first, second = (points, f"({intervals})") if self.band.side == "left" else (f"({intervals})", points)
        return f"{first}\n{JOIN_KEYWORDS[self.kind]} {second}\nON {equal} AND {conjunction(self.condition)}"


def preserved_sides(kind: JoinKind) -> tuple[Side, ...]:
    """The sides whose rows come out, or are judged, once whatever they match: they must not be copied."""
    if kind == "full":
        return ("left", "right")
    return {"left": ("left",), "semi": ("left",), "anti": ("left",), "right": ("right",)}.get(kind, ())  # type: ignore[return-value]


def _refuse_to_copy(kind: JoinKind, side: Side) -> None:
    if side in preserved_sides(kind):
        raise ValueError(f"the {side} side of a {kind} join must not be copied")


def length_of(band: IntervalBand) -> str:
    """SQL for the length of an interval, as DOUBLE in units of the axis, in terms of the interval side's columns."""
    low, high = _IntervalSql(band, Levels((), 0)).ends()
    return f"{high} - {low}"


def length_classes(lengths: str, *, few: bool) -> str:
    """SQL that sorts the column ``length`` of a query into powers of two: count, total, longest of each."""
    power = "CASE WHEN length > 0 AND length < 1e300D THEN floor(log2(length)) WHEN length > 0 THEN 9999 ELSE -9999 END"
    hint = "/*+ COALESCE(1) */ " if few else ""
    return (
        f"SELECT count(*), sum(length), max(length)\nFROM (SELECT {hint}* FROM (\n{lengths}\n))\n"
        f"WHERE length >= 0\nGROUP BY {power}"
    )


@dataclass(frozen=True)
class _IntervalSql:
    """The SQL of a point, of an interval's ends, and of their bins."""

    band: IntervalBand
    levels: Levels

    @property
    def point(self) -> str:
        return self.band.axis.position(self.band.point.text, self.band.point.type)

    def ends(self) -> tuple[str, str]:
        """The positions of both ends as DOUBLE."""
        return self._real(self.band.low, -1), self._real(self.band.high, 1)

    def bin(self, position: str, width: str) -> str:
        """The number of the bin that a position lies in."""
        if self.band.axis.exact and (self._plain or self.band.axis.small):
            return f"floor({_grouped(position)} / {width})"
        if EVERYTHING in self.levels.widths:
            position = f"least(greatest({position}, -1e300D), 1e300D)"
        return f"floor(least(greatest({_grouped(position)} / {width}, -{_FARTHEST}), {_FARTHEST}))"

    def bins(self, width: str) -> str:
        """The bins that an interval touches: one, whatever it is, when its ends are the wrong way round."""
        low, high = self._end(self.band.low, -1), self._end(self.band.high, 1)
        first, last = self.bin(low, width), self.bin(high, width)
        return f"sequence({first}, greatest({first}, {last}))"

    def level(self) -> str:
        """The width of the bins that suit an interval's length."""
        low, high = self.ends()
        *narrow, widest = self.levels.widths
        reach = self.levels.reach
        cases = " ".join(f"WHEN {high} - {low} <= {_double(w * reach)} THEN {_double(w)}" for w in narrow)
        return f"CASE {cases} ELSE {_double(widest)} END"

    @property
    def _plain(self) -> bool:
        return self.band.low.bare is not None and self.band.high.bare is not None

    def _end(self, end: End, outward: int) -> str:
        leaf = end.bare
        return self.band.axis.position(leaf.text, leaf.type) if leaf and self._plain else self._real(end, outward)

    def _real(self, end: End, outward: int) -> str:
        """An end as a sum of DOUBLEs that cannot raise, moved outward by more than the sum can be off."""
        axis = self.band.axis
        positions = [(sign, axis.real_position(leaf.text, leaf.type)) for sign, leaf in end.terms]
        said = " ".join(f"{'+' if sign > 0 else '-'} {p}" for sign, p in positions).removeprefix("+ ")
        constant = end.constant + end.room
        if constant:
            said += f" {'+' if constant > 0 else '-'} {_double(abs(float(constant)))}"
        if end.bare or axis.small:
            return said if end.bare else f"({said})"
        slack = "1e-6D" if axis.float32 else "1e-15D"
        size = " + ".join(f"abs({p})" for _, p in positions)
        size += f" + {_double(abs(float(constant)))}" if constant else ""
        return f"({said} {'+' if outward > 0 else '-'} ({size}) * {slack})"


def _detail(kind: JoinKind, condition: tuple[Scalar, ...], band: DistanceBand | IntervalBand) -> str:
    rest = tuple(c for c in condition if c not in band.conjuncts)
    return ", ".join([kind, *([conjunction(rest)] if rest else []), str(band)])


def _grouped(text: str) -> str:
    return f"({text})" if (" " in text and not text.endswith(")")) or text.startswith("(") else text


def _double(value: float) -> str:
    """A DOUBLE literal."""
    return f"{repr(value).removesuffix('.0')}D"
