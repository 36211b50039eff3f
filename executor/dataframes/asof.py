"""Writes an as-of join of two DataFrames as a statement over ``{left}`` and ``{right}``.

The arguments are those of ``pandas.merge_asof`` and ``polars.DataFrame.join_asof``.  The nearest row is the nearer one
of the last row before a time and of the first row after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from dovetail.planner.catalog.settings import NameCase
from dovetail.planner.errors import QueryError
from dovetail.planner.expr import quote as quoted
from dovetail.planner.types.schema import SqlType, sql_type

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Direction = Literal["backward", "forward", "nearest"]

_MOST_DIGITS = 38  # of a decimal
_INTEGER = "DECIMAL(19, 0)"  # holds every integer
_FAR = timedelta(days=10_000_000)  # further apart than any two times of Spark that Python has
_BACKWARD, _FORWARD = "b", "f"


@dataclass(frozen=True)
class AsofJoin:
    """Which rows are joined: names of columns, and arguments as ``Optimizer.join_asof`` has them.

    ``by``: pairs of a left and a right column that are equal.  Raises ``QueryError`` for a ``direction`` or ``how``
    that does not exist.
    """

    left_on: str
    right_on: str
    by: tuple[tuple[str, str], ...] = ()
    direction: Direction = "backward"
    tolerance: timedelta | float | Decimal | None = None
    exact: bool = True
    how: Literal["left", "inner"] = "left"
    suffix: str = "_right"

    def __post_init__(self) -> None:
        if self.direction not in ("backward", "forward", "nearest"):
            raise QueryError(f"direction is 'backward', 'forward' or 'nearest', not {self.direction!r}")
        if self.how not in ("left", "inner"):
            raise QueryError(f"how is 'left' or 'inner', not {self.how!r}")


def compared_columns(on: str | None, left_on: str | None, right_on: str | None) -> tuple[str, str]:
    """The columns of both sides that are compared.  Raises ``QueryError``."""
    left, right = left_on or on, right_on or on
    if left is None or right is None or (on is not None and (left_on or right_on)):
        raise QueryError("join_asof takes either on, or left_on and right_on")
    return left, right


def equal_columns(
    by: str | Sequence[str], left_by: str | Sequence[str], right_by: str | Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """Pairs of columns that are equal.  Raises ``QueryError``."""
    both, left, right = ([one] if isinstance(one, str) else list(one or ()) for one in (by, left_by, right_by))
    left, right = [*both, *left], [*both, *right]
    if len(left) != len(right):
        raise QueryError(f"left_by has {len(left)} columns, and right_by has {len(right)}")
    return tuple(zip(left, right, strict=True))


def asof_statement(left: StructType, right: StructType, join: AsofJoin, case: NameCase) -> str:
    """Write the statement.  Raises ``QueryError`` for columns and arguments that do not fit each other."""
    return _Statement(_Columns("left", left, case), _Columns("right", right, case), join).text()


class _Columns:
    """The columns of a DataFrame by name, as the session compares names."""

    def __init__(self, side: str, schema: StructType, case: NameCase):
        self.side, self.names, self.case = side, schema.names, case
        types = (sql_type(field.dataType.simpleString()) for field in schema.fields)
        self.types = dict(zip(case.folded(schema.names), types, strict=True))
        if len(self.types) < len(schema.names):
            raise QueryError(f"two columns of the {side} DataFrame have one name; rename one of them")

    def type_of(self, name: str) -> SqlType:
        """The type of a column.  Raises ``QueryError`` if there is none of this name."""
        if (found := self.types.get(self.case.fold(name))) is None:
            raise QueryError(f"the {self.side} DataFrame has no column {name}; it has {', '.join(self.names)}")
        return found


class _Statement:
    def __init__(self, left: _Columns, right: _Columns, join: AsofJoin):
        self.left, self.right, self.join = left, right, join
        for one, other in join.by:
            left.type_of(one)
            right.type_of(other)
        self.types = left.type_of(join.left_on), right.type_of(join.right_on)
        self.time = f"l.{quote(join.left_on)}"

    def text(self) -> str:
        """The statement: one as-of join, or two for the nearest row."""
        directions = {"backward": (_BACKWARD,), "forward": (_FORWARD,)}.get(self.join.direction, (_BACKWARD, _FORWARD))
        kind = "LEFT ASOF JOIN" if self.join.how == "left" or len(directions) > 1 else "ASOF JOIN"
        parts = [
            f"SELECT {', '.join(self.items(directions))}",
            f"FROM {self.left_rows(directions)} l",
            *(f"{kind} {{right}} {way} {self.condition(way)}" for way in directions),
        ]
        if self.join.how == "inner" and len(directions) > 1:
            parts.append(f"WHERE {' OR '.join(f'{self.match(way)} IS NOT NULL' for way in directions)}")
        return "\n".join(parts)

    def items(self, directions: Sequence[str]) -> Iterator[str]:
        """The columns of the left side, and those of the right side that are not equal to one of them anyway."""
        join, case, taken = self.join, self.right.case, list(self.left.names)
        yield from (f"l.{quote(name)}" for name in self.left.names)
        merged = [other for one, other in (*join.by, (join.left_on, join.right_on)) if case.is_same(one, other)]
        for name in self.right.names:
            if case.is_among(name, merged):
                continue
            alias = name + join.suffix if case.is_among(name, taken) else name
            if case.is_among(alias, taken):
                raise QueryError(f"two columns would be called {alias}; pass another suffix")
            taken.append(alias)
            yield f"{self.value(name, directions)} AS {quote(alias)}"

    def value(self, name: str, directions: Sequence[str]) -> str:
        """A column of the row that is joined."""
        column = quote(name)
        if len(directions) == 1:
            return f"{directions[0]}.{column}"
        return f"CASE WHEN {self.backward_is_nearer()} THEN {_BACKWARD}.{column} ELSE {_FORWARD}.{column} END"

    def condition(self, way: str) -> str:
        sign = (">" if way == _BACKWARD else "<") + ("=" if self.join.exact else "")
        equal = [f"l.{quote(one)} = {way}.{quote(other)}" for one, other in self.join.by]
        conditions = [*equal, *self.near_enough(way)]
        on = f" ON {' AND '.join(conditions)}" if conditions else ""
        return f"MATCH_CONDITION ({self.time} {sign} {self.match(way)}){on}"

    def match(self, way: str) -> str:
        """The time of a right row; it is never NULL in a match."""
        return f"{way}.{quote(self.join.right_on)}"

    def near_enough(self, way: str) -> Iterator[str]:
        """The tolerance, as a bound on the right time."""
        if self.join.tolerance is not None:
            bound = self.bound(self.join.tolerance, "-" if way == _BACKWARD else "+")
            bound = f"l.{self.bound_name(way)}" if self.computes_bounds else bound
            yield f"{self.match(way)} {'>=' if way == _BACKWARD else '<='} {bound}"

    @property
    def computes_bounds(self) -> bool:
        """Whether bounds are columns of the left rows: Spark adds the days of an interval to a local clock."""
        return self.join.tolerance is not None and self.types[0].name == "timestamp"

    def bound_name(self, way: str) -> str:
        """A name that no column of the left side has."""
        name = f"bound_{way}"
        while self.left.case.is_among(name, self.left.types):
            name += "_"
        return name

    def left_rows(self, directions: Sequence[str]) -> str:
        """The left rows, with their bounds where these are computed."""
        if not self.computes_bounds or not isinstance(self.join.tolerance, timedelta):
            return "{left}"
        micros = min(self.join.tolerance, _FAR) // timedelta(microseconds=1)
        time = f"unix_micros({quote(self.join.left_on)})"
        bounds = (
            f"timestamp_micros({'try_subtract' if way == _BACKWARD else 'try_add'}({time}, {micros}L)) "
            f"AS {self.bound_name(way)}"
            for way in directions
        )
        return f"(SELECT *, {', '.join(bounds)} FROM {{left}})"

    def bound(self, tolerance: timedelta | float | Decimal, sign: str) -> str:
        """The left time less or plus the tolerance; exact, where the times are."""
        type_, name = self.types[0], self.join.left_on
        if isinstance(tolerance, timedelta):
            if type_.name not in ("date", "timestamp", "timestamp_ntz"):
                raise QueryError(f"the tolerance is a timedelta, and {name} is of type {type_}")
            if tolerance < timedelta(0):
                raise QueryError(f"the tolerance {tolerance} is negative")
            return self.bound_in_time(min(tolerance, _FAR), sign)
        if isinstance(tolerance, bool) or not isinstance(tolerance, int | float | Decimal):
            raise QueryError(f"the tolerance {tolerance!r} is no number and no timedelta")
        if not 0 <= tolerance < float("inf"):
            raise QueryError(f"the tolerance {tolerance} is not a finite number from 0 on")
        if type_.approximate:
            return f"{self.time} {sign} {float(tolerance)!r}D"
        if not type_.exact_numeric:
            raise QueryError(f"the tolerance is a number, and {name} is of type {type_}; pass a timedelta")
        number = Decimal(str(tolerance))
        if all(one.integral for one in self.types):
            number = min(number, Decimal(10**19)) // 1
        size = number.adjusted() + 1, max(0, -int(number.as_tuple().exponent))
        most = [max(ends) for ends in zip(*(one.digits for one in self.types), size, strict=True)]
        if sum(most) >= _MOST_DIGITS:
            raise QueryError(
                f"a tolerance of {tolerance} over {name}, which is of type {type_}, would be rounded to "
                f"{_MOST_DIGITS} digits; cast both columns to a type of fewer digits"
            )
        return f"{f'CAST({self.time} AS {_INTEGER})' if type_.integral else self.time} {sign} {number:f}BD"

    def bound_in_time(self, tolerance: timedelta, sign: str) -> str:
        """The same for dates and timestamps without a zone."""
        if self.types[0].name == "date":
            return f"{self.time} {sign} INTERVAL '{tolerance.days}' DAY"
        minutes, seconds = divmod(tolerance.seconds, 60)
        clock = f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}.{tolerance.microseconds:06}"
        return f"{self.time} {sign} INTERVAL '{tolerance.days} {clock}' DAY TO SECOND"

    def backward_is_nearer(self) -> str:
        """Whether the last row before the time is the one to join; also where both are equally near."""
        back, forth = self.match(_BACKWARD), self.match(_FORWARD)
        near = f"{self.between(back, self.time)} <= {self.between(self.time, forth)}"
        return f"{forth} IS NULL OR ({back} IS NOT NULL AND {near})"

    def between(self, earlier: str, later: str) -> str:
        """How far a time is from a later one, exactly, where the times are exact."""
        first, second = self.types
        if first.name == second.name == "date":
            return f"datediff({later}, {earlier})"
        if first.name == second.name == "timestamp":
            return f"(unix_micros({later}) - unix_micros({earlier}))"  # Spark subtracts timestamps by local clocks
        if first.integral and second.integral:
            return f"(CAST({later} AS {_INTEGER}) - CAST({earlier} AS {_INTEGER}))"
        ntz, decimals = first.name == "timestamp_ntz", first.name == "decimal" and first.precision < _MOST_DIGITS
        if (first == second and (ntz or decimals)) or (first.approximate and second.approximate):
            return f"({later} - {earlier})"
        raise QueryError(
            f"direction='nearest' takes the difference of {self.join.left_on} and {self.join.right_on}, which are of "
            f"types {first} and {second}; cast both to one type of number, date or timestamp"
        )


def quote(name: str) -> str:
    """Quote a name for a statement in which braces stand for DataFrames."""
    return quoted(name).replace("{", "{{").replace("}", "}}")
