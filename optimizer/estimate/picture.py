"""Draws intervals that become narrower, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import isfinite
from typing import NamedTuple

from dovetail.planner.estimate.clusters import Interval

_NAME, _PLOT, _LINE = 220, 420, 9  # pixels


class Track(NamedTuple):
    """The intervals of one aggregate of one group, the oldest first."""

    name: str
    intervals: Sequence[Interval]


def draw_tracks(tracks: Sequence[Track]) -> str:
    """Draw for each track its intervals below each other, on an axis of its own; the last one is dark."""
    parts: list[str] = []
    top = 0
    for track in tracks:
        shown = [i for i in track.intervals if isfinite(i.low) and isfinite(i.high)]
        if not shown:
            continue
        low, high = float(min(i.low for i in shown)), float(max(i.high for i in shown))
        scale = (_PLOT - 8) / (high - low) if high > low else 0.0
        parts.append(f'<text x="0" y="{top + 12}" font-size="12">{escape(track.name)}</text>')
        for n, interval in enumerate(shown):
            left, right, middle = (
                _NAME + 4 + (float(value) - low) * scale for value in (interval.low, interval.high, interval.estimate)
            )
            y, color = top + 8 + _LINE * n, "#1b5e9b" if n == len(shown) - 1 else "#a9c4de"
            title = f"{interval.estimate:,.6g} from {interval.low:,.6g} to {interval.high:,.6g}"
            parts.append(
                f'<g stroke="{color}" fill="{color}"><title>{title}</title><line x1="{left:.1f}" x2="{right:.1f}" '
                f'y1="{y}" y2="{y}" stroke-width="3"/><circle cx="{middle:.1f}" cy="{y}" r="3"/></g>'
            )
        top += 14 + _LINE * len(shown)
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="{_NAME + _PLOT}" height="{top + 4}">{"".join(parts)}</svg>'
