"""Parses ORDER BY, LIMIT and their variants: sort keys with their directions, and the number of rows."""

from __future__ import annotations

from dovetail.planner.expr.ranking import direction_start
from dovetail.planner.logical import Limit, Logical, Sort
from dovetail.planner.sql.reader import Reader


def sort(r: Reader, child: Logical, lo: int, hi: int) -> Sort:
    """Read the tokens of ORDER BY, SORT BY, DISTRIBUTE BY or CLUSTER BY."""
    t = r.tokens
    items = t.split(lo + 1, hi)
    ends = [direction_start(t, a, b) for a, b in items]
    keys = tuple(r.scalar(a, end) for (a, _), end in zip(items, ends, strict=True))
    return Sort(
        child, t.slice(lo, lo + 1), keys, tuple(t.slice(end, b) for (_, b), end in zip(items, ends, strict=True))
    )


def limit(r: Reader, child: Logical, lo: int, hi: int) -> Limit:
    """Read the tokens of LIMIT or OFFSET."""
    return Limit(child, r.tokens.slice(lo, lo + 1), r.scalar(lo + 1, hi))
