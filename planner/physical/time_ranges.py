"""Cuts the time of nearest rows into ranges, so that many tasks sort the rows of one key, or rows without keys.

    range  0            1               2               3
    right  {1}  {2}                                     {8}
    left              3         5             6     7
                        ^ {2}           ^ {2}           ^ {2}     the right row that each range begins with

A window over key and range is one task's for each range.  The last right row before a range is carried over into it, as
one more right row: it has the time that it had, so it comes before all others.  It is that of the last range with right
rows, which may be several ranges before.  These rows are an aggregate of the right side, which is read twice.

Any boundaries give the same rows.  They come from quantiles of both sides, so that the ranges have about as many rows
each: between two quantiles, ranges are of one length.  There are many more ranges than tasks, since Spark assigns them
to tasks by a hash.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from dovetail.planner.band.axis import number
from dovetail.planner.physical.nearest_union import NearestUnion, fields_of_right_row, struct_sql
from dovetail.planner.types.schema import SqlType

PARTS = 8
"""Parts of time with as many rows each, about; ``TimeRanges.quantiles`` are their ends."""
_OF_A_PART = 128


@dataclass(frozen=True)
class TimeRanges:
    """``quantiles``: increasing positions.  ``hot``: hashes of the keys that are cut; empty where there are no keys."""

    quantiles: tuple[float, ...]
    hot: tuple[int, ...] = ()

    @property
    def last(self) -> int:
        """The number of the last range; the first one is 0."""
        return (len(self.quantiles) - 1) * _OF_A_PART + 1

    @property
    def note(self) -> str:
        """A note on them for plans."""
        of = f" of {len(self.hot)} frequent keys" if len(self.hot) > 1 else " of a frequent key" if self.hot else ""
        return f"time{of} is cut into {self.last + 1:,} ranges, each with the nearest right row before it"

    def range_number(self, position: str, keys: list[str], *, descending: bool) -> str:
        """The number of the range of a position, in the order of the sort; a NULL is in the first one."""
        bounds = [number(q) for q in self.quantiles]
        cases = [f"WHEN {position} < {bounds[0]} THEN 0"]
        for n, (low, high) in enumerate(pairwise(bounds)):
            before = f"{n * _OF_A_PART} + " if n else ""
            cases.append(f"WHEN {position} < {high} THEN {before}width_bucket({position}, {low}, {high}, {_OF_A_PART})")
        found = f"CASE {' '.join(cases)} WHEN {position} IS NOT NULL THEN {self.last} END"
        found = f"coalesce({f'{self.last} - {found}' if descending else found}, 0)"
        return f"CASE WHEN {self.is_hot(keys)} THEN {found} ELSE 0 END" if self.hot else found

    def is_hot(self, keys: list[str]) -> str:
        """The condition that keys are cut into ranges."""
        return f"hash({', '.join(keys)}) IN ({', '.join(map(str, self.hot))})"


def range_position(time: str, of: SqlType) -> str | None:
    """A number that grows with a time, also where values are NaN; None for types without one."""
    if of.approximate:
        return f"nanvl(CAST({time} AS DOUBLE), double('Infinity'))"
    if of.numeric:
        return f"CAST({time} AS DOUBLE)"
    if of.name == "date":
        return f"unix_date({time})"
    return f"unix_micros({time})" if of.name == "timestamp" else None


class UnionInRanges(NearestUnion):
    """The union where time is cut into ``ranges``: each row has its range, and each range the row carried over."""

    def __init__(self, ranges: TimeRanges, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.ranges, self.range = ranges, f"{self.name}_range"

    @property
    def partition(self) -> list[str]:
        return [*self.keys, self.range]

    def union(self, left: str, right: str) -> str:
        return f"{self._in_ranges(super().union(left, right))}\nUNION ALL\n{self._carried_over(right)}"

    def _in_ranges(self, rows: str, where: str = "") -> str:
        """Rows with their range."""
        name, of = self.name, self.nearest.time_type
        position = of and range_position(f"{name}_at", of)
        number = self.ranges.range_number(f"{name}_p", self.keys, descending=self.nearest.direction == "forward")
        columns = [f"{name}_side", f"{name}_at", *self.keys, *self.ties, *self.carried, f"{name}_near"]
        with_position = f"(SELECT *, {position} AS {name}_p FROM (\n{rows})){where}"
        return f"SELECT {', '.join(columns)}, {number} AS {self.range}\nFROM {with_position}"

    def _carried_over(self, right: str) -> str:
        """For each range the nearest right row of those before it.

        Of equal times every ``max_by`` takes the same row: all see the rows of a range in the same order.
        """
        name, keys, at = self.name, self.keys, f"{self.name}_at"
        order = struct_sql({column: column for column in (at, *self.ties)}) if self.ties else at
        best = "min_by" if self.nearest.direction == "forward" else "max_by"
        fields = {field: f"{best}({name}_near.{field}, {order})" for field in fields_of_right_row(self.nearest)}
        row = [(f"{best}({column}, {order})", column) for column in (at, *self.ties)]
        row.append((struct_sql(fields), f"{name}_near"))
        values = [
            f"{self.ranks[1]} AS {name}_side",
            *(at, *keys, *self.ties),
            *(f"{filler} AS {column}" for filler, column in zip(self.fillers, self.shown, strict=True)),
            *(f"NULL AS {column}" for column in self.carried[len(self.shown) :]),
            f"{name}_near",
            f"explode(sequence({self.range} + 1, {name}_until)) AS {self.range}",
        ]
        where = f"\nWHERE {self.ranges.is_hot(keys)}" if self.ranges.hot else ""
        parts = f"PARTITION BY {', '.join(keys)} " if keys else ""
        until = f"lead({self.range}, 1, {self.ranges.last + 1}) OVER ({parts}ORDER BY {self.range}) AS {name}_until"
        each = ", ".join(self.partition)
        return (
            f"SELECT {', '.join(values)}\n"
            f"FROM (SELECT *, {until}\n"
            f"FROM (SELECT {each}, {', '.join(f'{value} AS {column}' for value, column in row)}\n"
            f"FROM ({self._in_ranges(self.right(right), where)})\nGROUP BY {each}))"
        )
