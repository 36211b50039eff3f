"""Bins on a line of time: how a band join becomes an equality."""

from __future__ import annotations

from docs.programs.svg import Drawing

_LEFT, _BIN = 150, 140
_SESSIONS = {"s1": (0.25, 0.75), "s2": (0.6, 2.3), "s3": (2.15, 3.0), "s4": (3.2, 3.8)}
_EVENTS = {"e1": 0.45, "e2": 1.35, "e3": 2.55, "e4": 3.45}


def bins() -> Drawing:
    """Draw sessions over the bins that they touch, and events in theirs."""
    drawing = Drawing(
        760,
        372,
        "A band join on bins",
        "Time is cut into four bins. Each event lies in one bin. Each session is copied to every bin that it touches. "
        "Spark joins on the number of the bin, and the condition as written decides about the pairs that share one.",
    )
    drawing.text(20, 30, "e.ts BETWEEN s.start AND s.end, joined on bins of time", "title")
    for n in range(4):
        x = _LEFT + n * _BIN
        drawing.box(x, 50, _BIN, 214, "bin", radius=0)
        drawing.text(x + _BIN / 2, 282, f"bin {n}", "note", "middle")
    drawing.text(20, 88, "sessions", "b word strong")
    for n, (name, (start, end)) in enumerate(_SESSIONS.items()):
        y = 72 + 32 * n
        drawing.box(_LEFT + start * _BIN, y, (end - start) * _BIN, 12, "b", radius=2)
        copies = [str(bin) for bin in range(int(start), int(end - 1e-9) + 1)]
        where = f"{name}: bin {copies[0]}" if len(copies) == 1 else f"{name}: bins {', '.join(copies)}"
        drawing.text(_LEFT + start * _BIN, y + 26, where, "note")
    drawing.text(20, 232, "events", "a word strong")
    for name, at in _EVENTS.items():
        drawing.dot(_LEFT + at * _BIN, 222, "a", 5)
        drawing.text(_LEFT + at * _BIN, 246, f"{name}: bin {int(at)}", "note", "middle")
    drawing.text(20, 312, "An event lies in one bin; a session is copied to each bin that it touches.")
    drawing.text(20, 332, f"Spark joins on the bin: {_pairs()} candidate pairs instead of 16.")
    drawing.text(20, 352, "Your own condition still decides about each of them: bins only leave pairs out.")
    return drawing


def _pairs() -> int:
    return sum(int(start) <= int(at) <= int(end - 1e-9) for start, end in _SESSIONS.values() for at in _EVENTS.values())
