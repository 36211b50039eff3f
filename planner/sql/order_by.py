"""Parses ORDER BY, LIMIT and their variants: sort keys with their directions, and the number of rows."""

from __future__ import annotations

from planner.expr.tokens import Tokens
from planner.logical import Limit, Logical, Sort
from planner.sql.reader import Reader


def sort(r: Reader, child: Logical, lo: int, hi: int) -> Sort:
    """Read the tokens of ORDER BY, SORT BY, DISTRIBUTE BY or CLUSTER BY."""
    t = r.tokens
    items = t.split(lo + 1, hi)
    ends = [_direction(t, a, b) for a, b in items]
    keys = tuple(r.scalar(a, end) for (a, _), end in zip(items, ends, strict=True))
    return Sort(
        child, t.slice(lo, lo + 1), keys, tuple(t.slice(end, b) for (_, b), end in zip(items, ends, strict=True))
    )


def limit(r: Reader, child: Logical, lo: int, hi: int) -> Limit:
    """Read the tokens of LIMIT or OFFSET."""
    return Limit(child, r.tokens.slice(lo, lo + 1), r.scalar(lo + 1, hi))


def _direction(t: Tokens, lo: int, hi: int) -> int:
    """Where ``[ASC | DESC] [NULLS FIRST | NULLS LAST]`` begins behind a key."""
    end = hi
    if end - lo > 2 and t.word(end - 2) == "NULLS" and t.word(end - 1) in ("FIRST", "LAST"):
        end -= 2
    if end - lo > 1 and t.word(end - 1) in ("ASC", "DESC"):
        end -= 1
    return end
