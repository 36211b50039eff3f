"""The state of a join of two streams over time: how long each row is held, and when the watermark lets it go."""

from __future__ import annotations

from docs.programs.svg import Drawing

_LEFT, _SECOND, _TOP = 150, 12.2, 92
_CLICKS = (3, 8, 16, 21, 30)
_VIEWS = (1, 6, 13, 19, 27)
_REACH = 10
_DELAY = 8
_NOW = 32


def state() -> Drawing:
    """Draw a bar from the time of each row to the watermark that removes it, and the number of rows held below."""
    rows = sorted([(at, at, "a") for at in _CLICKS] + [(at, at + _REACH, "b") for at in _VIEWS])
    bottom = _TOP + 22 * len(rows) + 6
    drawing = Drawing(
        760,
        bottom + 172,
        "The state of a join of two streams",
        "Each row is held until the watermark says that nothing that still arrives can match it: a click until the "
        "watermark has passed its own time, a view ten seconds longer. So the number of rows held stays bounded.",
    )
    drawing.text(20, 30, "c.ts BETWEEN v.ts AND v.ts + INTERVAL 10 SECONDS, watermarks of 8 seconds", "title")
    drawing.text(20, 54, "A bar is the time for which a row is held, if it arrives at its own time.", "note")
    now = _LEFT + _NOW * _SECOND
    for n, (at, until, color) in enumerate(rows):
        y, leaves = _TOP + 22 * n, until + _DELAY
        held = "" if at <= _NOW < leaves else " faded"
        drawing.box(_LEFT + at * _SECOND, y, (leaves - at) * _SECOND, 12, color + held, radius=2)
        name = "click" if color == "a" else "view"
        drawing.text(_LEFT - 12, y + 11, f"{name} of second {at}", f"{color} word", "end")
    drawing.line([(now, _TOP - 12), (now, bottom)], "axis dashed")
    drawing.text(now - 8, _TOP - 10, f"now: second {_NOW}, watermark: second {_NOW - _DELAY}", "note", "end")
    base, unit = bottom + 112, 10
    drawing.text(_LEFT - 12, base - 40, "rows held", "c word strong", "end")
    steps = []
    for second in range(46):
        held_rows = sum(at <= second < until + _DELAY for at, until, _ in rows)
        steps += [
            (_LEFT + second * _SECOND, base - held_rows * unit),
            (_LEFT + (second + 1) * _SECOND, base - held_rows * unit),
        ]
    drawing.line(steps, "c line")
    drawing.line([(_LEFT, base), (_LEFT + 46 * _SECOND, base)], "axis")
    for second in range(0, 44, 10):
        drawing.text(_LEFT + second * _SECOND, base + 18, f"{second} s", "note", "middle")
    drawing.text(
        20,
        base + 46,
        "A click leaves once the watermark has passed its time; a view 10 seconds later, since clicks may follow it.",
        "note",
    )
    return drawing
