"""JSON values of every kind for columns of every type: each comes back as it is, or is an error that names it.

The oracle is a table of its own, over what was written: a number as a fraction, a text as a text.  It shares nothing
with the code: dates come from ``datetime``, the nearest FLOAT from a search among fractions.
"""

from __future__ import annotations

import base64
import ctypes
import json
import math
import re
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dovetail.executor.connectors import iso_time, json_values
from dovetail.executor.connectors.answer import WrongAnswer
from effort import examples
from shares import Share, at_least

share = at_least(0.2)  # the column takes the value

Written = tuple[str, Any, str]  # its kind, what it is, and its text
ERROR = object()
TYPES = (
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(5, 2),
    pa.decimal128(38, 18),
    pa.decimal128(38, 0),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.timestamp("us", tz="UTC"),
    pa.timestamp("us"),
    pa.timestamp("ms", tz="UTC"),
    pa.timestamp("ns"),
)

_BOUNDS = [Fraction(s * (2**b + d)) for b in (0, 7, 8, 15, 24, 31, 53, 63, 127) for s in (1, -1) for d in (-1, 0, 1)]
numbers = st.one_of(
    st.sampled_from([str(int(bound)) for bound in _BOUNDS]),
    st.integers(-400, 400).map(str),
    st.decimals(allow_nan=False, allow_infinity=False).map(lambda d: str(d).replace("E", "e")),
    st.tuples(st.integers(-(10**6), 10**6), st.integers(-50, 400)).map(lambda p: f"{p[0]}e{p[1]}"),
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(repr),
    st.sampled_from(
        ["-0", "0.0", "-0.0", "1.0", "1.50", "0e99", "1e2", "1.005", "1" * 60, "1" * 6000, "3.4028235677973366e38"]
    ),
).filter(lambda text: re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?(e[+-]?\d+)?", text) is not None)
days = st.dates().map(date.isoformat)
moments = st.datetimes(timezones=st.just(UTC)).map(datetime.isoformat)
local = st.datetimes().map(datetime.isoformat)
odd = st.sampled_from(
    [
        "2024-02-30",
        "2023-02-29",
        "20240101",
        "2024-W01-1",
        "2024-1-1",
        "2024-01-01 ",
        "2024-01-01T24:00:00Z",
        "2024-06-30T23:59:60Z",
        "2024-01-01T10:00",
        "2024-01-01T10:00:00.1234567Z",
        "2024-01-01T10:00:00.1234560Z",
        "2024-01-01T10:00:00.1234567",
        "2024-01-01T10:00:00,5",
        "2024-01-01T10:00:00+02:00",
        "2024-01-01 10:00:00-00:30",
        "2024-01-01T10:00:00+0200",
        "2024-01-01T10:00:00z",
        "٢٠٢٤-01-01",
        "NaN",
        "Infinity",
        "-Infinity",
        "inf",
        "nan",
        "1_000",
        " 1",
        "1.5",
        "true",
        "AAE=",
        "AAE",
        "AA-_",
        "AA+/",
        "AB==",
        "AA\nE=",
        "",
        "\0",
        "ä€𝄞",
        "\ud800",
        "\udc00\ud800",
    ]
)
base64_texts = st.tuples(st.binary(max_size=9), st.booleans()).map(
    lambda p: (base64.urlsafe_b64encode if p[1] else base64.b64encode)(p[0]).decode()
)
texts = st.one_of(days, moments, local, odd, base64_texts, numbers.filter(lambda n: len(n) < 99), st.text(max_size=8))
values = st.one_of(
    numbers.map(lambda text: ("number", Fraction(Decimal(text)), text)),
    texts.map(lambda text: ("text", text, json.dumps(text))),
    st.booleans().map(lambda flag: ("flag", flag, "true" if flag else "false")),
    st.sampled_from([("null", None, "null"), ("list", None, "[1]"), ("object", None, '{"a": {}}')]),
)


def nearest_float(number: Fraction, bits: int) -> Any:
    """The nearest number of 24 or 53 bits, found among neighbors; ERROR where that is infinite."""
    least, most, digits = (-149, 127, 24) if bits == 32 else (-1074, 1023, 53)
    if number == 0:
        return 0.0
    size = abs(number)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > size
    step = Fraction(2) ** max(exponent - digits + 1, least)
    low = size // step
    rest = size - low * step
    low += rest * 2 > step or (rest * 2 == step and low % 2 == 1)
    found = low * step
    return ERROR if found >= Fraction(2) ** (most + 1) else math.copysign(float(found), number)


def moment(text: str, unit: str, *, zoned: bool) -> Any:
    found = re.fullmatch(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|z|[+-]\d\d:\d\d)?", text, re.ASCII)
    if found is None or bool(found[4]) != zoned:
        return ERROR
    try:
        whole = datetime.fromisoformat(f"{found[1]}T{found[2]}{(found[4] or '+00:00').upper()}")
    except ValueError:
        return ERROR
    if found[2].startswith("24"):
        return ERROR
    seconds = (whole - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    ticks = (seconds + Fraction(int(found[3] or 0), 10 ** len(found[3] or ""))) * {
        "ms": 10**3,
        "us": 10**6,
        "ns": 10**9,
    }[unit]
    return int(ticks) if ticks.denominator == 1 and -(2**63) <= ticks < 2**63 else ERROR


def wanted(value: Written, type_: pa.DataType) -> Any:
    """What a column of the type holds of a value."""
    kind, what, _ = value
    types = pa.types
    if kind == "null":
        return None
    if types.is_boolean(type_):
        return what if kind == "flag" else ERROR
    if types.is_integer(type_):
        half = 2 ** (type_.bit_width - 1)
        return int(what) if kind == "number" and what.denominator == 1 and -half <= what < half else ERROR
    if types.is_floating(type_):
        if kind == "text":
            return {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}.get(what, ERROR)
        if kind == "number" and what == 0:
            return -0.0 if value[2].startswith("-") else 0.0
        return nearest_float(what, type_.bit_width) if kind == "number" else ERROR
    if types.is_decimal(type_):
        if kind == "text" and re.fullmatch(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", what, re.ASCII):
            kind, what = "number", Fraction(what)
        if kind != "number":
            return ERROR
        units = what * 10**type_.scale
        return what if units.denominator == 1 and abs(units) < 10**type_.precision else ERROR
    if kind != "text":
        return ERROR
    if types.is_string(type_):
        return what if not re.search("[\ud800-\udfff]", what) else ERROR
    if types.is_binary(type_):
        rest = len(what) % 4
        plain = re.fullmatch(r"[A-Za-z0-9+/]*={0,2}", what) and rest == 0
        found = base64.b64decode(what) if plain else b""
        return found if plain and base64.b64encode(found) == what.encode() else ERROR
    if types.is_date(type_):
        try:
            return (
                (date.fromisoformat(what) - date(1970, 1, 1)).days if re.fullmatch(r"[0-9]{4}-..-..", what) else ERROR
            )
        except ValueError:
            return ERROR
    return moment(what, type_.unit, zoned=type_.tz is not None)


def held(found: pa.Array) -> Any:
    """The one value of an array, as a number where Python has no such date."""
    if pa.types.is_timestamp(found.type):
        return found.cast(pa.int64()).to_pylist()[0]
    if pa.types.is_date(found.type):
        return found.cast(pa.int32()).to_pylist()[0]
    value = found.to_pylist()[0]
    return Fraction(value) if isinstance(value, Decimal) else value


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return (
            struct.pack("<d", one) == struct.pack("<d", other) or (one != one and other != other) or one == other == 0
        )
    return type(one) is type(other) and bool(one == other)


@given(value=values, type_=st.sampled_from(TYPES))
@settings(max_examples=examples(20))
@example(("text", "AA-_", '"AA-_"'), pa.binary())
@example(("number", Fraction(0), "-0"), pa.float64())
@example(("text", "2024-01-01T10:00:00+02:00", '"2024-01-01T10:00:00+02:00"'), pa.timestamp("us"))
@example(("number", Fraction("1.5"), "1.5"), pa.int32())
@example(("number", Fraction(10**400), "1e400"), pa.float64())
@example(
    (
        "number",
        Fraction(16777217) + Fraction(1, 2**60),
        "16777217.0000000000000000008673617379884035472059622406959533691406250",
    ),
    pa.float32(),
)
def test_a_value_comes_back_as_it_is_or_not_at_all(share: Share, value: Written, type_: pa.DataType) -> None:
    field = pa.field("col", type_)
    expected = wanted(value, type_)
    parsed = json_values.parse(f"[{value[2]}]".encode())
    if not share.count(expected is not ERROR):
        with pytest.raises(WrongAnswer, match=r"the column col came back as .*; it is "):
            json_values.array(parsed, field)
        return
    found = json_values.array(parsed, field)
    assert found.type == type_
    assert same(held(found), expected), (held(found), expected)


@given(number=st.tuples(st.integers(), st.integers(0, 200)).map(lambda p: Fraction(p[0], 2 ** p[1])))
def test_the_search_for_the_nearest_float_is_that_of_the_machine(number: Fraction) -> None:
    assert nearest_float(number, 64) == number.numerator / number.denominator
    if Fraction(float(number)) == number:
        assert nearest_float(number, 32) in (ctypes.c_float(float(number)).value, ERROR)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"[NaN]", 'NaN is not a JSON number; write "NaN"'),
        (b"[-Infinity]", "-Infinity is not a JSON number"),
        (b'[{"a": 1, "a": 2}]', "the member 'a' occurs twice in an object"),
        (b'[{"b": {"a": 1, "c": 2, "a": 1}}]', "the member 'a' occurs twice in an object"),
        (b"[" * 100_000, "it is nested too deeply"),
        (b'{"a":' * 100_000, "it is nested too deeply"),
        (b'["\xff"]', "'utf-8' codec can't decode"),
        ('["a"]'.encode("utf-16"), "the answer is not JSON"),
        (b"[1e999999999999999999999]", "1e999999999999999999999 is out of range"),
        (b"[01]", "the answer is not JSON"),
        (b"[1] 2", "the answer is not JSON"),
        (b"", "the answer is not JSON"),
    ],
)
def test_what_is_no_json(body: bytes, reason: str) -> None:
    with pytest.raises(WrongAnswer, match=re.escape(reason)):
        json_values.parse(body)


@pytest.mark.parametrize("value", ["x" * 10**6 + "\ud800", -(10**400), [[1] * 10**5], {"a": "b" * 10**5}])
@pytest.mark.parametrize("type_", TYPES)
def test_a_long_or_deep_value_is_shown_shortly(type_: pa.DataType, value: Any) -> None:
    with pytest.raises(WrongAnswer) as failed:
        json_values.array([value], pa.field("col", type_))
    assert len(str(failed.value)) < 300


# Keys: what is written is JSON, and is read back as the same value.

_ARRAYS = {
    pa.float64(): st.floats(),
    pa.float32(): st.floats(width=32),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.decimal128(38, 18): st.integers(-(10**38) + 1, 10**38 - 1).map(
        lambda n: Decimal((n < 0, tuple(map(int, str(abs(n)))), -18))
    ),
    pa.string(): st.text(),
    pa.binary(): st.binary(),
    pa.bool_(): st.booleans(),
    pa.date32(): st.integers(-(2**31), 2**31 - 1),
    pa.timestamp("us", tz="UTC"): st.integers(-(2**63), 2**63 - 1),
    pa.timestamp("us"): st.integers(-(2**63), 2**63 - 1),
    pa.timestamp("ns"): st.integers(-(2**63), 2**63 - 1),
}


@given(data=st.data(), type_=st.sampled_from(list(_ARRAYS)))
@settings(max_examples=examples(5))
def test_keys_are_json_and_read_back(data: st.DataObject, type_: pa.DataType) -> None:
    value = data.draw(_ARRAYS[type_])
    stored = {"date32[day]": pa.int32()}.get(str(type_), pa.int64() if pa.types.is_timestamp(type_) else type_)
    keys = pa.array([value], stored).view(type_)
    text = json.dumps(json_values.plain_values(pa.chunked_array([keys])), allow_nan=False)
    found = json_values.array(json_values.parse(text.encode()), pa.field("col", type_))
    assert same(held(found), held(keys)), text


@given(number=st.integers(-800_000_000, 800_000_000))
def test_dates_follow_the_calendar_of_400_years(number: int) -> None:
    cycles, rest = divmod(number, 146_097)
    plain = date(1970, 1, 1) + timedelta(days=rest)
    year = plain.year + 400 * cycles
    said = f"{year:04}" if 0 <= year <= 9999 else f"{year:+05}"
    assert iso_time.date_text(number) == f"{said}-{plain.month:02}-{plain.day:02}"
    assert iso_time.days(iso_time.date_text(number)) == number
