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
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from dovetail.executor.connectors import iso_time
from dovetail.executor.connectors.answer import WrongAnswer

if TYPE_CHECKING:
    import pyarrow as pa

_MAX_SHOWN = 60  # characters of a value in an error
_LONG = 300  # digits from which a number is parsed as a decimal
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def parse(body: bytes) -> Any:
    """Parse UTF-8 JSON with exact numbers.  Raises ``WrongAnswer`` for invalid JSON, NaN and duplicate members."""
    try:
        return json.loads(
            body.decode("utf-8-sig"),
            parse_int=_integer,
            parse_float=_fraction,
            parse_constant=_refuse,
            object_pairs_hook=_object,
        )
    except RecursionError:
        raise WrongAnswer("the answer is not readable JSON: it is nested too deeply") from None
    except ValueError as error:
        raise WrongAnswer(f"the answer is not JSON: {error}") from None


def array(values: list[Any], field: pa.Field) -> pa.Array:
    """Convert JSON values into a column.  Raises ``WrongAnswer`` for a value that the column cannot hold."""
    import pyarrow as pa

    read, held = _reader(field.type)
    found = []
    for value in values:
        one = None if value is None else read(value)
        if one is None and value is not None:
            hint = _hint(value, field.type)
            raise WrongAnswer(f"the column {field.name} came back as {_describe(value)}; it is {field.type}{hint}")
        found.append(one)
    made = pa.array(found, held or field.type)
    return made.view(field.type) if held is not None else made


def is_known(type_: pa.DataType) -> bool:
    """Whether values of this type can be converted."""
    import pyarrow as pa

    types = pa.types
    tests: tuple[Callable[[pa.DataType], bool], ...] = (
        types.is_boolean,
        types.is_integer,
        types.is_float32,
        types.is_float64,
        types.is_decimal,
        types.is_date32,
        types.is_timestamp,
        _is_binary,
        _is_text,
    )
    return any(is_type(type_) for is_type in tests)


def plain_values(column: pa.ChunkedArray) -> list[Any]:
    """Convert a column of keys into JSON values."""
    import pyarrow as pa

    type_ = column.type
    if pa.types.is_timestamp(type_):
        zoned = type_.tz is not None
        numbers = column.cast(pa.int64()).to_pylist()
        return [None if n is None else iso_time.timestamp_text(n, type_.unit, zoned=zoned) for n in numbers]
    if pa.types.is_date32(type_):
        return [None if n is None else iso_time.date_text(n) for n in column.cast(pa.int32()).to_pylist()]
    return [_plain(value) for value in column.to_pylist()]


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    if isinstance(value, Decimal):
        return format(value, "f")
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _reader(type_: pa.DataType) -> tuple[Callable[[Any], Any], pa.DataType | None]:
    """Return the reader of a type, which returns None for an invalid value, and its Arrow type if that is another."""
    import pyarrow as pa

    types = pa.types
    if types.is_boolean(type_):
        return (lambda value: value if isinstance(value, bool) else None), None
    if types.is_integer(type_):
        low, high = _range(type_)
        return (lambda value: _whole(value, low, high)), None
    if types.is_floating(type_):
        return (lambda value: _floating(value, single=types.is_float32(type_))), None
    if types.is_decimal(type_):
        return (lambda value: _decimal(value, type_.precision, type_.scale)), None
    if types.is_date32(type_):
        return (lambda value: _in_range(iso_time.days(value), 31) if isinstance(value, str) else None), pa.int32()
    if types.is_timestamp(type_):
        unit, zoned = type_.unit, type_.tz is not None
        return (
            lambda value: _in_range(iso_time.ticks(value, unit, zoned=zoned), 63) if isinstance(value, str) else None
        ), pa.int64()
    return (_bytes if _is_binary(type_) else _text), None


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


def _in_range(number: int | None, bits: int) -> int | None:
    return number if number is not None and -(2**bits) <= number < 2**bits else None


def _number(value: Any) -> Decimal | None:
    return Decimal(value) if isinstance(value, int | Decimal) and not isinstance(value, bool) else None


def _whole(value: Any, low: int, high: int) -> int | None:
    number = _number(value)
    if number is None or (number.adjusted() > 20 and not number.is_zero()):
        return None
    if number.is_zero():
        return 0
    if number != number.to_integral_value():
        return None
    return int(number) if low <= number <= high else None


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
    if isinstance(value, str):
        if not _NUMBER.fullmatch(value):
            return None
        try:
            number: Decimal | None = Decimal(value)
        except ArithmeticError:
            return None
    else:
        number = _number(value)
    if number is None or not number.is_finite():
        return None
    if number.is_zero():
        return Decimal(0)
    digits = number.as_tuple()
    assert isinstance(digits.exponent, int)
    zeros = next(n for n, digit in enumerate(reversed(digits.digits)) if digit)
    if digits.exponent + zeros < -scale or number.adjusted() + 1 > precision - scale:
        return None
    return Decimal((digits.sign, digits.digits[: len(digits.digits) - zeros], digits.exponent + zeros))


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


def _integer(text: str) -> int | Decimal:
    return Decimal(text) if len(text) > _LONG or text == "-0" else int(text)


def _fraction(text: str) -> Decimal:
    try:
        return Decimal(text)
    except ArithmeticError:
        raise ValueError(f"{text[:_MAX_SHOWN]} is out of range") from None


def _refuse(text: str) -> Any:
    raise ValueError(f'{text} is not a JSON number; write "{text}"')


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise ValueError(f"the member {twice[:_MAX_SHOWN]!r} occurs twice in an object")
    return found
