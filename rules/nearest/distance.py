"""Distances by which pairs are sorted: ``abs(t.x - q.x)``, ``abs(datediff(t.day, q.day))``.

So are ``abs(timestampdiff(SECOND, t.ts, q.ts))`` and ``CASE WHEN t.x > q.x THEN t.x - q.x ELSE q.x - t.x END``.

The least distant rows are the last ones before a left value and the first ones after it, so many on either side as are
wanted.  That holds where a row is no less distant than one that lies between the two.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from sys import float_info

from sqlglot import exp

from dovetail.planner.conditions.compared import compared
from dovetail.planner.errors import Place, Refused
from dovetail.planner.expr import Scalar, sql, without_parentheses
from dovetail.planner.logical.nearest_join import Direction
from dovetail.planner.types.schema import SqlType
from dovetail.planner.types.try_expressions import NEGATED_DIGITS
from dovetail.rules.nearest.pairs import Pairs, Wanted

_GREATEST = float_info.max
_WORDS = re.compile(r"\b(abs|case|if)\b", re.IGNORECASE)
_UNITS = ("MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK")  # always of one length
_SECONDS = (exp.UnixSeconds, exp.UnixMillis, exp.UnixMicros, exp.StrToUnix, exp.Cast)


class RefusedDistance(Refused):
    """A distance whose least value need not be that of the nearest rows."""


@dataclass(frozen=True)
class Distance:
    """The left and the right expression of a distance: ``abs(left - right)``.

    ``approximate``: whether it may be NaN or infinite.  ``integral``: whether it is a whole number.  ``counted``: it is
    one of whole seconds or the like, which rows of several times may have in common.
    """

    left: exp.Expression
    right: exp.Expression
    approximate: bool
    integral: bool
    counted: bool

    @property
    def near(self) -> exp.Expression:
        """The left value from which rows are the less distant, the nearer they stand."""
        return _finite(self.left) if self.approximate else self.left


def may_be_distance(expression: Scalar) -> bool:
    """Whether an expression may be a distance; cheap, and never looks anything up."""
    return bool(_WORDS.search(expression.text))


def sorting_distance(
    sorted_by: exp.Expression, pairs: Pairs, place: Place | None, *, descending: bool = False
) -> Distance | None:
    """The distance that sorts pairs, the least first; None for another expression.

    ``descending``: the greatest come first, as with ``-abs(t.x - q.x)``.  Raises ``RefusedDistance``.
    """
    distance = without_parentheses(sorted_by)
    if descending and isinstance(distance, exp.Neg):
        distance = without_parentheses(distance.this)
    elif descending:
        return None
    found = read_distance(distance, pairs, place)
    if found is not None and descending and found.approximate:
        raise RefusedDistance(f"{sql(without_parentheses(sorted_by))} may be NaN, which is the greatest value", place)
    return found


def check_tie_breaks(distance: Distance, tie: exp.Expression, pairs: Pairs) -> None:
    """Raise ``RefusedDistance`` unless rows of one distance from a left row, on one side of it, have one right value.

    Then a further sort key decides among the rows of this value alone.
    """
    if pairs.side(tie) != "right":
        raise RefusedDistance(f"{sql(tie)} depends on both rows of a pair")
    if distance.approximate:
        raise RefusedDistance(
            f"{sql(tie)} decides between rows that are equally near, and a distance of DOUBLE or FLOAT rounds; "
            "subtract DECIMAL or whole numbers"
        )
    if distance.counted:
        raise RefusedDistance(
            f"{sql(tie)} decides between rows that are equally near, and rows of several times may be so; "
            "subtract unix_micros() of both"
        )


def read_distance(distance: exp.Expression, pairs: Pairs, place: Place | None) -> Distance | None:
    """Read the distance between an expression over the left side and one over the right; None for anything else.

    Raises ``RefusedDistance`` for a distance that need not grow from one right value to the next.
    """
    distance = _as_abs(distance)
    if not isinstance(distance, exp.Abs):
        return None
    difference = without_parentheses(distance.this)
    if not isinstance(difference, exp.Sub | exp.DateDiff | exp.TimestampDiff):
        return None
    ends = pairs.scope.order_by_side(difference.this, difference.expression)
    if ends is None:
        return None
    left, right = map(without_parentheses, ends)
    types = pairs.scope.type_of(left), pairs.scope.type_of(right)
    unit = difference.args.get("unit")
    dates = isinstance(difference, exp.DateDiff) and not unit
    why = _why_not(types, dates=dates, pairs=pairs)
    if unit and not why and unit.name.upper() not in _UNITS:
        why = "counts units of several lengths; count seconds"
    if unit and not why and not {t.name for t in types if t} <= {"timestamp", "timestamp_ntz"}:
        why = f"counts units between {types[0]} and {types[1]}; write datediff(), or subtract them"
    if why:
        raise RefusedDistance(f"{sql(difference)} {why}", place)
    approximate = any(t and t.approximate for t in types)
    integral = dates or bool(unit) or all(t and t.integral for t in types)
    return Distance(left, right, approximate, integral, bool(unit))


def _as_abs(tree: exp.Expression) -> exp.Expression:
    """``abs(a - b)`` in the place of ``CASE WHEN a > b THEN a - b ELSE b - a END``; any other expression as it is."""
    match tree:
        case exp.Case(args={"this": None, "ifs": [exp.If() as branch], "default": exp.Expr() as other}):
            pass
        case exp.If(args={"false": exp.Expr() as other}):
            branch = tree
        case _:
            return tree
    found, first, second = compared(branch.this), *map(without_parentheses, (branch.args["true"], other))
    if found is None or not found.by_order or type(first) is not type(second):
        return tree
    if not isinstance(first, exp.Sub | exp.DateDiff) or first.args.get("unit") or second.args.get("unit"):
        return tree
    greater = found if found.sign[0] == ">" else found.turned
    ends = [tuple(map(without_parentheses, (one.this, one.expression))) for one in (first, second)]
    return exp.Abs(this=first) if ends == [greater.operands, greater.turned.operands] else tree


@dataclass(frozen=True)
class Gap:
    """A difference that sorts the right rows of a left row by a time: ``left - time`` if it ``falls`` with the time.

    ``exact``: whether two right rows have one gap only if they have one time.
    """

    time: exp.Expression
    falls: bool
    exact: bool

    def direction(self, *, descending: bool) -> Direction:
        """Where the first row lies by this gap."""
        return "backward" if self.falls != descending else "forward"


def read_gap(sorted_by: exp.Expression, pairs: Pairs, place: Place | None) -> Gap | None:
    """Read the difference of an expression over the left side and one over the right, without ``abs``.

    None for anything else.  Raises ``Refused`` where it need not grow from one right value to the next.
    """
    difference = without_parentheses(sorted_by)
    if not isinstance(difference, exp.Sub | exp.DateDiff | exp.TimestampDiff):
        return None
    ends = pairs.scope.order_by_side(difference.this, difference.expression)
    if ends is None:
        return None
    falls = ends[1] is difference.expression
    left, right = map(without_parentheses, ends)
    types = pairs.scope.type_of(left), pairs.scope.type_of(right)
    counted = not isinstance(difference, exp.Sub)  # whole days, or others of a unit, by local clocks
    if counted and not all(t is not None and t.temporal for t in types):
        return None
    if why := _why_not(types, dates=False, pairs=pairs):
        raise Refused(f"{sql(difference)} {why}", place)
    if any(t is not None and t.approximate for t in types):
        raise Refused(f"{sql(difference)} may be NaN", place)
    inner = without_parentheses(right.this) if isinstance(right, _SECONDS) else None
    if inner is not None and not _bounds(right, pairs) and str(types[1]) == "BIGINT":
        argument = pairs.scope.type_of(inner)
        if argument is not None and argument.name == "timestamp":  # which sorts the rows as well
            counted, right = True, inner
    same = pairs.scope.canonical(left) in map(pairs.scope.canonical, _bounds(right, pairs))  # so it is not NULL
    return Gap(right, falls, exact=same and not counted)


def _bounds(time: exp.Expression, pairs: Pairs) -> list[exp.Expression]:
    """The expressions over the left side that bound a time."""
    ways: tuple[Direction, ...] = ("backward", "forward")
    return [left for way in ways for _, left, _ in pairs.bounds(Wanted(time, way))]


def _why_not(types: tuple[SqlType | None, SqlType | None], *, dates: bool, pairs: Pairs) -> str:
    """Why a difference of these types is no distance along one line; empty if it is one."""
    left, right = types
    if left is None or right is None:
        return "has a type that is not known"
    names = {left.name, right.name}
    if dates or names == {"date"}:
        return "" if names == {"date"} else f"subtracts {left} and {right} as dates; cast both"
    if names == {"timestamp_ntz"}:
        return ""
    if names == {"timestamp"}:
        clocks = "subtracts local clocks, which may change between the two; subtract unix_micros() of both"
        return "" if pairs.scope.has_fixed_offset_zone else clocks
    if not (left.numeric and right.numeric):
        return f"subtracts {left} and {right}"
    return _why_not_exact(left, right, pairs)


def _why_not_exact(left: SqlType, right: SqlType, pairs: Pairs) -> str:
    names = {left.name, right.name}
    if left.approximate or right.approximate:
        exact = names <= {"float", "double"} or names <= {"double", "int", "smallint", "tinyint"}
        return "" if exact else f"rounds, since it subtracts {left} and {right}"
    if left.integral and right.integral:
        why = "since spark.sql.ansi.enabled is false" if not pairs.scope.ansi else "as this server never raises"
        return f"could wrap around, {why}; cast both to DOUBLE or DECIMAL" if pairs.wraps else ""
    digits = sum(max(ends) for ends in zip(left.digits, right.digits, strict=True)) + 1
    return "" if digits <= NEGATED_DIGITS else f"has more than {NEGATED_DIGITS} digits, to which Spark rounds abs()"


def _finite(tree: exp.Expression) -> exp.Expression:
    """A left value among the finite ones: infinity less infinity is NaN, so the same infinity is the most distant."""
    least, most = (
        exp.Cast(this=exp.Literal.string(repr(n)), to=exp.DataType.build("DOUBLE")) for n in (-_GREATEST, _GREATEST)
    )
    return exp.Least(this=exp.Greatest(this=tree.copy(), expressions=[least]), expressions=[most])
