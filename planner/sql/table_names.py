"""Splits the name of a table into its parts."""

from __future__ import annotations

from dovetail.planner.errors import Unsupported
from dovetail.planner.expr.tokens import tokenize


def name_of(table: str) -> tuple[str, ...]:
    """The parts of a table's name, which may be quoted and hold dots."""
    try:
        items = tokenize(table).items
    except Unsupported:
        items = ()
    names, dots = items[::2], items[1::2]
    if len(names) != len(dots) + 1 or any(dot.word != "." for dot in dots):
        return tuple(part.strip("`") for part in table.split("."))
    return tuple(name.text for name in names)
