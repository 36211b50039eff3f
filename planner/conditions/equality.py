"""Parses the operands of an equality as written, even if only Spark can parse them."""

from __future__ import annotations

from dovetail.planner.conditions.connectives import bare, inside
from dovetail.planner.expr import Scalar
from dovetail.planner.expr.tokens import tokenize

_OTHER_OPERATORS = frozenset(
    "OR XOR NOT AND BETWEEN IN IS LIKE ILIKE RLIKE REGEXP < > <= >= <> != <=> ! -> => ESCAPE".split()
)


def equality_operands(conjunct: Scalar) -> tuple[Scalar, Scalar] | None:
    """Return the operands of an equality; None if the condition is not a single equality."""
    t = tokenize(conjunct.text)
    lo, hi = inside(t, 0, len(t))
    outside = list(bare(t, lo, hi))
    signs = [i for i in outside if t[i].word in ("=", "==")]
    if len(signs) != 1 or any(t[i].word in _OTHER_OPERATORS for i in outside):
        return None
    before, behind = t.slice(lo, signs[0]), t.slice(signs[0] + 1, hi)
    return Scalar(before, (), conjunct.place), Scalar(behind, (), conjunct.place)
