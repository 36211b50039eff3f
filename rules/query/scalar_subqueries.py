"""Subqueries that stand for one value in an expression, and columns in their place."""

from __future__ import annotations

from collections.abc import Callable

from planner.expr import HOLE, Scalar
from planner.expr.tokens import tokenize
from planner.tree import Node

_NO_VALUE = ("EXISTS", "IN", "ANY", "ALL", "SOME", "ARRAY")


def answered(scalar: Scalar, value: Callable[[Node], str | None]) -> Scalar:
    """An expression with other words for each subquery that is a value and that ``value`` has some for; else itself."""
    new, text = "", scalar.text
    kept: list[Node] = []
    at = 0
    for number, plan in enumerate(scalar.plans):
        start = text.index(f"{HOLE}{number}", at)
        end = start + len(f"{HOLE}{number}")
        said = value(plan) if is_value(text, number) else None
        if said is None:
            new += f"{text[at:start]}{HOLE}{len(kept)}"
            kept.append(plan)
        else:
            new += text[at:start] + said
        at = end
    return Scalar(new + text[at:], tuple(kept), scalar.place) if len(kept) < len(scalar.plans) else scalar


def is_value(text: str, number: int) -> bool:
    """Whether a subquery in parentheses is a value, and not the operand of EXISTS, IN or a function."""
    t = tokenize(text)
    at = next((i for i in range(len(t)) if t[i].text == f"{HOLE}{number}"), 0)
    if not at or t[at - 1].word != "(" or t.word(at + 1) != ")":
        return False
    first, last = at - 1, at + 1
    while first and t[first - 1].word == "(" and t.match[first - 1] == last + 1:
        first, last = first - 1, last + 1
    before = t[first - 1] if first else None
    return before is None or (before.word not in _NO_VALUE and not before.is_name)
