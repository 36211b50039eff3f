"""Charts: lines over two logarithmic axes, and bars."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10

from docs.programs.svg import Drawing, Point

_LEFT, _RIGHT, _TOP, _BOTTOM = 78, 150, 64, 62


@dataclass(frozen=True)
class Series:
    """A line of a chart: its points, a color of the style sheet, and its name beside its last point.

    ``beyond``: points of a dashed line from the last point on.  ``shift`` moves the name down; ``is_left`` puts it
    before the point.
    """

    name: str
    points: tuple[Point, ...]
    color: str
    beyond: tuple[Point, ...] = ()
    shift: float = 0
    is_left: bool = False


def lines(title: str, description: str, x_name: str, y_name: str, series: list[Series], notes: list[str]) -> Drawing:
    """A chart of lines, with grid lines at the powers of ten."""
    drawing = Drawing(760, 432 + 18 * len(notes), title, description)
    points = [point for one in series for point in (*one.points, *one.beyond)]
    horizontal = _Axis([x for x, _ in points], _LEFT, drawing.width - _RIGHT)
    vertical = _Axis([y for _, y in points], 420 - _BOTTOM, _TOP)
    drawing.text(20, 30, title, "title")
    drawing.text(20, 51, y_name, "note")
    for power in horizontal.powers:
        at = horizontal.place(10**power)
        drawing.line([(at, _TOP), (at, 420 - _BOTTOM)], "grid")
        drawing.text(at, 420 - _BOTTOM + 20, _figure(power), "note", "middle")
    for power in vertical.powers:
        at = vertical.place(10**power)
        drawing.line([(_LEFT, at), (drawing.width - _RIGHT, at)], "grid")
        drawing.text(_LEFT - 10, at + 5, f"{_figure(power)} s", "note", "end")
    drawing.line([(_LEFT, _TOP), (_LEFT, 420 - _BOTTOM), (drawing.width - _RIGHT, 420 - _BOTTOM)], "axis")
    drawing.text((_LEFT + drawing.width - _RIGHT) / 2, 420 - _BOTTOM + 44, x_name, "note", "middle")
    for one in series:
        placed = [(horizontal.place(x), vertical.place(y)) for x, y in one.points]
        beyond = [(horizontal.place(x), vertical.place(y)) for x, y in one.beyond]
        if beyond:
            drawing.line([placed[-1], *beyond], f"{one.color} line dashed")
        drawing.line(placed, f"{one.color} line")
        for x, y in placed:
            drawing.dot(x, y, one.color)
        x, y = [*placed, *beyond][-1]
        offset, anchor = (-8.0, "end") if one.is_left else (10.0, "start")
        drawing.text(x + offset, y + 5 + one.shift, one.name, f"{one.color} word strong", anchor)
    for n, note in enumerate(notes):
        drawing.text(20, 428 + 18 * n, note, "note")
    return drawing


class _Axis:
    """A logarithmic axis from one place of the drawing to another."""

    def __init__(self, values: list[float], start: float, end: float) -> None:
        self.low, self.high = log10(min(values)) - 0.1, log10(max(values)) + 0.1
        self.start, self.end = start, end
        self.powers = range(ceil(self.low), floor(self.high) + 1)

    def place(self, value: float) -> float:
        """Return where a value lies."""
        return self.start + (log10(value) - self.low) / (self.high - self.low) * (self.end - self.start)


def _figure(power: int) -> str:
    if power < 0:
        return f"{10.0**power:g}"
    units = ("", " k", " M", " G")
    return f"{10 ** (power % 3)}{units[power // 3]}"


@dataclass(frozen=True)
class Bar:
    """A bar: its label, its length, and a color of the style sheet.  Empty labels make a gap."""

    label: str
    value: float
    color: str = "a"


def bars(
    title: str,
    bars: list[Bar],
    unit: str,
    notes: list[str],
    *,
    mark: float | None = None,
    unit_in_words: str | None = None,
) -> Drawing:
    """A chart of horizontal bars from 0; ``mark`` draws a line at a value.

    Its description reads the bars, with ``unit_in_words``; a gap behind the last bar is left out.
    """
    bars = bars if bars[-1].label else bars[:-1]
    ending = unit if unit_in_words is None else unit_in_words
    description = "; ".join(f"{bar.label}: {bar.value:g}{ending}" for bar in bars if bar.label)
    top, height, left, right = 60, 26, 290, 90
    drawing = Drawing(760, top + height * len(bars) + 18 * len(notes) + 22, title, description)
    scale = (drawing.width - left - right) / max(bar.value for bar in bars)
    drawing.text(20, 30, title, "title")
    for n, bar in enumerate(bars):
        y = top + height * n
        if bar.label:
            drawing.text(left - 12, y + 15, bar.label, "", "end")
            drawing.box(left, y + 2, max(bar.value * scale, 1), height - 8, bar.color, radius=2)
            drawing.text(left + bar.value * scale + 8, y + 15, f"{bar.value:g}{unit}", "note")
    end = top + height * len(bars)
    if mark is not None:
        drawing.line([(left + mark * scale, top - 8), (left + mark * scale, end)], "axis dashed")
    drawing.line([(left, top - 8), (left, end)], "axis")
    for n, note in enumerate(notes):
        drawing.text(20, end + 22 + 18 * n, note, "note")
    return drawing
