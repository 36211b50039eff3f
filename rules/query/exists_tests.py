"""EXISTS and IN as conjuncts: what they test, and whether they negate it."""

from __future__ import annotations

from typing import NamedTuple

from sqlglot import exp

from planner.errors import Unsupported
from planner.expr import HOLE, Scalar
from planner.expr.tokens import tokenize
from planner.logical import Limit
from planner.tree import Node
from rules.query.moving import (
    why_not_simple,
)


class Test(NamedTuple):
    """``[NOT] EXISTS (query)``, or with a ``value`` ``value [NOT] IN (query)``."""

    value: Scalar | None
    negated: bool
    query: Node

    def __str__(self) -> str:
        return ("NOT " if self.negated else "") + ("IN" if self.value else "EXISTS")


def read_test(conjunct: Scalar) -> Test | None:
    """Read a conjunct that is one EXISTS or IN, with any NOT and parentheses around it."""
    if len(conjunct.plans) != 1:
        return None
    t = tokenize(conjunct.text)
    lo, hi, negated = 0, len(t), False
    while lo < hi:
        if t.word(lo) == "(" and t.match[lo] == hi - 1:
            lo, hi = lo + 1, hi - 1
        elif t.word(lo) == "NOT":
            lo, negated = lo + 1, not negated
        else:
            break
    hole = f"{HOLE}0".upper()
    if hi - lo == 4 and t.word(lo) == "EXISTS" and t.word(lo + 2) == hole:
        return Test(None, negated, conjunct.plans[0])
    if hi - lo < 5 or [t.word(i) for i in (hi - 4, hi - 3, hi - 2)] != ["IN", "(", hole]:
        return None
    end = hi - 4
    if t.word(end - 1) == "NOT":
        end, negated = end - 1, not negated
    value = Scalar(t.slice(lo, end), (), conjunct.place)
    try:
        simple = not isinstance(value.tree, exp.Alias) and not why_not_simple(value.tree)
    except Unsupported:
        return None
    return Test(value, negated, conjunct.plans[0]) if simple else None


def at_least_one(limit: Limit) -> bool:
    """Whether a clause is LIMIT with a number that lets a row through."""
    words = limit.clause.text.split()
    return len(words) == 2 and words[0].upper() == "LIMIT" and words[1].isdigit() and int(words[1]) > 0
