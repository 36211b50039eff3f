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

from planner.errors import QueryError
from planner.expr import quote as quoted

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Direction = Literal["backward", "forward", "nearest"]

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_APPROXIMATE = ("float", "double")
_MOST_DIGITS = 38  # of a decimal
_BACKWARD, _FORWARD = "b", "f"


@dataclass(frozen=True)
class AsofJoin:
    """Which rows are joined: names of columns, and arguments as ``Optimizer.join_asof`` has them.

    ``by``: pairs of a left and a right column that are equal.
    """

    left_on: str
    right_on: str
    by: tuple[tuple[str, str], ...] = ()
    direction: Direction = "backward"
    tolerance: timedelta | float | Decimal | None = None
    exact: bool = True
    how: Literal["left", "inner"] = "left"
    suffix: str = "_right"


def asof_join(
    on: tuple[str | None, str | None, str | None],
    by: tuple[str | Sequence[str], str | Sequence[str], str | Sequence[str]],
    direction: Direction,
    tolerance: timedelta | float | Decimal | None,
    exact: bool,
    how: Literal["left", "inner"],
    suffix: str,
) -> AsofJoin:
    """Read the arguments: ``on`` and ``by`` for both sides, the left, and the right.  Raises ``QueryError``."""
    both, *each = ([one] if isinstance(one, str) else list(one or ()) for one in by)
    left_by, right_by = ([*both, *own] for own in each)
    if len(left_by) != len(right_by):
        raise QueryError(f"left_by has {len(left_by)} columns, and right_by has {len(right_by)}")
    left_on, right_on = on[1] or on[0], on[2] or on[0]
    if left_on is None or right_on is None or (on[0] is not None and (on[1] or on[2])):
        raise QueryError("join_asof takes either on, or left_on and right_on")
    if direction not in ("backward", "forward", "nearest"):
        raise QueryError(f"direction is 'backward', 'forward' or 'nearest', not {direction!r}")
    if how not in ("left", "inner"):
        raise QueryError(f"how is 'left' or 'inner', not {how!r}")
    by_pairs = tuple(zip(left_by, right_by, strict=True))
    return AsofJoin(left_on, right_on, by_pairs, direction, tolerance, exact, how, suffix)


def asof_statement(left: StructType, right: StructType, join: AsofJoin, *, case_sensitive: bool) -> str:
    """Write the statement.  Raises ``QueryError`` for columns and arguments that do not fit each other."""
    return _Statement(_Columns("left", left, case_sensitive), _Columns("right", right, case_sensitive), join).text()


class _Columns:
    """The columns of a DataFrame by name, as the session tells names apart."""

    def __init__(self, side: str, schema: StructType, case_sensitive: bool):
        self.side, self.names = side, schema.names
        self.fold = str if case_sensitive else str.lower
        self.types = {self.fold(field.name): field.dataType.simpleString() for field in schema.fields}
        if len(self.types) < len(schema.names):
            raise QueryError(f"two columns of the {side} DataFrame have one name; rename one of them")

    def name(self, name: str) -> str:
        """A name, if it is one of a column."""
        if self.fold(name) not in self.types:
            raise QueryError(f"the {self.side} DataFrame has no column {name}; it has {', '.join(self.names)}")
        return self.fold(name)

    def type_of(self, name: str) -> str:
        return self.types[self.name(name)]


class _Statement:
    def __init__(self, left: _Columns, right: _Columns, join: AsofJoin):
        self.left, self.right, self.join = left, right, join
        for one, other in join.by:
            left.name(one)
            right.name(other)
        self.types = left.type_of(join.left_on), right.type_of(join.right_on)
        self.time = f"l.{quote(join.left_on)}"

    def text(self) -> str:
        """The statement: one as-of join, or two for the nearest row."""
        directions = {"backward": (_BACKWARD,), "forward": (_FORWARD,)}.get(self.join.direction, (_BACKWARD, _FORWARD))
        kind = "LEFT ASOF JOIN" if self.join.how == "left" or len(directions) > 1 else "ASOF JOIN"
        parts = [
            f"SELECT {', '.join(self.items(directions))}",
            "FROM {left} l",
            *(f"{kind} {{right}} {way} {self.condition(way)}" for way in directions),
        ]
        if self.join.how == "inner" and len(directions) > 1:
            parts.append(f"WHERE {' OR '.join(f'{self.match(way)} IS NOT NULL' for way in directions)}")
        return "\n".join(parts)

    def items(self, directions: Sequence[str]) -> Iterator[str]:
        """The columns of the left side, and those of the right side that are not equal to one of them anyway."""
        taken = {self.left.fold(name) for name in self.left.names}
        yield from (f"l.{quote(name)}" for name in self.left.names)
        fold, join = self.right.fold, self.join
        pairs = [*join.by, (join.left_on, join.right_on)]
        merged = {fold(other) for one, other in pairs if fold(one) == fold(other)}
        for name in self.right.names:
            if fold(name) in merged:
                continue
            alias = name + join.suffix if fold(name) in taken else name
            if fold(alias) in taken:
                raise QueryError(f"two columns would be called {alias}; pass another suffix")
            taken.add(fold(alias))
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
        """The tolerance, as a bound on the right time that cannot overflow."""
        if self.join.tolerance is None:
            return
        left, distance = self.distance(self.join.tolerance)
        if way == _BACKWARD:
            yield f"{self.match(way)} >= {left} - {distance}"
        else:
            yield f"{self.match(way)} <= {left} + {distance}"

    def distance(self, tolerance: timedelta | float | Decimal) -> tuple[str, str]:
        """The left time and the tolerance in types whose sum and difference are exact, where the times are."""
        type_ = self.types[0]
        if isinstance(tolerance, timedelta):
            if type_ not in ("date", "timestamp", "timestamp_ntz"):
                raise QueryError(f"the tolerance is a timedelta, and {self.join.left_on} is of type {type_}")
            if tolerance < timedelta(0):
                raise QueryError(f"the tolerance {tolerance} is negative")
            return self.time, _interval(tolerance, whole_days=type_ == "date")
        if isinstance(tolerance, bool) or not isinstance(tolerance, int | float | Decimal):
            raise QueryError(f"the tolerance {tolerance!r} is no number and no timedelta")
        if not 0 <= tolerance < float("inf"):
            raise QueryError(f"the tolerance {tolerance} is not a finite number from 0 on")
        if type_ in _APPROXIMATE:
            return self.time, f"{float(tolerance)!r}D"
        if type_ not in _INTEGERS and not type_.startswith("decimal"):
            raise QueryError(f"the tolerance is a number, and {self.join.left_on} is of type {type_}; pass a timedelta")
        number = f"{Decimal(str(tolerance)):f}"
        if len(number) > _MOST_DIGITS:
            raise QueryError(f"the tolerance {tolerance} has more than {_MOST_DIGITS} digits; leave it out")
        return f"CAST({self.time} AS DECIMAL({_MOST_DIGITS}, 0))" if type_ in _INTEGERS else self.time, f"{number}BD"

    def backward_is_nearer(self) -> str:
        """Whether the last row before the time is the one to join; also where both are equally near."""
        back, forth = self.match(_BACKWARD), self.match(_FORWARD)
        near = f"{self.between(back, self.time)} <= {self.between(self.time, forth)}"
        return f"{forth} IS NULL OR ({back} IS NOT NULL AND {near})"

    def between(self, earlier: str, later: str) -> str:
        """How far a time is from a later one, exactly, where the times are exact."""
        first, second = self.types
        if first == second == "date":
            return f"datediff({later}, {earlier})"
        if first == second == "timestamp":
            return f"(unix_micros({later}) - unix_micros({earlier}))"  # Spark subtracts timestamps by local clocks
        if first == second == "timestamp_ntz" or (first in _APPROXIMATE and second in _APPROXIMATE):
            return f"({later} - {earlier})"
        if all(type_ in _INTEGERS for type_ in self.types):
            wide = f"DECIMAL({_MOST_DIGITS}, 0)"
            return f"(CAST({later} AS {wide}) - CAST({earlier} AS {wide}))"
        if first == second and first.startswith("decimal") and not first.startswith(f"decimal({_MOST_DIGITS}"):
            return f"({later} - {earlier})"
        raise QueryError(
            f"direction='nearest' takes the difference of {self.join.left_on} and {self.join.right_on}, which are of "
            f"types {first} and {second}; cast both to one type of number, date or timestamp"
        )


def quote(name: str) -> str:
    """Quote a name for a statement in which braces stand for DataFrames."""
    return quoted(name).replace("{", "{{").replace("}", "}}")


def _interval(distance: timedelta, *, whole_days: bool) -> str:
    if whole_days:
        return f"INTERVAL '{distance.days}' DAY"
    minutes, seconds = divmod(distance.seconds, 60)
    clock = f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}.{distance.microseconds:06}"
    return f"INTERVAL '{distance.days} {clock}' DAY TO SECOND"
