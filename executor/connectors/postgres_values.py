"""Differences between the ranges of PostgreSQL's and Spark's types."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dovetail.executor.connectors.database import DbColumn
from dovetail.executor.connectors.values import ConvertedColumn, format_value, null_misfits

if TYPE_CHECKING:
    import pyarrow as pa

_UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
_EPOCH = 946_684_800_000_000  # 2000-01-01, PostgreSQL's epoch, in microseconds after 1970-01-01

# The common range with Spark's type: days or microseconds after 1970-01-01.
RANGES = {
    "date": (-2_440_588, 2_145_042_905),  # 4714-11-24 BC to 5874897-12-31
    "timestamp": (-210_866_803_200_000_000, 2**63 - 1),  # to 294247-01-10; PostgreSQL's own last is 294276-12-31
    "timestamptz": (-210_866_803_200_000_000, 2**63 - 1),
}
# The driver's values of infinity and -infinity: the extreme integers, overflowed by the shift from 2000 to 1970.
_INFINITE = {
    "date": {2**31 - 1 + 10_957 - 2**32: "infinity", -(2**31) + 10_957: "-infinity"},
    "timestamp": {2**63 - 1 + _EPOCH - 2**64: "infinity", -(2**63) + _EPOCH: "-infinity"},
}
_INFINITE["timestamptz"] = _INFINITE["timestamp"]


def drop_impossible_keys(keys: pa.Table, column: DbColumn) -> pa.Table:
    """Drop keys that the column cannot contain: a string that is not a UUID must not fail a whole batch."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = keys.column(column.name)
    if column.native in RANGES:
        first, last = RANGES[column.native]
        numbers = _numbers(values)
        kept = pc.and_(pc.greater_equal(numbers, first), pc.less_equal(numbers, last))
    elif not pa.types.is_string(column.type):
        return keys
    elif column.native == "uuid":
        kept = pc.match_substring_regex(values, _UUID)
    else:
        kept = pc.invert(pc.match_substring(values, "\0"))
    return keys.filter(kept)


def mark_misfits(values: pa.ChunkedArray, column: DbColumn) -> ConvertedColumn:
    """Mark infinite dates and times, and those beyond Spark's range, as misfits."""
    import pyarrow.compute as pc

    first, last = RANGES[column.native]
    numbers = _numbers(values)
    misfits = pc.or_(pc.less(numbers, first), pc.greater(numbers, last))
    known = _INFINITE[column.native]

    def format_row(row: int) -> str:
        number = numbers[row].as_py()
        return known.get(number) or f"a time {number + 2**64:,} µs after 1970"

    return null_misfits(values, misfits, format_row)


def _numbers(values: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    return values.cast(pa.int32() if pa.types.is_date32(values.type) else pa.int64())


def convert_unchanged(values: pa.ChunkedArray) -> ConvertedColumn:
    """Return a column whose values all fit."""
    return ConvertedColumn(values, None, partial(format_value, values))
