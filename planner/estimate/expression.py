"""Arithmetic over totals, such as ``100 * sum(a) / sum(b)``: its value, and its derivative by each total."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

TOTAL = "__dt_total"
"""The name of total number n is this, with the number behind it."""


@dataclass(frozen=True)
class Value:
    """A number, and its ``slopes``: the derivatives by the totals that it depends on."""

    number: float
    slopes: dict[int, float]


def totals_in(tree: exp.Expr) -> tuple[int, ...] | None:
    """The numbers of the totals of an expression, in ascending order.

    None if it is more than totals and numbers with ``+``, ``-``, ``*`` and ``/``.
    """
    match tree:
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
            left, right = totals_in(tree.this), totals_in(tree.expression)
            return None if left is None or right is None else tuple(sorted({*left, *right}))
        case exp.Paren() | exp.Neg():
            return totals_in(tree.this)
        case exp.Column() if tree.name.startswith(TOTAL):
            return (int(tree.name[len(TOTAL) :]),)
        case exp.Literal() if not tree.is_string:
            return ()
    return None


def evaluate(tree: exp.Expr, totals: Sequence[float]) -> Value | None:
    """Evaluate an expression that ``totals_in`` reads; None where it divides by zero."""
    match tree:
        case exp.Paren():
            return evaluate(tree.this, totals)
        case exp.Neg():
            inner = evaluate(tree.this, totals)
            return inner and _combined(0.0 - inner.number, (inner, -1.0))
        case exp.Column():
            number = int(tree.name[len(TOTAL) :])
            return Value(totals[number], {number: 1.0})
        case exp.Literal():
            return Value(float(tree.name.rstrip("dDlLsSyYfFbB")), {})
    left, right = evaluate(tree.this, totals), evaluate(tree.expression, totals)
    if left is None or right is None:
        return None
    match tree:
        case exp.Add():
            return _combined(left.number + right.number, (left, 1.0), (right, 1.0))
        case exp.Sub():
            return _combined(left.number - right.number, (left, 1.0), (right, -1.0))
        case exp.Mul():
            return _combined(left.number * right.number, (left, right.number), (right, left.number))
    if not right.number:
        return None
    quotient = left.number / right.number
    return _combined(quotient, (left, 1 / right.number), (right, -quotient / right.number))


def _combined(number: float, *parts: tuple[Value, float]) -> Value:
    slopes: dict[int, float] = {}
    for part, factor in parts:
        for total, slope in part.slopes.items():
            slopes[total] = slopes.get(total, 0.0) + factor * slope
    return Value(number, slopes)
