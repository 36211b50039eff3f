"""Converts between JSON and Arrow exactly: a value that a column cannot hold is an error, never another value.

| column | accepted JSON |
| --- | --- |
| BOOLEAN | true, false |
| integers | a number without a fraction (``1``, ``1.0``, ``1e2``) within the range of the type |
| DOUBLE, FLOAT | a number, rounded to the nearest of the type; ``"NaN"``, ``"Infinity"``, ``"-Infinity"`` |
| DECIMAL | a number, or a string with a number, that needs no rounding |
| STRING | a string of Unicode characters |
| BINARY | a string: base64 with padding, in the standard alphabet |
| DATE | a string: ``2024-02-29`` |
| TIMESTAMP | a string with an offset from UTC: ``2024-02-29T10:00:00Z`` |
| TIMESTAMP_NTZ | a string without an offset: ``2024-02-29T10:00:00`` |

Keys are written in these forms: decimals as strings, and timestamps in UTC.
"""

from __future__ import annotations

import base64
import json
import math
import re
import struct
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import TYPE_CHECKING, Any

from dovetail.executor.connectors.answer import WrongAnswer
from dovetail.planner.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa

_MAX_SHOWN = 60  # characters of a value in an error
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIMESTAMP = re.compile(
    rf"(?P<day>{_DATE.pattern})[Tt ](?P<time>([01]\d|2[0-3]):\d\d:\d\d)(?:\.(?P<fraction>\d{{1,9}}))?"
    r"(?P<offset>[Zz]|[+-]\d\d:\d\d)?",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def parse(body: bytes) -> Any:
    """Parse UTF-8 JSON with exact numbers.  Raises ``WrongAnswer`` for invalid JSON and NaN."""
    try:
        return json.loads(body.decode("utf-8-sig"), parse_float=Decimal, parse_constant=_refuse)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise WrongAnswer(f"the answer is not JSON: {error}") from None


def array(values: list[Any], field: pa.Field) -> pa.Array:
    """Convert JSON values into a column.  Raises ``WrongAnswer`` for a value that the column cannot hold."""
    import pyarrow as pa

    read, held = reader(field)
    found = []
    for value in values:
        one = None if value is None else read(value)
        if one is None and value is not None:
            hint = _hint(value, field.type)
            raise WrongAnswer(f"the column {field.name} came back as {_describe(value)}; it is {field.type}{hint}")
        found.append(one)
    made = pa.array(found, held or field.type)
    return made.view(field.type) if held is not None else made


def plain_values(column: pa.ChunkedArray) -> list[Any]:
    """Convert a column of keys into JSON values.  Raises ``SourceError`` for a year that ISO 8601 has no digits for."""
    import pyarrow as pa

    zone = ""
    try:
        if pa.types.is_timestamp(column.type):
            zone = "+00:00" if column.type.tz else ""
            utc = pa.timestamp("us", column.type.tz and "UTC")
            column = column.cast(utc).cast(pa.int64()).cast(pa.timestamp("us"))
        values = column.to_pylist()
    except (ValueError, OverflowError):
        raise SourceError("a key lies outside the years 1 to 9999, which are those of JSON; filter such rows") from None
    return [value.isoformat() + zone if isinstance(value, date) else _plain(value) for value in values]


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    if isinstance(value, Decimal):
        return format(value, "f")
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def reader(field: pa.Field) -> tuple[Callable[[Any], Any], pa.DataType | None]:
    """Return the reader of a type, which returns None for an invalid value, and its Arrow type if that is another.

    Raises ``SourceError`` for a type that is not read from JSON.
    """
    import pyarrow as pa

    type_, types = field.type, pa.types
    if types.is_boolean(type_):
        return (lambda value: value if isinstance(value, bool) else None), None
    if types.is_integer(type_):
        low, high = _range(type_)
        return (lambda value: _whole(value, low, high)), None
    if types.is_float32(type_) or types.is_float64(type_):
        return (lambda value: _floating(value, single=types.is_float32(type_))), None
    if types.is_decimal(type_):
        return (lambda value: _decimal(value, type_.precision, type_.scale)), None
    if types.is_date32(type_):
        return _day, None
    if types.is_timestamp(type_):
        unit, zoned = type_.unit, type_.tz is not None
        return (lambda value: _ticks(value, _PER_SECOND[unit], zoned=zoned)), pa.int64()
    if _is_binary(type_) or _is_text(type_):
        return (_bytes if _is_binary(type_) else _text), None
    raise SourceError(f"the column {field.name} is {type_}, which is not read from JSON")


def _is_binary(type_: pa.DataType) -> bool:
    import pyarrow as pa

    return type_ in (pa.binary(), pa.large_binary(), pa.binary_view())


def _is_text(type_: pa.DataType) -> bool:
    import pyarrow as pa

    return type_ in (pa.string(), pa.large_string(), pa.string_view())


def _range(type_: pa.DataType) -> tuple[int, int]:
    import pyarrow as pa

    bits = type_.bit_width
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if pa.types.is_signed_integer(type_) else (0, 2**bits - 1)


def _day(value: Any) -> date | None:
    try:
        return date.fromisoformat(value) if isinstance(value, str) and _DATE.fullmatch(value) else None
    except ValueError:
        return None


def _ticks(value: Any, per_second: int, *, zoned: bool) -> int | None:
    """Parse a timestamp into units since 1970; it has an offset if ``zoned``, and none otherwise."""
    found = _TIMESTAMP.fullmatch(value) if isinstance(value, str) else None
    if found is None or (found["offset"] is not None) != zoned:
        return None
    offset = (found["offset"] or "Z").upper().replace("Z", "+00:00")
    try:
        whole = datetime.fromisoformat(f"{found['day']}T{found['time']}{offset}")
    except ValueError:
        return None
    fraction, finer = divmod(int((found["fraction"] or "").ljust(9, "0")), 10**9 // per_second)
    number = (whole - _EPOCH) // timedelta(seconds=1) * per_second + fraction
    return number if not finer and -(2**63) <= number < 2**63 else None


def _number(value: Any) -> Decimal | None:
    return Decimal(value) if isinstance(value, int | Decimal) and not isinstance(value, bool) else None


def _whole(value: Any, low: int, high: int) -> int | None:
    number = None if isinstance(value, str) else _decimal(value, 20, 0)
    return int(number) if number is not None and low <= number <= high else None


def _floating(value: Any, *, single: bool) -> float | None:
    """Round to the nearest number of the type; None if that is infinite."""
    if isinstance(value, str):
        return _SPECIAL.get(value)
    number = _number(value)
    if number is None:
        return None
    found = float(number)
    if math.isinf(found):
        return None
    if not single:
        return found
    try:
        return float(struct.unpack("<f", struct.pack("<f", _to_odd(found, number)))[0])
    except OverflowError:
        return None


def _to_odd(found: float, number: Decimal) -> float:
    """Round to odd, so that rounding the double to FLOAT afterwards gives the nearest FLOAT of the number."""
    exact = Decimal(found)
    if exact == number or struct.unpack("<q", struct.pack("<d", found))[0] & 1:
        return found
    return math.nextafter(found, math.inf if number > exact else -math.inf)


def _decimal(value: Any, precision: int, scale: int) -> Decimal | None:
    """A number with all of its digits; None if it has too many of them."""
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        return None
    try:
        number = Decimal(value) if isinstance(value, str) else _number(value)
        exact = Context(precision, traps=[Inexact, InvalidOperation])
        return None if number is None else number.quantize(Decimal(1).scaleb(-scale), context=exact)
    except ArithmeticError:
        return None


def _text(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        value.encode()
    except UnicodeEncodeError:
        return None
    return value


def _bytes(value: Any) -> bytes | None:
    if not isinstance(value, str):
        return None
    try:
        found = base64.b64decode(value, validate=True)
    except ValueError:
        return None
    return found if base64.b64encode(found).decode() == value else None


def _hint(value: Any, type_: pa.DataType) -> str:
    """Describe the string format of a column, for a string that does not have it."""
    import pyarrow as pa

    if _is_text(type_):
        return "" if not isinstance(value, str) else ": half of a surrogate pair is not a character"
    if not isinstance(value, str):
        return ""
    if pa.types.is_date32(type_):
        return ", a string like '2024-02-29'"
    if pa.types.is_timestamp(type_) and type_.tz is None:
        return ", a string like '2024-02-29T10:00:00', without an offset; declare the column TIMESTAMP for instants"
    if pa.types.is_timestamp(type_):
        return (
            ", a string like '2024-02-29T10:00:00Z', with an offset; declare the column TIMESTAMP_NTZ for local times"
        )
    if _is_binary(type_):
        return ", a string in standard base64 with padding ('+' and '/', not '-' and '_')"
    return ", a number that needs no rounding, or a string with one" if pa.types.is_decimal(type_) else ""


def _describe(value: Any) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    text = str(value) if isinstance(value, Decimal) else repr(value)
    if not text.isprintable():
        text = ascii(value)
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"


def _refuse(text: str) -> Any:
    raise ValueError(f'{text} is not a JSON number; write "{text}"')
