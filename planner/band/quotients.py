"""Quotients: ``abs(a.x - b.x) / b.x <= 0.05`` bounds ``a.x - b.x`` by parts of ``b.x``.

A quotient is compared with a constant, by itself or scaled or moved by constants: ``a.x / b.x - 1``.  A negative
divisor turns the comparison around; there the bound is one that all rows satisfy.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from sqlglot import exp

from dovetail.planner.band.axis import real
from dovetail.planner.band.comparisons import without_abs
from dovetail.planner.band.distances import unscaled
from dovetail.planner.band.linear import ConditionScope, constant
from dovetail.planner.expr import without_parentheses

Operands = tuple[exp.Expression, exp.Expression]

_RELATIVE, _ABSOLUTE = Fraction(1, 10**9), Fraction(1, 10**5)
"""Room for rounding: a quotient of decimals has six digits behind its point at least, one of DOUBLE fifteen in all."""
_NEVER_NAN = (exp.Abs, exp.Cast, exp.Coalesce, exp.Nullif, exp.SafeDivide)  # of arguments that are not
_INFINITY = exp.cast(exp.Literal.string("Infinity"), "double")


def bounds_on_dividend(small: exp.Expression, large: exp.Expression, scope: ConditionScope) -> list[Operands]:
    """The comparisons ``small ≤ large`` of a dividend that follow from that of a quotient with a constant.

    Empty where there is no quotient, or its divisor is not of one side.
    """
    for tree, other, is_lower in ((small, large, False), (large, small, True)):
        value = constant(other)
        if value is not None and scope.side(tree) == "both":
            return list(_solved(tree, value, is_lower, scope))
    return []


def _solved(tree: exp.Expression, value: Fraction, is_lower: bool, scope: ConditionScope) -> Iterator[Operands]:
    """``tree ≤ value``, or ``tree ≥ value`` if it is a lower bound, as comparisons of the dividend."""
    tree = without_parentheses(tree)
    value += (abs(value) * _RELATIVE + _ABSOLUTE) * (-1 if is_lower else 1)
    match tree:
        case exp.Abs() if not is_lower and value >= 0:
            yield from _solved(tree.this, value, False, scope)
            yield from _solved(tree.this, -value, True, scope)
        case exp.Div() | exp.SafeDivide() if scope.side(tree.expression) in ("left", "right"):
            yield from _of_dividend(tree, value, is_lower)
        case exp.Mul() | exp.Div() if factor := constant(tree.expression):
            factor = 1 / factor if isinstance(tree, exp.Div) else factor
            yield from _solved(tree.this, value / factor, is_lower == (factor > 0), scope)
        case exp.Mul() if factor := constant(tree.this):
            yield from _solved(tree.expression, value / factor, is_lower == (factor > 0), scope)
        case exp.Sub() if (moved := constant(tree.expression)) is not None:
            yield from _solved(tree.this, value + moved, is_lower, scope)
        case exp.Sub() if (moved := constant(tree.this)) is not None:
            yield from _solved(tree.expression, moved - value, not is_lower, scope)


def _of_dividend(quotient: exp.Expression, value: Fraction, is_lower: bool) -> Iterator[Operands]:
    dividend, factor = unscaled(without_parentheses(quotient.this))
    if factor < 0:
        return
    value, divisor = value / factor, exp.cast(quotient.expression.copy(), "double")
    negative = exp.LT(this=divisor, expression=exp.Literal.number(0))
    part = exp.Mul(this=divisor.copy(), expression=_double(value))
    anything = exp.Neg(this=_INFINITY.copy()) if is_lower else _INFINITY.copy()
    end = exp.Case(ifs=[exp.If(this=negative, true=anything)], default=part)
    if not is_lower:
        yield from without_abs(dividend, end)
    elif not isinstance(without_parentheses(dividend), exp.Abs):
        yield end, dividend


def may_be_nan(tree: exp.Expression, scope: ConditionScope) -> bool:
    """Whether a quotient in a condition may be NaN: of DOUBLE, or of calls that may return it, such as a root."""
    if not all(isinstance(call, _NEVER_NAN) for call in tree.find_all(exp.Func)):
        return True
    types = [scope.type_of(column) for column in tree.find_all(exp.Column)]
    return not all(type_ and type_.exact_numeric for type_ in types)


def _double(value: Fraction) -> exp.Expression:
    return exp.cast(exp.Literal.number(repr(real(value))), "double")
