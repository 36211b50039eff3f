"""Converts SQLite values to Spark's types, by the column's type and the value's storage class.

SQLite stores any value in any column.  Here a value that does not have its column's type is a misfit, so that a fetch
by key and a scan find the same rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from dovetail.executor.connectors.database import DbColumn, quote_identifier
from dovetail.executor.connectors.values import ConvertedColumn, null_misfits, parse_decimals, shortened
from dovetail.planner.catalog_file.keys import wrong_sqlite_type
from dovetail.planner.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa

EXACT = 10**15  # a REAL from here on has no 15 certain digits, and is converted with all of its digits
_NUMERIC = (38, 18)
_NONE = type(None)


def affinity(declared: str) -> str:
    """Return the affinity of a column by SQLite's rules; ``BLOB`` for none."""
    text = declared.upper()
    if "INT" in text:
        return "INTEGER"
    if any(word in text for word in ("CHAR", "CLOB", "TEXT")):
        return "TEXT"
    if not text or "BLOB" in text:
        return "BLOB"
    return "REAL" if any(word in text for word in ("REAL", "FLOA", "DOUB")) else "NUMERIC"


def type_of(declared: str) -> pa.DataType:
    """Return the Arrow type of a column's declared type."""
    import pyarrow as pa

    text = declared.upper().strip()
    if found := re.fullmatch(r"(?:DECIMAL|NUMERIC)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", text):
        precision, scale = int(found[1]), int(found[2] or 0)
        return pa.decimal128(precision, scale) if 0 < precision <= 38 and scale <= precision else _default_decimal()
    if "INT" in text:
        return pa.int64()
    if text.startswith("BOOL"):
        return pa.bool_()
    if text == "DATE":
        return pa.date32()
    if text.startswith(("DATETIME", "TIMESTAMP")):
        return pa.timestamp("us")
    if any(word in text for word in ("REAL", "FLOA", "DOUB")):
        return pa.float64()
    if text.startswith(("BINARY", "VARBINARY")) or "BLOB" in text:
        return pa.binary()
    return _default_decimal() if text.startswith(("DECIMAL", "NUMERIC")) else pa.string()


def check_type(text: str) -> None:
    """Raise ``SourceError`` for a type that ``types`` cannot give to a column.

    SQLite derives an affinity from any declaration; for the caller's ``types`` that would hide a typo.
    """
    if wrong := wrong_sqlite_type(text):
        raise SourceError(f"types: {wrong}")


def select_sql(column: DbColumn) -> str:
    """Return the select expression of a column of ``t``; SQLite casts numbers to strings if the column is STRING."""
    import pyarrow as pa

    name = f"t.{quote_identifier(column.name)}"
    if pa.types.is_string(column.type) and column.native != "TEXT":
        return f"CASE typeof({name}) WHEN 'blob' THEN {name} ELSE CAST({name} AS TEXT) END"
    return name


def is_injective(column: DbColumn) -> bool:
    """Whether different stored values stay different in Spark, so that a unique index is a unique key.

    A timestamp has several stored forms; a REAL becomes a decimal, and any number a string, with 15 digits.
    """
    import pyarrow as pa

    if pa.types.is_decimal(column.type) or pa.types.is_timestamp(column.type):
        return False
    return not pa.types.is_string(column.type) or column.native == "TEXT"


def read(values: tuple[Any, ...], column: DbColumn) -> ConvertedColumn:
    """Convert a column of SQLite."""
    import pyarrow as pa

    kinds: set[type] = set(map(type, values))
    type_ = column.type
    kinds.discard(_NONE)
    if pa.types.is_decimal(type_):
        if kinds <= {int, float} and (quick := _short_decimals(values, type_)) is not None:
            return ConvertedColumn(quick, None, repr)
        good = _allow_classes(values, kinds, {int, float, str} if column.native in ("TEXT", "BLOB") else {int, float})
        return _with_source_text(
            parse_decimals(_chunked([_digits(value) for value in good], pa.string()), type_), values, good
        )
    if pa.types.is_date32(type_) or pa.types.is_timestamp(type_):
        good = _allow_classes(values, kinds, {str})
        return _convert(values, good, lambda part: pa.array(part, pa.string()).cast(type_), type_)
    if pa.types.is_boolean(type_):
        good = _allow_classes(values, kinds, {int})
        if not set(good) <= {None, 0, 1}:
            good = [value if value in (0, 1) else None for value in good]
        return _convert(values, good, lambda part: pa.array(part, pa.int64()).cast(type_), type_)
    if pa.types.is_integer(type_):
        good = _allow_classes(values, kinds, {int, float})
        if float in kinds:  # which Arrow would truncate
            good = [_whole(value) for value in good]
        return _convert(values, good, lambda part: pa.array(part, type_), type_)
    others: dict[pa.DataType, set[type]] = {pa.string(): {str}, pa.binary(): {bytes}}
    allowed = others.get(type_, {int, float})
    return _convert(values, _allow_classes(values, kinds, allowed), lambda part: pa.array(part, type_), type_)


def _default_decimal() -> pa.DataType:
    import pyarrow as pa

    return pa.decimal128(*_NUMERIC)


def _allow_classes(values: tuple[Any, ...], kinds: set[type], allowed: set[type]) -> Any:
    """Replace values of other storage classes by None."""
    if kinds <= allowed:
        return values
    return [value if type(value) in allowed else None for value in values]


def _digits(value: Any) -> str | None:
    """Format a number in decimal digits: a REAL with the 15 digits that SQLite prints, a large one with all digits."""
    if not isinstance(value, float):
        return None if value is None else str(value)
    if abs(value) >= EXACT:
        return f"{Decimal(value):f}"
    text = f"{value:.15g}"
    return f"{Decimal(text):f}" if "e" in text else text


def _whole(value: Any) -> int | None:
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return None if value is None else int(value)


def _short_decimals(values: tuple[Any, ...], type_: pa.DataType) -> pa.ChunkedArray | None:
    """Convert numbers of at most 15 digits, all within the type, to decimals; None if a number has more digits.

    A REAL that is nearest to a 15-digit decimal prints as that decimal.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        numbers = pa.array(values, pa.float64())
    except pa.ArrowInvalid:  # an integer beyond the range of REAL
        return None
    unit, limit = 10.0**type_.scale, float(min(EXACT, 10**type_.precision))
    units = pc.round(pc.multiply(numbers, unit))
    fits = pc.and_(pc.equal(pc.divide(units, unit), numbers), pc.less(pc.abs(units), limit))
    if not pc.all(fits).as_py():
        return None
    whole = units.cast(pa.int64()).cast(pa.decimal128(19, 0))
    return pa.chunked_array([pa.Array.from_buffers(type_, len(whole), whole.buffers())])


def _convert(
    values: tuple[Any, ...], good: Any, cast: Callable[[Any], pa.Array], type_: pa.DataType
) -> ConvertedColumn:
    """Convert all values at once, or one by one if a value does not fit."""
    import pyarrow as pa

    try:
        whole = pa.chunked_array([cast(good)])
        return _with_source_text(ConvertedColumn(whole, None, repr), values, good)
    except (pa.ArrowException, ValueError, OverflowError):
        single = [_cast_one(value, cast) for value in good]
    fits = pa.concat_arrays([pa.nulls(1, type_) if array is None else array for array in single])
    marked = [value if array is not None else None for value, array in zip(good, single, strict=True)]
    return _with_source_text(ConvertedColumn(pa.chunked_array([fits]), None, repr), values, marked)


def _cast_one(value: Any, cast: Callable[[Any], pa.Array]) -> pa.Array | None:
    import pyarrow as pa

    try:
        return cast([value])
    except (pa.ArrowException, ValueError, OverflowError):
        return None


def _with_source_text(read_: ConvertedColumn, values: tuple[Any, ...], good: Any) -> ConvertedColumn:
    """Mark the values that were lost as misfits, and describe values in SQLite's form."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def format_row(row: int) -> str:
        return shortened(repr(values[row]))

    if good is values:
        return ConvertedColumn(read_.values, read_.misfits, format_row)
    lost = _chunked([a is None and b is not None for a, b in zip(good, values, strict=True)], pa.bool_())
    misfits = lost if read_.misfits is None else pc.or_(lost, read_.misfits)
    return null_misfits(read_.values, misfits, format_row)


def _chunked(values: list[Any], type_: pa.DataType) -> pa.ChunkedArray:
    import pyarrow as pa

    return pa.chunked_array([pa.array(values, type_)])
