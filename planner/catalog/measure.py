"""Small queries that planning may run to learn about the data, and how their answers are read."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf, isnan

from planner.catalog.interface import Numbers
from planner.catalog.stats import LengthClass


def length_classes(ends: str, *, few: bool) -> str:
    """SQL that sorts intervals into classes by length, a power of two each.

    ``ends``: a query with the columns ``low`` and ``high``, DOUBLE.  ``few``: they fit one task, which saves a shuffle.
    """
    power = "CASE WHEN length > 0 AND length < 1e300D THEN floor(log2(length)) WHEN length > 0 THEN 9999 ELSE -9999 END"
    hint = "/*+ COALESCE(1) */ " if few else ""
    return (
        "SELECT count(*), sum(length), max(length), min(low), max(high)\n"
        f"FROM (SELECT {hint}low, high, high - low AS length FROM (\n{ends}\n))\n"
        f"WHERE length >= 0\nGROUP BY {power}"
    )


def read_length_classes(rows: Iterable[Numbers]) -> tuple[LengthClass, ...]:
    """The classes, shortest first; a length that is not a number is the longest."""
    classes = (LengthClass(int(row[0] or 0), *(inf if n is None else n for n in row[1:])) for row in rows)
    return tuple(sorted(classes, key=lambda c: inf if isnan(c.longest) else c.longest))


def extent(positions: str) -> str:
    """SQL for the least and the greatest of the finite positions that a query returns as ``at``, DOUBLE."""
    return f"SELECT min(at), max(at)\nFROM (\n{positions}\n)\nWHERE abs(at) <= 1.7976931348623157e308D"


def holding_bands(left: str, right: str, conditions: tuple[str, ...], rows: int, shares: tuple[float, float]) -> str:
    """SQL for how many pairs two samples have, and for how many of them each condition holds.

    ``left``, ``right``: queries with the columns that the conditions name.  ``shares``: what part of either side
    makes about ``rows`` rows.
    """
    samples = [
        f"(SELECT * FROM (\n{query}\n) WHERE rand({seed}) < {share!r}D LIMIT {rows})"
        for seed, (query, share) in enumerate(zip((left, right), shares, strict=True), 1)
    ]
    held = "".join(f", count_if({condition})" for condition in conditions)
    return f"SELECT count(*){held}\nFROM {samples[0]} CROSS JOIN {samples[1]}"
