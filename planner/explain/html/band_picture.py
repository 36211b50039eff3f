"""Pictures of band joins: bins on a line, the rows in them, and the measured lengths of intervals.

Bins of one width have a lane for each side.  Bins by length have a lane for each level, on which a point has its bin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import pairwise
from math import log10

from dovetail.planner.band.axis import Axis
from dovetail.planner.band.bins import EVERYTHING, Levels
from dovetail.planner.band.condition import IntervalBand
from dovetail.planner.explain.html.drawing import Box, Drawing, Label, Line
from dovetail.planner.explain.records import Choice, CostNote, MeasuredLengths
from dovetail.planner.physical.band_join import ByLength, FixedWidth, SingleAssignment
from dovetail.planner.physical.key_join import BandScheme, KeyJoin
from dovetail.planner.physical.overlap_band_join import CommonBin, TwoPoints
from dovetail.planner.tree import Node

_WIDTH, _LEFT, _RIGHT = 420, 6, 414
_LANE, _BAR = 24, 12
_MOST_LANES = 5
_LEAST_RANGE = 1.0  # powers of ten on the line of a histogram
_MOST_PICTURES = 8
_OTHER = {"left": "right", "right": "left"}


def band_pictures(plan: Node | None, decisions: Iterable[Choice | CostNote]) -> list[Drawing]:
    """The pictures of the band joins of a plan, in the order of the plan, with the lengths that were measured."""
    measured = {
        (lengths.band, lengths.side): lengths
        for decision in decisions
        if isinstance(decision, Choice)
        for lengths in decision.chosen.lengths
    }
    drawings: list[Drawing] = []
    for node in plan.walk() if plan is not None else ():
        if isinstance(node, KeyJoin) and isinstance(node.scheme, BandScheme):
            drawings += _pictures(node.scheme, measured)
    return drawings[:_MOST_PICTURES]


def _pictures(scheme: BandScheme, measured: dict[tuple[str, str], MeasuredLengths]) -> list[Drawing]:
    axis, band = scheme.band.axis, str(scheme.band)
    lengths = [measured[band, side] for side in ("left", "right") if (band, side) in measured]
    match scheme:
        case FixedWidth():
            return [_fixed_width(scheme)]
        case CommonBin():
            marks = {"left": (scheme.width,), "right": (scheme.width,)}
            return [_common_bin(scheme), *(_histogram(one, marks[one.side], axis) for one in lengths)]
        case ByLength() | SingleAssignment():
            visited = 2 if isinstance(scheme, SingleAssignment) else 1
            picture = _level_lanes(scheme.band, scheme.levels, visited)
            return [picture, *(_histogram(one, scheme.levels.widths, axis) for one in lengths)]
        case TwoPoints():
            by_side = {"left": scheme.left_levels, "right": scheme.right_levels}
            pictures = [
                _level_lanes(inside, by_side[_OTHER[inside.side]], 1)
                for inside in (scheme.band.in_left, scheme.band.in_right)
            ]
            return [*pictures, *(_histogram(one, by_side[one.side].widths, axis) for one in lengths)]
    return []


def _bins(drawing: Drawing, y: float, edges: Sequence[float], touched: Iterable[int]) -> None:
    """A lane of bins; those that a row touches are filled."""
    for n in touched:
        if 0 <= n < len(edges) - 1:
            drawing.boxes.append(Box(edges[n], y, edges[n + 1] - edges[n], _LANE, "bin"))
    drawing.lines += [Line(x, y, x, y + _LANE, "edge") for x in edges]
    drawing.lines.append(Line(_LEFT, y + _LANE, _RIGHT, y + _LANE, "edge"))


def _bar(drawing: Drawing, y: float, x1: float, x2: float) -> None:
    drawing.boxes.append(Box(x1, y + (_LANE - _BAR) / 2, x2 - x1, _BAR, "interval"))


def _point(drawing: Drawing, y: float, x: float) -> None:
    drawing.boxes.append(Box(x - 4, y + _LANE / 2 - 4, 8, 8, "point"))


def _indices(edges: Sequence[float], x1: float, x2: float) -> list[int]:
    """The bins that a stretch of the line touches."""
    return [n for n, (a, b) in enumerate(pairwise(edges)) if a <= x2 and x1 < b]


def _even(count: int) -> list[float]:
    step = (_RIGHT - _LEFT) / count
    return [_LEFT + step * n for n in range(count + 1)]


def _human(axis: Axis, width: float) -> str:
    """Format a length, rounded to three digits."""
    if width >= EVERYTHING:
        return "no end"
    digits = 2 - int(log10(width)) if width >= 1 else 3
    return axis.human(Fraction(round(width, digits)).limit_denominator(1000))


def _fixed_width(scheme: FixedWidth) -> Drawing:
    """A row of the copied side with the bins that its band touches, and a row of the other side in its one bin."""
    axis, bins, moved = scheme.band.axis, scheme.bins, scheme.moved
    span = float((bins.high - bins.low) / bins.width)
    shown = min(span, 7.4)
    count = max(5, int(shown) + 4)
    edges = _even(count)
    step = edges[1] - edges[0]
    start = edges[2] - 0.45 * shown * step if shown <= 1 else edges[1] + 0.45 * step
    end = start + shown * step
    point = start + 0.7 * (end - start)
    width = axis.human(bins.width)
    drawing = Drawing(f"Bins of {width} for {scheme.band}", _WIDTH)
    touched, hit = _indices(edges, start, end), _indices(edges, point, point)
    rows = (
        (f"a {moved} row and its band: a copy in each bin that the band touches", touched),
        (f"a {_OTHER[moved]} row: in one bin", hit),
    )
    y = 0.0
    for number, (text, filled) in enumerate(rows):
        drawing.labels.append(Label(_LEFT, y + 13, text))
        y += 19
        _bins(drawing, y, edges, filled)
        if number:
            _point(drawing, y, point)
        else:
            _bar(drawing, y, start, max(end, start + 4))
        y += _LANE + 8
    _scale(drawing, y, edges[0], edges[1], width)
    drawing.height = int(y + 24)
    scale = "" if shown == span else " The band is wider than drawn."
    drawing.caption = (
        f"{scheme.band}: bins of {width}; a {moved} row has {bins.copies:.2g} copies on average. Two rows whose "
        f"difference lies in the band share exactly one bin, so Spark joins on the number of the bin.{scale}"
    )
    return drawing


def _common_bin(scheme: CommonBin) -> Drawing:
    """Two intervals that overlap, both copied to the bins they touch; they meet in the first common bin."""
    width = _human(scheme.band.axis, scheme.width)
    drawing, edges = Drawing(f"Bins of {width} for {scheme.band}", _WIDTH), _even(6)
    step, y = edges[1] - edges[0], 0.0
    first = edges[2]
    for text, start, end in (("a left interval", 0.5, 3.3), ("a right interval", 2.3, 4.6)):
        x1, x2 = edges[0] + start * step, edges[0] + end * step
        drawing.labels.append(Label(_LEFT, y + 13, f"{text}: a copy in each bin that it touches"))
        y += 19
        _bins(drawing, y, edges, _indices(edges, x1, x2))
        _bar(drawing, y, x1, x2)
        drawing.boxes.append(Box(first, y, step, _LANE, "meeting"))
        y += _LANE + 8
    _scale(drawing, y, edges[0], edges[1], width)
    drawing.height = int(y + 24)
    drawing.caption = (
        f"{scheme.band}: both sides have bins of {width}. A pair is taken in the first bin that both intervals touch "
        "(outlined), so that it is found once."
    )
    return drawing


def _level_lanes(band: IntervalBand, levels: Levels, visited: int) -> Drawing:
    """A lane of bins for each level; an interval on one of them, and a point in its bins on every level."""
    axis, all_widths = band.axis, levels.widths
    chosen = _spread(len(all_widths))
    intervals = _OTHER[band.side]
    drawing = Drawing(f"Levels of bins for {band}", _WIDTH)
    x1, x2 = _LEFT + 0.53 * (_RIGHT - _LEFT), _LEFT + 0.69 * (_RIGHT - _LEFT)
    point = _LEFT + 0.62 * (_RIGHT - _LEFT)
    finite = [n for n in chosen if all_widths[n] < EVERYTHING]
    home = finite[len(finite) // 2] if finite else chosen[0]
    y, top = 0.0, 19.0
    for lane, n in enumerate(chosen):
        width, text = all_widths[n], f"bins of {_human(axis, all_widths[n])}"
        if width >= EVERYTHING:
            text = "one bin for any length"
        bar = f"; an interval of the {intervals} side (bar)" if n == home else ""
        drawing.labels.append(Label(_LEFT, y + 13, f"level {n + 1} of {len(all_widths)}: {text}{bar}"))
        y += 19
        edges = _even(1 if width >= EVERYTHING else max(2, 24 >> lane))
        here = _indices(edges, point, point)
        probed = [here[0] - k for k in range(visited)]
        _bins(drawing, y, edges, probed)
        if n == home:
            _bar(drawing, y, x1, x2)
        y += _LANE + 8
    drawing.lines.append(Line(point, top, point, y + 4, "probe"))
    _point(drawing, y - _LANE / 2 + 5, point)
    drawing.labels.append(Label(point + 8, y + 9, f"a {band.side} point"))
    drawing.height = int(y + 18)
    drawing.caption = (
        f"{band}: each interval of the {intervals} side (bar) lives on the level whose bins suit its length. A point "
        f"of the {band.side} side is looked up in {'its bin' if visited == 1 else 'its bin and the bin before it'} on "
        f"every level (filled). The widths are not to scale."
    )
    if visited == 1 and len(all_widths) == 1:
        drawing.caption = (
            f"{band}: each interval of the {intervals} side (bar) is copied to the bins that it touches. A point of "
            f"the {band.side} side lies in one bin (filled). The widths are not to scale."
        )
    return drawing


def _spread(count: int) -> list[int]:
    """At most a few of the levels, the first and the last included."""
    if count <= _MOST_LANES:
        return list(range(count))
    return sorted({round(n * (count - 1) / (_MOST_LANES - 1)) for n in range(_MOST_LANES)})


def _scale(drawing: Drawing, y: float, x1: float, x2: float, text: str) -> None:
    """The width of a bin below its first bin."""
    drawing.lines += [
        Line(x1, y, x2, y, "edge"),
        Line(x1, y - 4, x1, y + 4, "edge"),
        Line(x2, y - 4, x2, y + 4, "edge"),
    ]
    drawing.labels.append(Label(x1, y + 17, text))


def _below(x: float, text: str) -> Label:
    """The label of a bar, which stays inside the drawing."""
    if x < _WIDTH / 4:
        return Label(max(_LEFT, x - 4), 105, text)
    if x > _WIDTH * 3 / 4:
        return Label(min(_RIGHT, x + 4), 105, text, "end")
    return Label(x, 105, text, "middle")


def _histogram(lengths: MeasuredLengths, widths: Sequence[float], axis: Axis) -> Drawing:
    """The measured lengths of a side as bars, on a logarithmic line, with the widths of the bins."""
    total = sum(count for _, count in lengths.classes)
    drawing = Drawing(f"Measured lengths of {total:,} intervals of the {lengths.side} side", _WIDTH, 112)
    finite = [(max(length, 0.0), count) for length, count in lengths.classes if length < EVERYTHING]
    ends = [width for width in widths if width < EVERYTHING]
    endless = total - sum(count for _, count in finite)
    at = _logarithmic([*(length for length, _ in finite), *ends])
    most = max((count for _, count in finite), default=1)
    for length, count in finite:
        height = max(2.0, 70 * count / most)
        drawing.boxes.append(Box(at(length) - 4, 90 - height, 8, height, "interval"))
    drawing.lines.append(Line(_LEFT, 90, _RIGHT, 90, "edge"))
    drawing.lines += [Line(at(width), 12, at(width), 90, "probe") for width in ends]
    if finite:
        shortest, longest = (f(length for length, _ in finite) for f in (min, max))
        drawing.labels.append(_below(at(shortest), _human(axis, shortest) if shortest > 0 else "0"))
        if at(longest) - at(shortest) > _WIDTH / 2:
            drawing.labels.append(_below(at(longest), _human(axis, longest)))
    marks = " The dashed lines are the widths of the bins." if ends else ""
    drawing.caption = (
        f"The measured lengths of {total:,} intervals of the {lengths.side} side, a bar for each class of lengths, on "
        f"a logarithmic line.{marks}{f' {endless:,} of them have no end.' if endless else ''}"
    )
    return drawing


def _logarithmic(values: Iterable[float]) -> Callable[[float], float]:
    """The place of each value on a logarithmic line that shows them all; zero stands at its left end."""
    positive = [value for value in values if value > 0]
    low, high = log10(min(positive, default=1.0)), log10(max(positive, default=1.0))
    room = max(high - low, _LEAST_RANGE)
    low -= (room - (high - low)) / 2  # values that hardly differ stand together, in the middle

    def at(value: float) -> float:
        return _LEFT + 14 + (_RIGHT - _LEFT - 28) * ((log10(value) - low) / room if value > 0 else 0)

    return at
