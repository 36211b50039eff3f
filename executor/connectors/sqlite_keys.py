"""Key conditions for SQLite: they find every value that Spark considers equal, and can use an index.

A condition may match more rows, as the range of REALs for a decimal does; the rows are compared again when read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from dovetail.executor.connectors.database import DbColumn, quote_identifier
from dovetail.executor.connectors.sqlite_values import EXACT

if TYPE_CHECKING:
    import pyarrow as pa

_NEAR = 1e-14  # the relative distance of a REAL from a number that agrees with it in 15 digits
_MAX_INTEGER = 2**63


def key_columns(column: DbColumn, n: int) -> list[str]:
    """Return the columns of the key table for the n-th key column: a range for a decimal."""
    import pyarrow as pa

    return [f"low{n}", f"high{n}"] if pa.types.is_decimal(column.type) else [f"key{n}"]


def condition(column: DbColumn, n: int) -> str:
    """Return the condition that a column of ``t`` may equal a key; strings are compared by bytes."""
    import pyarrow as pa

    name = f"t.{quote_identifier(column.name)}"
    if pa.types.is_decimal(column.type):
        number = name if column.native not in ("TEXT", "BLOB") else f"CAST({name} AS NUMERIC)"
        return f"{number} BETWEEN k.low{n} AND k.high{n}"
    if not pa.types.is_string(column.type):
        return f"{name} = k.key{n}"
    exactly = f"CAST({name} AS TEXT) COLLATE BINARY = k.key{n}"
    return f"{name} = k.key{n} AND {exactly}" if column.native == "TEXT" else exactly


def bound_keys(keys: pa.Table, columns: Sequence[DbColumn]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of the key table: the number of a key, and each form in which the key may be stored."""
    each = [_key_forms(keys.column(n), column) for n, column in enumerate(columns)]
    for number, ways in enumerate(zip(*each, strict=True)):
        for one in product(*ways):
            yield (number, *(value for values in one for value in values))


def _key_forms(keys: pa.ChunkedArray, column: DbColumn) -> list[list[tuple[Any, ...]]]:
    """Return the stored forms of each key; none for a key that the column cannot contain."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        return [_timestamp_forms(text) if _has_four_digits(text) else [] for text in keys.cast(pa.string()).to_pylist()]
    if pa.types.is_date32(column.type):
        return [[(text,)] if _has_four_digits(text) else [] for text in keys.cast(pa.string()).to_pylist()]
    if pa.types.is_decimal(column.type):
        ranges: Callable[[Decimal], list[tuple[Any, ...]]] = partial(_range, spread=column.native in ("TEXT", "BLOB"))
        return [ranges(value) for value in keys.to_pylist()]
    if pa.types.is_floating(column.type):
        return [[] if math.isnan(value) else [(value,)] for value in keys.to_pylist()]
    return [[(value,)] for value in keys.to_pylist()]


def _has_four_digits(text: str) -> bool:
    """Whether a date has a four-digit year, as all dates in SQLite have."""
    return len(text) > 4 and text[4] == "-" and text[:4].isdigit()


def _range(key: Decimal, *, spread: bool) -> list[tuple[Any, ...]]:
    """Return the range of numbers that may equal a decimal: an exact integer, or REALs that agree in 15 digits."""
    if abs(key) < EXACT or spread:
        near = float(key) * _NEAR
        return [tuple(sorted((float(key) - near, float(key) + near)))]
    whole = key == key.to_integral_value()
    if whole and -_MAX_INTEGER <= int(key) < _MAX_INTEGER:
        return [(int(key), int(key))]
    return [(float(key), float(key))] if Decimal(float(key)) == key else []


def _timestamp_forms(text: str) -> list[tuple[Any, ...]]:
    """Return all stored forms of a timestamp: with a space or a T, and with any sufficient number of digits.

    >>> [form for form, in _moments("2024-01-31 10:00:00.500000")][:3]
    ['2024-01-31 10:00:00.5', '2024-01-31 10:00:00.50', '2024-01-31 10:00:00.500']
    """
    whole, _, digits = text.partition(".")
    digits = digits.ljust(6, "0")
    needed = len(digits.rstrip("0"))
    found = [f"{whole}.{digits[:n]}" for n in range(max(needed, 1), 7)]
    if not needed:
        found.append(whole)
        if whole.endswith(":00"):
            found.append(whole[:16])
        if whole.endswith(":00:00"):
            found.append(whole[:13])
    forms = [*found, *(one.replace(" ", "T") for one in found)]
    if not needed and whole.endswith(" 00:00:00"):
        forms.append(whole[:10])
    return [(one,) for one in forms]
