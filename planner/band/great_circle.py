"""Distances on a sphere, in whatever spelling: haversine, the law of cosines, in kilometers, miles or degrees.

An expression over two columns of either side is tried out: where it is the same multiple of the angle between two
places at many random places, it is that angle.  Rows within an angle of each other lie within its chord in space, so
each of the three coordinates differs by at most the chord.  Neither poles nor the date line are special there.

    │ x(a) - x(b) │ ≤ 2·sin(angle / 2)        x = cos(lat)·cos(lon),  y = cos(lat)·sin(lon),  z = sin(lat)

``acos(least(1.0, …))`` is 0 where a coordinate is NULL, since Spark leaves NULL out of the least of several values:
then the coordinates have to be tested beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product
from random import Random

from sqlglot import exp

from dovetail.planner.band.linear import ConditionScope, constant
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, columns_in, sql, without_parentheses

_PLACES = 16
_CLOSE = 1e-9  # how far a ratio may be off, relative
_ROUNDING = 1e-7  # an angle near 0 is no more exact than that where it comes from its cosine
_ROUNDED_UP = 1.001
_FUNCTIONS: dict[str, Callable[..., float]] = {
    **{name: getattr(math, name) for name in ("sin", "cos", "asin", "acos", "atan", "atan2", "sqrt", "pow")},
    "power": math.pow,
    "radians": math.radians,
    "degrees": math.degrees,
    "pi": lambda: math.pi,
}
_INVERSE = ("acos", "asin", "atan2", "atan")
Place = tuple[exp.Expression, exp.Expression]


def differences_on_a_sphere(
    small: exp.Expression, large: exp.Expression, conjuncts: tuple[Scalar, ...], scope: ConditionScope
) -> list[tuple[exp.Expression, exp.Expression]]:
    """The differences that a distance on a sphere bounds, each with what its absolute value is at most; else none.

    ``conjuncts``: the whole condition.  Raises ``Refused`` where rows without coordinates would match, too.
    """
    most, calls = constant(large), small.find_all(exp.Anonymous)
    if most is None or not any(call.name.lower() in _INVERSE for call in calls):
        return []
    found = _places(small, scope)
    if found is None:
        return []
    places, radius, in_degrees = found
    if small.find(exp.Least, exp.Greatest):
        _check_not_null(places, conjuncts, scope)
    angle = float(most) / radius
    if not 0 <= angle < math.pi:
        raise Refused("all places on a sphere are as near as that" if angle > 0 else "no distance is negative")
    chord = exp.Literal.number(f"{(2 * math.sin(angle / 2) + _ROUNDING) * _ROUNDED_UP:.4g}")
    ends = (_coordinates(place, in_degrees=in_degrees) for place in places)
    return [(exp.Sub(this=one, expression=other), chord.copy()) for one, other in zip(*ends, strict=True)]


def _check_not_null(places: tuple[Place, Place], conjuncts: tuple[Scalar, ...], scope: ConditionScope) -> None:
    tests = [without_parentheses(tree) for conjunct in conjuncts if (tree := conjunct.known) is not None]
    tested = [t.this.this for t in tests if isinstance(t, exp.Not) and isinstance(t.this, exp.Is)]
    known = {scope.canonical(one) for one in tested}
    for column in (column for place in places for column in place):
        if scope.canonical(column) not in known:
            raise Refused(
                f"least and greatest ignore NULL, so that a row without {sql(column)} is near all others; "
                f"add {sql(column)} IS NOT NULL"
            )


def _places(tree: exp.Expression, scope: ConditionScope) -> tuple[tuple[Place, Place], float, bool] | None:
    """The two places, latitude first, whose angle an expression is a multiple of, the multiple, and the unit."""
    sides: dict[str | None, dict[str, exp.Expression]] = {"left": {}, "right": {}}
    for column in columns_in(tree):
        sides.setdefault(scope.side(column), {})[scope.canonical(column)] = column
    if set(sides) != {"left", "right"} or any(len(columns) != 2 for columns in sides.values()):
        return None
    left, right = (tuple(sides[side]) for side in ("left", "right"))
    for in_degrees, one, other in product((True, False), (left, left[::-1]), (right, right[::-1])):
        try:
            radius = _multiple(tree, (*one, *other), scope, in_degrees=in_degrees)
        except (ValueError, ZeroDivisionError, OverflowError, LookupError):
            continue
        if radius:
            (a, b), (c, d) = one, other
            return ((sides["left"][a], sides["left"][b]), (sides["right"][c], sides["right"][d])), radius, in_degrees
    return None


def _multiple(tree: exp.Expression, names: tuple[str, ...], scope: ConditionScope, *, in_degrees: bool) -> float | None:
    """What multiple of the angle an expression is at random places; None if it is another one at each."""
    ratios = []
    for angles, measured in _random_places():
        values = map(math.degrees, angles) if in_degrees else angles
        ratios.append(_value(tree, dict(zip(names, values, strict=True)), scope) / measured)
    first = ratios[0]
    return first if first > 0 and all(math.isclose(first, one, rel_tol=_CLOSE) for one in ratios) else None


def _random_places() -> Iterator[tuple[tuple[float, ...], float]]:
    """Latitude and longitude of two places, always the same ones, and the angle between them; all in radians."""
    random = Random(1)
    for _ in range(_PLACES):
        a, b, c, d = angles = tuple(random.uniform(-span, span) for span in (1.4, 3.0) * 2)
        yield angles, math.acos(math.sin(a) * math.sin(c) + math.cos(a) * math.cos(c) * math.cos(b - d))


def _value(tree: exp.Expression, values: dict[str, float], scope: ConditionScope) -> float:
    """The value of an expression over columns of these values.  Raises ``LookupError`` for one that is not known."""

    def of(tree: exp.Expression) -> float:
        return _value(tree, values, scope)

    match without_parentheses(tree):
        case exp.Column() as column:
            return values[scope.canonical(column)]
        case exp.Literal() as literal if not literal.is_string:
            return float(literal.name)
        case exp.Cast() as cast if cast.to.this in exp.DataType.REAL_TYPES:
            return of(cast.this)
        case exp.Neg() as negative:
            return -of(negative.this)
        case exp.Add() as sum_:
            return of(sum_.this) + of(sum_.expression)
        case exp.Sub() as difference:
            return of(difference.this) - of(difference.expression)
        case exp.Mul() as product_:
            return of(product_.this) * of(product_.expression)
        case exp.Div() as quotient:
            return of(quotient.this) / of(quotient.expression)
        case exp.Least() | exp.Greatest() as picked:
            pick = min if isinstance(picked, exp.Least) else max
            return pick(map(of, (picked.this, *picked.expressions)))
        case exp.Anonymous() as call:
            return _FUNCTIONS[call.name.lower()](*map(of, call.expressions))
    raise LookupError


def _coordinates(place: Place, *, in_degrees: bool) -> tuple[exp.Expression, ...]:
    lat, lon = (_call("radians", angle) if in_degrees else angle for angle in place)
    across = _call("cos", lat)
    x, y = (exp.Mul(this=across.copy(), expression=_call(name, lon)) for name in ("cos", "sin"))
    return x, y, _call("sin", lat)


def _call(name: str, argument: exp.Expression) -> exp.Expression:
    return exp.Anonymous(this=name, expressions=[argument.copy()])
