"""Distances on a sphere, in whatever spelling: haversine, the law of cosines, in kilometers, miles or degrees.

An expression over two columns of either side is tried out: where it is the same multiple of the angle between two
places at many random places, it is that angle.  Rows within an angle of each other lie within its chord in space, so
each of the three coordinates differs by at most the chord.  Neither poles nor the date line are special there.

    │ x(a) - x(b) │ ≤ 2·sin(angle / 2)        x = cos(lat)·cos(lon),  y = cos(lat)·sin(lon),  z = sin(lat)

Spark leaves NULL and NaN out of the least of several values: ``acos(least(1.0, …))`` is 0 where a coordinate is either.
So the expression is tried out with these as well; ``asin(least(1.0, …))`` is the greatest distance there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product
from operator import add, mul, neg, sub, truediv
from random import Random

from sqlglot import exp

from dovetail.planner.band.linear import ConditionScope, constant
from dovetail.planner.errors import Refused
from dovetail.planner.expr import columns_in, sql, without_parentheses

_PLACES = 16
_CLOSE = 1e-9  # how far a ratio may be off, relative
_ROUNDING = 1e-7  # an angle near 0 is no more exact than that where it comes from its cosine
_ROUNDED_UP = 1.001
_FUNCTIONS: dict[str, Callable[..., float]] = {
    **{f.__name__: f for f in (math.sin, math.cos, math.asin, math.acos, math.atan, math.atan2)},
    **{f.__name__: f for f in (math.sqrt, math.pow, math.radians, math.degrees)},
    "power": math.pow,
    "pi": lambda: math.pi,
}
_OPERATORS: dict[type[exp.Expression], Callable[..., float]] = {
    exp.Neg: neg,
    exp.Add: add,
    exp.Sub: sub,
    exp.Mul: mul,
    exp.Div: truediv,
}
_INVERSE = ("acos", "asin", "atan2", "atan")
Place = tuple[exp.Expression, exp.Expression]


def differences_on_a_sphere(
    small: exp.Expression, large: exp.Expression, scope: ConditionScope
) -> list[tuple[exp.Expression, exp.Expression]]:
    """The differences that a distance on a sphere bounds, each with what its absolute value is at most; else none.

    Raises ``Refused`` where rows without coordinates would match, too.
    """
    most, calls = constant(large), small.find_all(exp.Anonymous)
    if most is None or not any(call.name.lower() in _INVERSE for call in calls):
        return []
    found = _places(small, scope)
    if found is None:
        return []
    places, radius, in_degrees = found
    _check_without_coordinates(small, float(most), scope)
    angle = float(most) / radius
    if not 0 <= angle < math.pi:
        raise Refused("all places on a sphere are as near as that" if angle > 0 else "no distance is negative")
    chord = exp.Literal.number(f"{(2 * math.sin(angle / 2) + _ROUNDING) * _ROUNDED_UP:.4g}")
    ends = (_coordinates(place, in_degrees=in_degrees) for place in places)
    return [(exp.Sub(this=one, expression=other), chord.copy()) for one, other in zip(*ends, strict=True)]


def _check_without_coordinates(tree: exp.Expression, most: float, scope: ConditionScope) -> None:
    """Raise ``Refused`` where a row is near others although a coordinate of it is NULL or NaN."""
    columns = {scope.canonical(column): column for column in columns_in(tree)}
    for name, missing in product(columns, (None, math.nan)):
        value = _value(tree, {**dict.fromkeys(columns, 0.5), name: missing}, scope)
        if value is not None and value <= most:
            raise Refused(
                f"where {sql(columns[name])} is NULL or NaN, least leaves it out, so that the row is near all others; "
                "use the haversine formula, 2 * 6371 * asin(sqrt(…))"
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
        value = _value(tree, dict(zip(names, values, strict=True)), scope)
        ratios.append((value or 0.0) / measured)
    first = ratios[0]
    return first if first > 0 and all(math.isclose(first, one, rel_tol=_CLOSE) for one in ratios) else None


def _random_places() -> Iterator[tuple[tuple[float, ...], float]]:
    """Latitude and longitude of two places, always the same ones, and the angle between them; all in radians."""
    random = Random(1)
    for _ in range(_PLACES):
        a, b, c, d = angles = tuple(random.uniform(-span, span) for span in (1.4, 3.0) * 2)
        yield angles, math.acos(math.sin(a) * math.sin(c) + math.cos(a) * math.cos(c) * math.cos(b - d))


def _value(tree: exp.Expression, values: dict[str, float | None], scope: ConditionScope) -> float | None:
    """The value of an expression over columns of these values, as Spark computes it; None is NULL.

    Raises ``LookupError`` for an expression that is not known.
    """
    match without_parentheses(tree):
        case exp.Column() as column:
            return values[scope.canonical(column)]
        case exp.Literal() as literal if not literal.is_string:
            return float(literal.name)
        case exp.Cast() as cast if cast.to.this == exp.DType.DOUBLE:  # any other type may round a coordinate
            return _value(cast.this, values, scope)
        case exp.Least() | exp.Greatest() as picked:
            pick = min if isinstance(picked, exp.Least) else max
            known = [_value(one, values, scope) for one in (picked.this, *picked.expressions)]
            return pick((v for v in known if v is not None), key=_nan_last, default=None)
        case exp.Neg() | exp.Add() | exp.Sub() | exp.Mul() | exp.Div() as sum_:
            fn, operands = _OPERATORS[type(sum_)], list(sum_.iter_expressions())
        case exp.Anonymous() as call:
            fn, operands = _FUNCTIONS[call.name.lower()], call.expressions
        case _:
            raise LookupError
    found = [_value(operand, values, scope) for operand in operands]
    known = [value for value in found if value is not None]
    return fn(*known) if len(known) == len(found) else None


def _nan_last(value: float) -> tuple[bool, float]:
    """NaN is greater than anything."""
    return (True, 0.0) if math.isnan(value) else (False, value)


def _coordinates(place: Place, *, in_degrees: bool) -> tuple[exp.Expression, ...]:
    lat, lon = (_call("radians", angle) if in_degrees else angle for angle in place)
    across = _call("cos", lat)
    x, y = (exp.Mul(this=across.copy(), expression=_call(name, lon)) for name in ("cos", "sin"))
    return x, y, _call("sin", lat)


def _call(name: str, argument: exp.Expression) -> exp.Expression:
    return exp.Anonymous(this=name, expressions=[argument.copy()])
