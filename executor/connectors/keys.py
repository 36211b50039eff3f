"""Converts keys into hashable Python values, and formats samples of keys for errors."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from dovetail.executor.connectors.values import format_value

if TYPE_CHECKING:
    import pyarrow as pa

_NAN = "NaN"  # stands for NaN in a column of floats, since NaN = NaN in Spark
_MAX_SHOWN = 3


def key_values(table: pa.Table, names: Sequence[str]) -> list[Hashable]:
    """Return one hashable value for each row: equal values are equal keys; None is a key that contains NULL."""
    columns = [_values(table.column(name)) for name in names]
    if len(columns) == 1:
        return columns[0]
    return [None if None in key else key for key in zip(*columns, strict=True)]


def first_rows(values: Iterable[Hashable]) -> dict[Hashable, int]:
    """Return the first row of each distinct non-NULL key, in order."""
    found: dict[Hashable, int] = {}
    for row, value in enumerate(values):
        if value is not None:
            found.setdefault(value, row)
    return found


def in_batches(tables: Iterable[pa.Table], size: int) -> Iterator[pa.Table]:
    """Regroup rows into tables of exactly ``size`` rows; only the last may have fewer."""
    import pyarrow as pa

    held: list[pa.Table] = []
    count = 0
    for table in tables:
        held.append(table)
        count += table.num_rows
        if count < size:
            continue
        whole = pa.concat_tables(held)
        full = count - count % size
        yield from (whole.slice(start, size) for start in range(0, full, size))
        held, count = [whole.slice(full)], count - full
    if count:
        yield pa.concat_tables(held)


def format_sample(keys: pa.Table) -> str:
    """Format the first keys of a table for an error.

    >>> import pyarrow as pa
    >>> sample(pa.table({"id": [17, 4, 99, 5], "kind": ["a", "b", "c", "d"]}))
    "(id, kind) = (17, 'a'), (4, 'b'), (99, 'c'), …"
    """
    shown = []
    for row in range(min(keys.num_rows, _MAX_SHOWN)):
        words = [format_value(column, row) for column in keys.columns]
        shown.append(words[0] if len(words) == 1 else f"({', '.join(words)})")
    names = keys.column_names
    left = names[0] if len(names) == 1 else f"({', '.join(names)})"
    return f"{left} = {', '.join(shown)}{', …' if keys.num_rows > _MAX_SHOWN else ''}"


def _values(column: pa.ChunkedArray) -> list[Hashable]:
    import pyarrow as pa

    if pa.types.is_date32(column.type) or pa.types.is_time32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_temporal(column.type):  # Python's types have a smaller range
        column = column.cast(pa.int64())
    values: list[Hashable] = column.to_pylist()
    if pa.types.is_floating(column.type):
        values = [_NAN if value != value else value for value in values]
    return values
