"""The exact ends of a band: the compared expressions, strict or closed, on a type that keeps Spark's order.

``condition.py`` reads bands to prune, so it does not distinguish strict and closed bounds.  A rule that replaces the
condition needs the comparisons themselves:  low ≤ point ≤ high  with each side's own expression, as written.  Sums over
both sides (``abs(a.x - b.y) <= 5``) have no such expressions; over integers they are rewritten into such expressions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, floor

from sqlglot import exp

from dovetail.planner.band.condition import DistanceBand, IntervalBand
from dovetail.planner.band.linear import ConditionScope, Leaf, Side, speculative
from dovetail.planner.errors import Refused
from dovetail.planner.expr import sql
from dovetail.planner.types.schema import SqlType
from dovetail.planner.types.try_expressions import UnsafeSpeculation, can_raise
from dovetail.planner.types.typed import infer_type, known_type

Comparison = tuple[exp.Expression, exp.Expression, bool]
_MOST = 2**63 - 1
_COMPARED = (exp.And, exp.Between, exp.LT, exp.LTE, exp.GT, exp.GTE)
_OF_SUMS = (*_COMPARED, exp.Add, exp.Sub, exp.Neg, exp.Abs, exp.Paren, exp.Column, exp.Identifier, exp.Literal)


@dataclass(frozen=True)
class Ends:
    """``low ≤ point ≤ high``, an open end with ``<``; the point is on ``side``, the ends are on the other one.

    All three are SQL of ``type``, which cannot raise an error where the condition did not; NULL matches nothing.
    """

    side: Side
    point: str
    low: str
    high: str
    open_low: bool
    open_high: bool
    type: SqlType


def read_ends(band: DistanceBand | IntervalBand, scope: ConditionScope) -> Ends:
    """Read the exact ends of a band whose conjuncts have no other condition.  Raises ``Refused`` with the reason."""
    found = [c for conjunct in band.conjuncts for c in comparisons(conjunct.tree)]
    sides = [(scope.side(small), scope.side(large)) for small, large, _ in found]
    plain = len(found) == 2 and all({"left", "right"} == {a, b} for a, b in sides)
    if plain:
        one, other = found
        for low, high in ((one, other), (other, one)):
            if scope.canonical(low[1]) == scope.canonical(high[0]):
                return _as_written(low, high, scope)
    if isinstance(band, DistanceBand) and scope.ansi:
        return _of_integers(band, found)
    raise Refused(f"{band}: it does not compare one expression with two ends")


def comparisons(tree: exp.Expression) -> Iterator[Comparison]:
    """Every ``small ≤ large``, and whether it is strict; ``abs(e) <= c`` as it is."""
    match tree:
        case exp.Paren():
            yield from comparisons(tree.this)
        case exp.And():
            yield from comparisons(tree.this)
            yield from comparisons(tree.expression)
        case exp.Between() if not tree.args.get("symmetric"):
            yield tree.args["low"], tree.this, False
            yield tree.this, tree.args["high"], False
        case exp.LT() | exp.LTE():
            yield tree.this, tree.expression, isinstance(tree, exp.LT)
        case exp.GT() | exp.GTE():
            yield tree.expression, tree.this, isinstance(tree, exp.GT)
        case _:
            raise Refused(f"{sql(tree)} is not a comparison")


def _as_written(low: Comparison, high: Comparison, scope: ConditionScope) -> Ends:
    point = low[1]
    types = [_type(tree, scope) for tree in (point, low[0], high[1])]
    common = _common(types)
    if common is None:
        type_names = " and ".join(sorted({str(t) for t in types}))
        raise Refused(f"{sql(point)}: no common type keeps the order of {type_names}")
    side = scope.side(point)
    assert side in ("left", "right")
    trees = zip((point, low[0], high[1]), types, strict=True)
    at, first, last = (_cast(_careful(tree, scope), type_, common) for tree, type_ in trees)
    return Ends(side, at, first, last, low[2], high[2], common)


def _type(tree: exp.Expression, scope: ConditionScope) -> SqlType:
    """The type of an end of a band.  Raises ``Refused`` where it is not known."""
    return known_type(infer_type(tree, scope.type_of), sql(tree))


def _common(types: list[SqlType]) -> SqlType | None:
    """A type that holds the values of all of these, in the order in which Spark compares any two of them."""
    names = {t.name for t in types}
    if all(t.integral for t in types):
        return SqlType("bigint")
    if len(names) == 1 and names <= {"date", "timestamp", "timestamp_ntz"}:
        return SqlType(next(iter(names)))
    if names <= {"float", "double"}:
        return SqlType("double")
    if all(t.exact_numeric for t in types):
        before, behind = (max(t.digits[n] for t in types) for n in (0, 1))
        if before + behind <= 38:
            return SqlType("decimal", before + behind, behind, f"decimal({before + behind},{behind})")
    return None


def _cast(text: str, own: SqlType, common: SqlType) -> str:
    return text if str(own) == str(common) else f"CAST({text} AS {common.sql})"


def _careful(tree: exp.Expression, scope: ConditionScope) -> str:
    """An expression that is NULL where it would raise an error: Spark might not have computed it for any pair.

    A pair for which it did would have failed the query, so none of those can be missed.
    """
    tried = speculative(tree, scope)
    if can_raise(tried, scope.type_of, ansi=scope.ansi):  # it stands beside the filters of its side, several times
        raise UnsafeSpeculation(sql(tree))
    return sql(tried)


def _is_exact(piece: exp.Expr) -> bool:
    """Whether a piece of a condition over integers computes whole numbers, or compares them."""
    is_real = isinstance(piece, exp.Literal) and (piece.is_string or "e" in piece.name.lower())
    return isinstance(piece, _OF_SUMS) and not is_real


def _of_integers(band: DistanceBand, found: list[Comparison]) -> Ends:
    """Ends of whole numbers for a difference of integers, which under ANSI is exact or an error."""
    if band.implied:
        raise Refused(f"{band}: it only follows from {band.conjuncts[0].shown}, which decides")
    integral = band.axis.integral_types and band.left.type.integral and band.right.type.integral
    pieces = [piece for conjunct in band.conjuncts for piece in conjunct.tree.walk()]
    if not integral or not all(map(_is_exact, pieces)):
        raise Refused(f"{band}: sums over both sides are exact for integers only")
    if len(found) != (1 if any(isinstance(piece, exp.Abs) for piece in pieces) else 2):
        raise Refused(f"{band}: it has more comparisons than the two ends of a band")
    strict = {s for *_, s in found}
    if len(strict) > 1:
        raise Refused(f"{band}: one end is strict and one is closed, in sums over both sides")
    open_ = strict == {True}
    low = floor(band.low) + 1 if open_ else ceil(band.low)
    high = ceil(band.high) - 1 if open_ else floor(band.high)
    if max(abs(low), abs(high)) > _MOST:
        raise Refused(f"{band}: it is wider than BIGINT")
    point = f"CAST({band.left.text} AS BIGINT)"
    ends = _shifted(band.right, low, -1), _shifted(band.right, high, 1)
    return Ends("left", point, *ends, False, False, SqlType("bigint"))


def _shifted(leaf: Leaf, by: int, outward: int) -> str:
    """A leaf and a whole number as BIGINT; beyond BIGINT the farthest there is where that bounds as much, else NULL."""
    text = f"CAST({leaf.text} AS BIGINT)"
    if not by:
        return text
    if leaf.type.name != "bigint" and abs(by) < 2**62:
        return f"{text} + {by}L"
    sum_ = f"try_add({text}, {by}L)"
    if by * outward < 0:
        return sum_
    most = "9223372036854775807L" if by > 0 else "-9223372036854775807L - 1L"
    return f"CASE WHEN {leaf.text} IS NOT NULL THEN coalesce({sum_}, {most}) END"
