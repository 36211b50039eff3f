"""Converts source values to Spark's types: a value arrives unchanged, or is an error that names it.

A source's column has the Arrow type of its rows; ``spark_types`` returns the type that Spark gets.  A value that does
not fit the type never becomes another value.  In a key column it equals no key, so its row matches nothing; in any
other column it is a ``SourceError``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING

from dovetail.planner.catalog_file.keys import wrong_lookup_type
from dovetail.planner.errors import SourceError
from dovetail.planner.types.schema import sql_type

if TYPE_CHECKING:
    import pyarrow as pa

DIGITS = 38  # of a DECIMAL in Spark
_MAX_SHOWN = 60  # characters of a value in an error
_SCALE = 18  # the least scale that a DECIMAL keeps when its precision is reduced to Spark's


@dataclass(frozen=True)
class ConvertedColumn:
    """A converted column: NULL where ``misfits`` is true; ``misfits`` is None if all values fit."""

    values: pa.ChunkedArray
    misfits: pa.ChunkedArray | None
    format_row: Callable[[int], str]  # formats the source's value of a row


def spark_types(schema: pa.Schema) -> pa.Schema:
    """Return the schema with Spark's types: microseconds, DECIMAL up to 38 digits, one string layout."""
    import pyarrow as pa

    return pa.schema([pa.field(field.name, _spark_type(field.type), field.nullable) for field in schema])


def convert(column: pa.ChunkedArray, type_: pa.DataType) -> ConvertedColumn:
    """Convert a column; a value that does not survive the round trip through ``type_`` is a misfit."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def format_row(row: int) -> str:
        return format_value(column, row)

    if column.type == type_:
        return ConvertedColumn(column, None, format_row)
    if pa.types.is_decimal(column.type) and pa.types.is_decimal(type_):
        if column.type.precision <= type_.precision and column.type.scale == type_.scale:
            return ConvertedColumn(column.cast(type_), None, format_row)
        texts = [None if value is None else f"{value:f}" for value in column.to_pylist()]
        return parse_decimals(pa.chunked_array([pa.array(texts, pa.string())]), type_)
    kinds = (pa.types.is_timestamp, pa.types.is_duration, pa.types.is_date64, pa.types.is_time)
    if any(is_kind(column.type) for is_kind in kinds):  # an unchecked cast and the cast back reveal the misfits
        there = column.cast(type_, safe=False)
        return null_misfits(there, pc.not_equal(there.cast(column.type, safe=False), column), format_row)
    return ConvertedColumn(column.cast(type_), None, format_row)


def parse_decimals(texts: pa.ChunkedArray, type_: pa.DataType) -> ConvertedColumn:
    """Parse numbers in plain decimal digits.  Arrow's own cast wraps around for numbers with too many digits."""
    import pyarrow as pa
    import pyarrow.compute as pc

    whole, scale = type_.precision - type_.scale, type_.scale
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    if longest <= whole and not pc.any(pc.match_substring_regex(texts, "[^0-9.-]")).as_py():
        with suppress(pa.ArrowInvalid):  # no value has too many digits, and one with too many decimals raises
            return ConvertedColumn(texts.cast(type_), None, lambda row: format_value(texts, row))
    fits = pc.match_substring_regex(texts, rf"^[+-]?0*[0-9]{{0,{whole}}}(\.[0-9]{{0,{scale}}}0*)?$")
    fits = pc.and_(fits, pc.match_substring_regex(texts, "[0-9]"))
    plain = pc.if_else(fits, texts, None)
    plain = pc.replace_substring_regex(plain, r"^([+-]?)0+([0-9])", r"\1\2")
    plain = pc.replace_substring_regex(plain, rf"(\.[0-9]{{{scale}}})0+$", r"\1")
    plain = pc.replace_substring_regex(plain, r"\.$", "")
    return null_misfits(plain.cast(type_), pc.invert(fits), lambda row: format_value(texts, row))


def null_misfits(
    values: pa.ChunkedArray, misfits: pa.ChunkedArray, format_row: Callable[[int], str]
) -> ConvertedColumn:
    """Replace misfits by NULL; a NULL of the source is no misfit."""
    import pyarrow.compute as pc

    misfits = pc.fill_null(misfits, False)
    if not pc.any(misfits).as_py():
        return ConvertedColumn(values, None, format_row)
    return ConvertedColumn(pc.if_else(misfits, None, values), misfits, format_row)


def drop_unmatched_rows(
    columns: Sequence[tuple[str, ConvertedColumn]],
    keys: Sequence[str],
    remedy: Callable[[str, pa.DataType], str],
    constants: Mapping[str, pa.Scalar] = MappingProxyType({}),
) -> pa.Table:
    """Return the rows whose keys fit.  Raises ``SourceError`` if another value of such a row does not fit.

    Rows with other values than the ``constants`` are not requested, and are not checked.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    table = pa.table([column.values for _, column in columns], names=[name for name, _ in columns])
    if all(column.misfits is None for _, column in columns):
        return table
    unmatched = None
    for name, column in columns:
        other = column.misfits if name in keys else None
        if name in constants:
            other = pc.fill_null(pc.not_equal(column.values, constants[name]), True)
        if other is not None:
            unmatched = other if unmatched is None else pc.or_(unmatched, other)
    for name, column in columns:
        if name in keys or name in constants or column.misfits is None:
            continue
        misfits = column.misfits if unmatched is None else pc.and_not(column.misfits, unmatched)
        if (row := pc.index(misfits, True).as_py()) >= 0:
            type_ = column.values.type
            raise SourceError(
                f"the column {name} has {column.format_row(row)}, which Spark's {spark_name(type_)} cannot hold; "
                f"{remedy(name, type_)}"
            )
    return table if unmatched is None else table.filter(pc.invert(unmatched))


def format_value(column: pa.ChunkedArray, row: int) -> str:
    """Format a value for an error; a time that Python does not have is a number."""
    value = column[row]
    try:
        found = value.as_py()
    except (ValueError, OverflowError, KeyError):  # the last one where no time zone is installed
        return f"{value.value:,} {value.type}"
    if isinstance(found, date):  # a timestamp is one, too
        return found.isoformat()
    return shortened(str(found) if isinstance(found, Decimal | timedelta) else repr(found))


def shortened(text: str) -> str:
    """A text of a value as an error has it."""
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"


def spark_name(type_: pa.DataType) -> str:
    """Return the name of a type in Spark SQL, for errors."""
    import pyarrow as pa

    if pa.types.is_decimal(type_):
        return f"DECIMAL({type_.precision}, {type_.scale})"
    if pa.types.is_timestamp(type_):
        return "TIMESTAMP" if type_.tz else "TIMESTAMP_NTZ"
    return next((name.upper() for name, named in _arrow_types().items() if named == type_), str(type_))


def _arrow_types() -> dict[str, pa.DataType]:
    """The Arrow types by their names in Spark, except DECIMAL."""
    import pyarrow as pa

    return {
        "boolean": pa.bool_(),
        "tinyint": pa.int8(),
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestamp_ntz": pa.timestamp("us"),
    }


def arrow_type(text: str) -> pa.DataType:
    """Return the Arrow type of a Spark SQL type: ``BIGINT``, ``DECIMAL(10, 2)``.  Raises ``SourceError`` for others."""
    import pyarrow as pa

    if wrong := wrong_lookup_type(text):
        raise SourceError(wrong)
    type_ = sql_type(text)
    return pa.decimal128(type_.precision, type_.scale) if type_.name == "decimal" else _arrow_types()[type_.name]


def _spark_type(type_: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    if pa.types.is_dictionary(type_):
        return _spark_type(type_.value_type)
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", "UTC" if type_.tz else None)
    if pa.types.is_date64(type_):
        return pa.date32()
    if pa.types.is_duration(type_):
        return pa.duration("us")
    if pa.types.is_time(type_):
        return pa.time64("ns")
    if pa.types.is_decimal(type_):
        precision, scale = type_.precision, type_.scale
        if scale < 0:
            precision, scale = precision - scale, 0
        if precision > DIGITS:
            scale = min(scale, max(DIGITS - (precision - scale), _SCALE))
        return pa.decimal128(min(precision, DIGITS), min(scale, DIGITS))
    if type_ in (pa.large_string(), pa.string_view()):
        return pa.string()
    if type_ in (pa.large_binary(), pa.binary_view()):
        return pa.binary()
    return type_
