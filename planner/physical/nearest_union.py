"""The nearest right rows of each left row in one sort: a union of both sides, and the last right row so far.

    key  time  side   right row        last right row so far
    A    1     right  {price: 10}      {price: 10}
    A    3     left                    {price: 10}      a left row, and its nearest right row
    A    4     right  {price: NULL}    {price: NULL}    a right row all the same
    A    4     left                    {price: NULL}

The right row travels as a struct, so that a row of NULLs is not taken for no row.  Where a time is equal on both sides,
right rows stand first, or last if an equal time does not count.  For the first row after a time the order is turned.
(tempo, "Time series joins", has the same union.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from dovetail.planner.expr import Scalar, quote
from dovetail.planner.expr.substitution import operand
from dovetail.planner.logical.nearest_join import NEAREST_TIME, Nearest, ShownRelation
from dovetail.planner.physical.nearest_candidates import Candidates
from dovetail.planner.physical.presort import presort
from dovetail.planner.types.schema import Column, SqlType


def right_row(nearest: Nearest) -> str:
    """A right row as a struct."""
    return struct_sql(fields_of_right_row(nearest))


def fields_of_right_row(nearest: Nearest) -> dict[str, str]:
    """The columns of a right row, its time where that is needed, and its ties where one row is chosen."""
    columns = [column for relation in nearest.right for column in relation.carried.expressions]
    fields = {f"c{n}": column for n, column in enumerate(columns) if NEAREST_TIME not in column}
    fields |= {f"u{n}": one.value for n, one in enumerate(nearest.tolerances) if one.value}
    if any(not one.value for one in nearest.tolerances) or nearest.direction == "both" or not fields:
        fields["at"] = nearest.times[1]
    if nearest.complete:
        fields |= {f"t{n}": tie.text for n, tie in enumerate(nearest.ties)}
    return fields


def struct_sql(fields: Mapping[str, str]) -> str:
    """A struct of expressions by their names."""
    items = (f"'{name}', {value}" for name, value in fields.items())
    return f"named_struct({', '.join(items)})"


class NearestUnion:
    """Renders the parts of the union; every column that it adds begins with ``name``."""

    def __init__(
        self,
        nearest: Nearest,
        name: str,
        kind: str,
        conjunction: Callable[[tuple[Scalar, ...]], str],
        row_type: SqlType | None = None,
    ) -> None:
        self.nearest, self.name, self.kind, self.conjunction = nearest, name, kind, conjunction
        self.row_type = row_type
        self.columns = [column for relation in nearest.left for column in relation.expressions]
        self.fillers = [
            (not nearest.nullable and c.type and c.type.filler) or "NULL"
            for relation in nearest.left
            for c in relation.columns
        ]
        self.keys = [f"{name}_k{n}" for n in range(len(nearest.keys))]
        self.candidates = Candidates(nearest, name, row_type)
        self.ties = self.candidates.ties
        self.shown = [f"{name}_l{n}" for n in range(len(self.columns))]
        self.tolerances = [
            replace(one, other=one.other and f"{name}_o{n}", bound=f"{name}_b{n}")
            for n, one in enumerate(nearest.tolerances)
        ]
        self.bounds = [  # what tolerances need of a left row, and its name
            pair
            for one, named in zip(nearest.tolerances, self.tolerances, strict=True)
            for pair in ((one.other, named.other), (one.bound, named.bound))
            if pair[0]
        ]
        self.guard = [f"{name}_on"] if kind == "left" and nearest.filters[0] else []

    @property
    def several(self) -> bool:
        """Whether a left row may have more than one nearest row."""
        return self.nearest.count > 1 or (self.nearest.direction == "both" and not self.nearest.complete)

    @property
    def ranks(self) -> tuple[int, int]:
        """How left and right rows of one time are sorted."""
        return (0, 1) if self.nearest.strict else (1, 0)

    @property
    def carried(self) -> list[str]:
        """The columns of a left row: those that are shown, and what its nearest row must fulfill."""
        return [*self.shown, *(name for _, name in self.bounds), *self.guard]

    def union(self, left: str, right: str) -> str:
        """The rows of both sides."""
        return f"{self.left(left)}\nUNION ALL\n{self.right(right)}"

    @property
    def partition(self) -> list[str]:
        """The columns by which one task has all rows that it sorts."""
        return self.keys

    def left(self, text: str) -> str:
        """The rows of the left side; in an inner join those that can match at all."""
        near, name = self.nearest, self.name
        filters = near.filters[0]
        values = [
            (str(self.ranks[0]), f"{name}_side"),
            (self.position(near.times[0]), f"{name}_at"),
            *zip((key.left for key in near.keys), self.keys, strict=True),
            *(("NULL", tie) for tie in self.ties),
            *zip(self.columns, self.shown, strict=True),
            *self.bounds,
            *((self.conjunction(filters), guard) for guard in self.guard),
            (f"CAST(NULL AS {self.row_type.sql})" if self.row_type else "NULL", f"{name}_near"),
        ]
        times = near.times if near.direction != "both" else ()
        known = _known(*times[:1], *(key.left for key in near.keys if not key.null_safe))
        return self._select(values, text, (*near.kept, *filters, *known) if self.kind == "inner" else near.kept)

    def right(self, text: str) -> str:
        """The rows of the right side that can match at all."""
        near, name = self.nearest, self.name
        values = [
            (str(self.ranks[1]), f"{name}_side"),
            (self.position(near.times[1]), f"{name}_at"),
            *zip((key.right for key in near.keys), self.keys, strict=True),
            *zip((tie.text for tie in near.ties), self.ties, strict=True),
            *zip(self.fillers, self.shown, strict=True),
            *(("NULL", column) for column in self.carried[len(self.shown) :]),
            (right_row(near), f"{name}_near"),
        ]
        times = near.times if near.direction != "both" else ()
        known = _known(*times[1:], *(key.right for key in near.keys if not key.null_safe))
        return self._select(values, text, (*near.filters[1], *known))

    def position(self, time: str) -> str:
        """A time as it is sorted; an engine that does not type NULL sorts -0.0 before 0.0, and gets 0.0 for both."""
        of = self.nearest.time_type
        return f"{operand(time)} + 0D" if self.row_type and of and of.approximate else time

    def _select(self, values: list[tuple[str, str]], text: str, where: tuple[Scalar, ...]) -> str:
        condition = f"\nWHERE {self.conjunction(where)}" if where else ""
        return f"SELECT {', '.join(f'{value} AS {name}' for value, name in values)}\nFROM {text}{condition}"

    def presorted(self) -> str:
        """The clause that sorts the rows of both sides before they are shuffled."""
        descending = self.nearest.direction == "forward"
        number = presort(
            self.keys, f"{self.name}_at", self.nearest.time_type, f"{self.name}_side", descending=descending
        )
        return number and f"\nSORT BY {number}"

    def one_candidate(self, union: str) -> list[str]:
        """The rows of both sides with the last right row so far, of which those of the left side are kept.

        Or with the least distant one of this row, the next, and those that come before all others.
        """
        (last, *ahead) = self.candidates.windows(self.partition)
        if ahead:
            columns = [f"{self.name}_c{n}" for n in range(len(ahead) + 1)]
            each = [f"{one} AS {column}" for one, column in zip((last, *ahead), columns, strict=True)]
            near = self.candidates.nearest_one(columns)
            return [
                f"FROM (SELECT {', '.join([f'{self.name}_side', *self.carried, f'{near} AS {self.name}_near'])}",
                f"FROM (SELECT {', '.join([f'{self.name}_side', f'{self.name}_at', *self.carried, *each])}",
                f"{union})",
                f"WHERE {self.kept()}) AS {self.name}",
            ]
        return [
            f"FROM (SELECT {', '.join([f'{self.name}_side', *self.carried, f'{last} AS {self.name}_near'])}",
            union,
            f"WHERE {self.kept()}) AS {self.name}",
        ]

    def each_candidate(self, union: str) -> list[str]:
        """The rows of the left side, each as often as it has a nearest row."""
        name, candidates = self.name, self.candidates.windows(self.partition)
        columns = [f"{name}_c{n}" for n in range(len(candidates))]
        windows = [f"{candidate} AS {column}" for candidate, column in zip(candidates, columns, strict=True)]
        at = [f"{name}_at"] if self.nearest.direction == "both" else []
        exploded = f"posexplode(array({', '.join(self.candidates.prune(columns))})) AS ({name}_n, {name}_near)"
        any_ = [f"{self.matches(columns)} AS {name}_any"] if self.kind == "left" else []
        return [
            f"FROM (SELECT {', '.join([*self.carried, *any_, exploded])}",
            f"FROM (SELECT {', '.join([f'{name}_side', *at, *self.carried, *windows])}",
            union,
            f"WHERE {name}_side = {self.ranks[0]})",
            f"WHERE {self.kept()}) AS {name}",
        ]

    def matches(self, columns: list[str]) -> str:
        """Whether a left row of an outer join has a match among its candidates, of which the nearest is the first."""
        found = columns[0] if self.nearest.direction != "both" else f"coalesce({', '.join(columns)})"
        return " AND ".join([f"{found} IS NOT NULL", *self.near_enough(columns[0])])

    def near_enough(self, near: str) -> list[str]:
        """What a candidate must fulfill to be a match."""
        fields = (f"u{n}" if one.value else "at" for n, one in enumerate(self.tolerances))
        tolerances = zip(self.tolerances, fields, strict=True)
        return [*self.guard, *(one.show(f"{near}.{field}") for one, field in tolerances)]

    def found(self) -> str:
        """The match, or NULL."""
        near = f"{self.name}_near"
        conditions = self.near_enough(near)
        if self.kind == "inner" or not conditions:
            return near
        return f"CASE WHEN {' AND '.join(conditions)} THEN {near} END AS {near}"

    def kept(self) -> str:
        """The condition on rows with a candidate: those of the left side, in an inner join with a match."""
        near = f"{self.name}_near"
        matched = [f"{near} IS NOT NULL", *self.near_enough(near)]
        if not self.several:
            return " AND ".join([f"{self.name}_side = {self.ranks[0]}", *(matched if self.kind == "inner" else ())])
        if self.kind == "inner":
            return " AND ".join(matched)
        return f"CASE WHEN {self.name}_any THEN {' AND '.join(matched)} ELSE {self.name}_n = 0 END"

    def left_row(self) -> list[str]:
        """The columns of the left side as a struct, whose fields keep comments and the lengths of CHAR.

        A column that LATERAL reads by its own name loses them, and Spark no longer pads what is compared with a CHAR.
        An engine that does not type NULL has neither, and takes fields of a struct for nullable.
        """
        if self.row_type:
            return self.shown
        fields = (f"'c{n}', {column}" for n, column in enumerate(self.shown))
        return [f"named_struct({', '.join(fields)}) AS {self.name}_left"] if self.shown else []

    def relations(self) -> Iterator[tuple[str, str]]:
        """The relations of the join by name, each with its columns as they are shown; none of those without any."""
        left = (self.left_value(n) for n in range(len(self.shown)))
        matched = [c for relation in self.nearest.right for c in relation.carried.columns]
        computed = any(relation.match for relation in self.nearest.right)  # and are read only where there is a match
        right = (self.matched(self.right_value(n), c, known=computed) for n, c in enumerate(matched))
        for side, values in ((self.nearest.left, left), (self.nearest.right, right)):
            for relation in side:
                carried = relation.carried
                columns = ", ".join(
                    f"{self.over_time(text, c) if NEAREST_TIME in text else value} AS {quote(c.name)}"
                    for c, text, value in zip(carried.columns, carried.expressions, values, strict=False)
                )
                if relation.match:
                    yield relation.name, self.computed(relation, columns)
                elif columns:
                    yield relation.name, columns

    def computed(self, relation: ShownRelation, columns: str) -> str:
        """A select list over both rows, whose match has some columns; NULL in a left join without a match."""
        match, near = relation.carried, f"{self.name}.{self.name}_near"
        plain = [e for e, c in zip(match.expressions, match.columns, strict=True) if not _filler(c)]
        values = (
            value if self.kind == "inner" or value in plain else f"CASE WHEN {near} IS NOT NULL THEN {value} END"
            for value in relation.values
        )
        items = ", ".join(f"{value} AS {quote(c.name)}" for value, c in zip(values, relation.columns, strict=True))
        return f"{items} FROM (SELECT {columns}) AS {quote(match.name)}" if columns else items

    def over_time(self, expression: str, column: Column) -> str:
        """An expression over the left row and the time of the match."""
        time = replace(column, typed=self.nearest.time_type)
        return expression.replace(NEAREST_TIME, self.matched(self.field("at"), time))

    def left_value(self, number: int) -> str:
        """A column of the left row as LATERAL reads it."""
        return f"{self.name}.{self.name}_l{number}" if self.row_type else f"{self.name}.{self.name}_left.c{number}"

    def right_value(self, number: int) -> str:
        """A column of the match as LATERAL reads it."""
        return self.field(f"c{number}")

    def field(self, name: str) -> str:
        """A field of the match as LATERAL reads it.

        An engine that does not type NULL finds no field behind a dot there, and in a NULL of CASE the fields of the
        row that was not taken.
        """
        near = f"{self.name}.{self.name}_near"
        if self.row_type is None:
            return f"{near}.{name}"
        field = f"{near}['{name}']"
        return field if self.kind == "inner" else f"CASE WHEN {near} IS NOT NULL THEN {field} END"

    def matched(self, value: str, column: Column, *, known: bool = False) -> str:
        """A column of the match: in an inner join, or where a match is ``known``, never NULL stays so to Spark."""
        filler = _filler(column) if known or self.kind == "inner" else None
        return f"coalesce({value}, {filler})" if filler else value


def _filler(column: Column) -> str | None:
    """A value for a column that is never NULL; None for any other."""
    return column.type.filler if column.type and not column.may_be_null else None


def _known(*expressions: str) -> list[Scalar]:
    """The conditions that these are not NULL: then a row can match."""
    return [Scalar(f"{operand(expression)} IS NOT NULL") for expression in dict.fromkeys(expressions)]
