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

from dovetail.planner.band.axis import number
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
        """What a plan says of them."""
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
