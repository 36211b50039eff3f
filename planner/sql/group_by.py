"""Parses GROUP BY: its grouping expressions, or the clause as a whole if it is more than a list of them."""

from __future__ import annotations

from dovetail.planner.logical import Aggregate, Logical
from dovetail.planner.sql.reader import Reader


def group_by(r: Reader, child: Logical, lo: int, hi: int) -> Aggregate:
    """Read the tokens behind GROUP BY, and group ``child`` by them."""
    items = r.tokens.split(lo, hi)
    if _is_all(r, lo, hi) or any(_has_sets(r, a, b) for a, b in items):
        return Aggregate(child, (), r.scalar(lo, hi))
    return Aggregate(child, tuple(r.scalar(a, b) for a, b in items))


def _is_all(r: Reader, lo: int, hi: int) -> bool:
    return hi - lo == 1 and r.tokens.word(lo) == "ALL"


def _has_sets(r: Reader, lo: int, hi: int) -> bool:
    """Whether an item is ROLLUP (…) or CUBE (…), or ends with WITH ROLLUP, WITH CUBE or GROUPING SETS (…)."""
    t = r.tokens
    if t.word(lo, hi) in ("ROLLUP", "CUBE") and t.word(lo + 1, hi) == "(":
        return True
    if hi - lo > 1 and t.word(hi - 2) == "WITH" and t.word(hi - 1) in ("ROLLUP", "CUBE"):
        return True
    return any(t[i].word.split() == ["GROUPING", "SETS"] for i in t.top(lo, hi))
