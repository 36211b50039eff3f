"""Distances: a condition on one bounds each of the differences that it is made of.

    sqrt(pow(a.x - b.x, 2) + pow(a.y - b.y, 2)) <= 5      abs(a.x - b.x) <= 5,  abs(a.y - b.y) <= 5

A sum of terms that are never negative is at least each of them, so  t + u ≤ r  implies  t ≤ r  and  u ≤ r.  A term is
followed down to a difference:

    sqrt(t) ≤ r  as  t ≤ r²        pow(d, 2), d * d ≤ r  as  |d| ≤ √r        c·t ≤ r  as  t ≤ r / c

The greatest of several terms is none of these: Spark leaves NULL out of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isqrt

from sqlglot import exp

from dovetail.planner.band.axis import real
from dovetail.planner.band.great_circle import differences_on_a_sphere
from dovetail.planner.band.linear import ConditionScope, constant
from dovetail.planner.expr import without_parentheses

Difference = tuple[exp.Expression, exp.Expression]
_HALF = Fraction(1, 2)
_FINE = 10**20  # a root is no more than this part of a unit too great


def differences(small: exp.Expression, large: exp.Expression, scope: ConditionScope) -> list[Difference]:
    """The differences that ``small ≤ large`` bounds, each with what its absolute value is at most.

    Empty where ``small``, an expression over both sides, is no distance; ``large`` is over one side at most.
    """
    found = list(_differences(small, _bound(large)))
    return found or differences_on_a_sphere(small, large, scope)


@dataclass(frozen=True)
class _Bound:
    """``base`` to some ``power``, times ``factor``; without a base, a constant."""

    factor: Fraction
    base: exp.Expression | None = None
    power: Fraction = Fraction(1)

    def raised(self, power: Fraction) -> _Bound:
        """The bound to a power of 2 or 1/2."""
        factor = self.factor**2 if power == 2 else _root(self.factor)
        return replace(self, factor=factor, power=self.power * power)

    @property
    def tree(self) -> exp.Expression | None:
        """The bound as an expression; None for a power that is not wanted."""
        factor = exp.Literal.number(repr(real(self.factor)))
        if self.base is None:
            return factor
        base: exp.Expression = self.base.copy()
        if self.power == _HALF:
            base = exp.Anonymous(this="sqrt", expressions=[base])
        elif self.power != 1:
            return None
        return base if self.factor == 1 else exp.Mul(this=base, expression=exp.cast(factor, "double"))


def _bound(tree: exp.Expression) -> _Bound:
    value = constant(tree)
    return _Bound(Fraction(1), tree) if value is None else _Bound(value)


def _differences(tree: exp.Expression, bound: _Bound) -> Iterator[Difference]:
    """The differences that ``tree ≤ bound`` bounds, where the tree is never negative; none where it may be."""
    tree = without_parentheses(tree)
    if bound.factor < 0:
        return
    if inner := _squared(tree):
        yield from _differences(exp.Abs(this=inner), bound.raised(_HALF))
        return
    if (operands := _scaled(tree)) is not None:
        factor, rest = operands
        yield from _differences(rest, replace(bound, factor=bound.factor / factor))
        return
    match tree:
        case exp.Abs():
            inner, factor = unscaled(without_parentheses(tree.this))
            if (at_most := replace(bound, factor=bound.factor / abs(factor)).tree) is not None:
                yield inner, at_most
        case exp.Anonymous(expressions=[one]) if tree.name.lower() == "sqrt":
            yield from _differences(one, bound.raised(Fraction(2)))
        case exp.Anonymous(expressions=[one, other]) if tree.name.lower() == "hypot":
            yield from _differences(exp.Abs(this=one), bound)
            yield from _differences(exp.Abs(this=other), bound)
        case exp.Anonymous(expressions=[one, power]) if _is_power(tree) and constant(power) == _HALF:
            yield from _differences(one, bound.raised(Fraction(2)))
        case exp.Add() if _is_never_negative(tree):
            yield from _differences(tree.this, bound)
            yield from _differences(tree.expression, bound)


def _is_never_negative(tree: exp.Expression) -> bool:
    tree = without_parentheses(tree)
    if _squared(tree) or isinstance(tree, exp.Abs):
        return True
    if isinstance(tree, exp.Add):
        return _is_never_negative(tree.this) and _is_never_negative(tree.expression)
    if (operands := _scaled(tree)) is not None:
        return _is_never_negative(operands[1])
    return isinstance(tree, exp.Anonymous) and tree.name.lower() in ("sqrt", "hypot")


def _squared(tree: exp.Expression) -> exp.Expression | None:
    """What is squared: ``d`` of ``pow(d, 2)`` and of ``d * d``."""
    if isinstance(tree, exp.Mul) and without_parentheses(tree.this) == without_parentheses(tree.expression):
        squared: exp.Expression = tree.this
        return squared
    if isinstance(tree, exp.Anonymous) and _is_power(tree) and constant(tree.expressions[1]) == 2:
        base: exp.Expression = tree.expressions[0]
        return base
    return None


def _is_power(tree: exp.Anonymous) -> bool:
    return tree.name.lower() in ("pow", "power") and len(tree.expressions) == 2


def _scaled(tree: exp.Expression) -> tuple[Fraction, exp.Expression] | None:
    """A positive constant and what it multiplies; None for anything else."""
    rest, factor = unscaled(tree)
    return (factor, rest) if rest is not tree and factor > 0 else None


def unscaled(tree: exp.Expression) -> tuple[exp.Expression, Fraction]:
    """An expression without its constant factors, and their product."""
    if isinstance(tree, exp.Mul):
        for one, other in ((tree.this, tree.expression), (tree.expression, tree.this)):
            if value := constant(one):
                rest, factor = unscaled(without_parentheses(other))
                return rest, factor * value
    if isinstance(tree, exp.Div) and (value := constant(tree.expression)):
        rest, factor = unscaled(without_parentheses(tree.this))
        return rest, factor / value
    return tree, Fraction(1)


def _root(value: Fraction) -> Fraction:
    """The square root of a number, or one a little greater."""
    scaled = isqrt(value.numerator * value.denominator * _FINE**2)
    exact = Fraction(scaled, value.denominator * _FINE)
    return exact if exact * exact == value else Fraction(scaled + 1, value.denominator * _FINE)
