"""The keys of ORDER BY, with their directions."""

from __future__ import annotations

from planner.expr import Scalar
from planner.expr.tokens import tokenize

_DIRECTIONS = ("ASC", "DESC", "NULLS", "FIRST", "LAST")


def sort_keys(clause: Scalar) -> tuple[str, list[tuple[Scalar, str]]]:
    """ORDER BY, or SORT BY and the like, as the words before its keys, and each key with what follows it."""
    t = tokenize(clause.text)
    start = next(n for n in range(len(t)) if t[n].word.endswith("BY")) + 1
    keys = []
    for low, high in t.split(start, len(t)):
        end = next((n for n in range(high, low, -1) if t[n - 1].word not in _DIRECTIONS), high)
        keys.append((Scalar(t.slice(low, end)), t.slice(end, high) if end < high else ""))
    return t.slice(0, start), keys
