"""Inverses: what a comparison of a function with a constant says of the function's argument.

    (a.x - b.x) / 60 <= 5        a.x - b.x <= 300
    floor(a.x - b.x) >= 5        a.x - b.x >= 4                room for what the function cuts off
    a.x / b.x - 1 <= 0.05        a.x <= b.x * 1.05             where b.x is negative, a bound that all rows satisfy

Functions are followed as long as they grow, or fall, with the one argument that is over both sides of the join.
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
from dovetail.planner.types.schema import sql_type
from dovetail.planner.types.typed import infer_type

Operands = tuple[exp.Expression, exp.Expression]

_RELATIVE, _ABSOLUTE = Fraction(1, 10**9), Fraction(1, 10**5)
"""Room for rounding: a quotient of decimals has six digits behind its point at least, one of DOUBLE fifteen in all."""
_NEVER_NAN = (exp.Abs, exp.Cast, exp.Coalesce, exp.Nullif, exp.SafeDivide)  # of arguments that are not
_SUMS = (exp.Add, exp.SafeAdd, exp.Sub, exp.SafeSubtract, exp.DateDiff, exp.TimestampDiff)
_INFINITY = exp.cast(exp.Literal.string("Infinity"), "double")


def bounds_on_argument(
    small: exp.Expression, large: exp.Expression, scope: ConditionScope, *, sums: bool
) -> list[Operands]:
    """The comparisons ``small ≤ large`` that follow from that of a function with a constant.

    They are of the dividend of a quotient, or of a sum if ``sums``; empty where the argument is neither.  Part of a sum
    may also be compared with an expression of one side.
    """
    for operand, other, is_lower in ((small, large, False), (large, small, True)):
        tree, value = without_parentheses(operand), constant(other)
        if scope.side(tree) != "both":
            continue
        if value is not None:
            return list(_solved(tree, value, is_lower, scope, sums=sums))
        if sums:
            return list(_multiplied(tree, other, is_lower, scope))
    return []


def _multiplied(
    tree: exp.Expression, other: exp.Expression, is_lower: bool, scope: ConditionScope
) -> Iterator[Operands]:
    """A part of a sum, as DOUBLE, against an expression of one side, as the sum against a multiple of it."""
    type_, (rest, factor) = infer_type(tree, scope.type_of), unscaled(tree)
    if isinstance(rest, exp.Cast) and sql_type(rest.to.sql("spark")).name == "double":
        rest = without_parentheses(rest.this)
    if type_ and type_.approximate and factor > 0 and isinstance(rest, _SUMS) and scope.side(other) != "both":
        most = exp.Mul(this=exp.cast(other.copy(), "double"), expression=_double(1 / factor))
        yield (most, rest) if is_lower else (rest, most)


def _solved(
    tree: exp.Expression, value: Fraction, is_lower: bool, scope: ConditionScope, *, sums: bool
) -> Iterator[Operands]:
    """``tree ≤ value``, or ``tree ≥ value`` if it is a lower bound, as comparisons of the argument."""

    def of(argument: exp.Expression, value: Fraction, *, turned: bool = False) -> Iterator[Operands]:
        return _solved(argument, value, is_lower != turned, scope, sums=sums)

    tree, outward = without_parentheses(tree), -1 if is_lower else 1
    value += (abs(value) * _RELATIVE + _ABSOLUTE) * outward
    match tree:
        case exp.Abs() if not is_lower and value >= 0:
            yield from of(tree.this, value)
            yield from of(tree.this, -value, turned=True)
        case exp.Div() | exp.SafeDivide() if not sums and scope.side(tree.expression) in ("left", "right"):
            yield from _of_dividend(tree, value, is_lower)
        case exp.Mul() | exp.Div() if factor := constant(tree.expression):
            factor = 1 / factor if isinstance(tree, exp.Div) else factor
            yield from of(tree.this, value / factor, turned=factor < 0)
        case exp.Mul() if factor := constant(tree.this):
            yield from of(tree.expression, value / factor, turned=factor < 0)
        case exp.IntDiv() if factor := constant(tree.expression):
            yield from of(tree.this, (value + outward) * factor, turned=factor < 0)
        case exp.Sub() if (moved := constant(tree.expression)) is not None:
            yield from of(tree.this, value + moved)
        case exp.Sub() if (moved := constant(tree.this)) is not None:
            yield from of(tree.expression, moved - value, turned=True)
        case exp.Round() | exp.Floor() | exp.Ceil() | exp.Cast() if _cuts_less_than_one(tree, scope):
            yield from of(tree.this, value + outward)
        case exp.Anonymous(expressions=[argument, *_]) if tree.name.lower() == "bround":
            yield from of(exp.Round(this=argument, decimals=next(iter(tree.expressions[1:]), None)), value)
        case _ if sums and isinstance(tree, _SUMS):
            yield (_double(value), tree) if is_lower else (tree, _double(value))


def _cuts_less_than_one(tree: exp.Expression, scope: ConditionScope) -> bool:
    """Whether a call returns a number that is less than one away from its argument, and no number for NaN."""
    to = sql_type(tree.to.sql("spark")) if isinstance(tree, exp.Cast) else None
    keeps_nan = isinstance(tree, exp.Round) or (to is not None and to.approximate)
    if not keeps_nan and may_be_nan(tree.this, scope):  # floor(NaN) is 0
        return False
    if to is None:
        decimals = tree.args.get("decimals")
        return decimals is None or (constant(decimals) or Fraction(0)) >= 0
    of = infer_type(tree.this, scope.type_of)
    if of is None or not of.numeric or not to.numeric:
        return False
    return not to.integral or scope.ansi or bool(tree.args.get("safe"))  # without ANSI, CAST wraps around


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
    """Whether an expression may be NaN: of FLOAT or DOUBLE, or of calls that may return it, such as a root."""
    type_ = infer_type(tree, scope.type_of)
    if type_ and (type_.exact_numeric or type_.temporal):
        return False
    match tree:
        case exp.Literal():
            return tree.is_string
        case exp.Paren() | exp.Neg() | exp.Binary() | exp.Abs() | exp.Cast() | exp.Coalesce() | exp.Nullif():
            return any(may_be_nan(one, scope) for one in tree.iter_expressions() if not isinstance(one, exp.DataType))
    return True


def _double(value: Fraction) -> exp.Expression:
    number = exp.cast(exp.Literal.number(repr(abs(real(value)))), "double")
    return exp.Neg(this=number) if value < 0 else number
