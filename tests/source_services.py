"""An HTTP service with the values of the matrix, as JSON has them."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, ClassVar

import pyarrow as pa

from dovetail.executor.connectors.http import HttpSource
from dovetail.executor.connectors.source import LookupSource
from servers import HttpService
from source_stores import Column, Store, days_of, micros_of
from source_values import MISFIT, VALUES


class Http(Store):
    name = "HTTP"
    can_be_whole = False
    kinds: ClassVar[dict[str, pa.DataType]] = {
        "BOOLEAN": pa.bool_(),
        "TINYINT": pa.int8(),
        "SMALLINT": pa.int16(),
        "INT": pa.int32(),
        "BIGINT": pa.int64(),
        "FLOAT": pa.float32(),
        "DOUBLE": pa.float64(),
        "DECIMAL(10, 2)": pa.decimal128(10, 2),
        "DECIMAL(20, 0)": pa.decimal128(20, 0),
        "DECIMAL(38, 18)": pa.decimal128(38, 18),
        "STRING": pa.string(),
        "BINARY": pa.binary(),
        "DATE": pa.date32(),
        "TIMESTAMP": pa.timestamp("us", "UTC"),
        "TIMESTAMP_NTZ": pa.timestamp("us"),
        "TIMESTAMP_NTZ:ns": pa.timestamp("ns"),
    }
    misfits: ClassVar[dict[str, list[Any]]] = {
        "BOOLEAN": [1, "true"],
        "TINYINT": [128, 0.5, "1", True],
        "SMALLINT": [-32769],
        "INT": [2**31],
        "BIGINT": [2**63, 0.5],
        "FLOAT": ["1.5", Decimal("1e39")],
        "DOUBLE": ["inf", Decimal("1e309")],
        "DECIMAL(10, 2)": ["0.001", "100000000.00", "NaN"],
        "DECIMAL(20, 0)": ["0.5", "1e20"],
        "DECIMAL(38, 18)": ["340282366920938463463.374607431768211456", "1e-19", "Infinity"],
        "STRING": [5, "\ud800"],
        "BINARY": ["_w==", "YQ", "Y Q=="],
        "DATE": ["2020-1-1", "2020-02-30", "2020-01-01T00:00:00", "+5881580-07-12"],
        "TIMESTAMP": ["2020-01-01T00:00:00", "2020-01-01T00:00:00.0000001Z", "+294247-01-10T04:00:54.775808Z"],
        "TIMESTAMP_NTZ": ["2020-01-01T00:00:00Z", "2020-01-01T00:00:00+02:00", "2020-01-01"],
        "TIMESTAMP_NTZ:ns": ["2020-01-01T00:00:00.000000001", "9999-12-31T00:00:00"],
    }

    def __init__(self) -> None:
        self.services: list[HttpService] = []

    def types(self) -> list[str]:
        return list(self.kinds)

    def close(self) -> None:
        for service in self.services:
            service.stop()

    def column(self, kind: str, numbers: list[int] | None = None) -> Column:
        type_ = kind.partition(":")[0]
        plain = [(as_json(type_, text), text) for text in VALUES[type_] if _held(kind, text)]
        given = [(None, None), *plain, *((value, MISFIT) for value in self.misfits[kind])]
        some = [(n, *pair) for n, pair in enumerate(given) if numbers is None or n in numbers]
        stored = [({"n": n, "x": _sent(value)}, None if text == MISFIT else value) for n, value, text in some]
        by_value = self._service([(row, x) for row, x in stored], lambda key, value: _same(type_, key, value))
        by_number = self._service([(row, row["n"]) for row, _ in stored], lambda key, value: bool(key == value))
        schema = pa.schema([("n", pa.int32()), ("x", self.kinds[kind])])
        sources: dict[str, LookupSource] = {
            key: HttpSource(url, schema=schema, keys=(key,)) for key, url in (("x", by_value), ("n", by_number))
        }
        return Column(type_, sources, [(n, text) for n, _, text in some], lambda n: self.column(kind, n))

    def _service(self, stored: list[tuple[dict[str, Any], Any]], same: Callable[[Any, Any], bool]) -> str:
        service = HttpService([])
        self.services.append(service)
        service.find = lambda keys: [row for row, x in stored if any(same(key, x) for key in keys)]  # type: ignore[method-assign]
        service.wrap = lambda rows: re.sub(r'"@([^"]*)@"', r"\1", json.dumps(rows)).encode()
        return service.url


def _held(kind: str, text: str) -> bool:
    """Whether a time is one that 64 bits of nanoseconds hold."""
    return not kind.endswith(":ns") or re.match(r"(19|20)\d\d-", text) is not None


def as_json(type_: str, text: str) -> Any:
    """A value as a service writes it."""
    if type_ == "BOOLEAN":
        return text == "true"
    if type_.endswith("INT"):
        return int(text)
    if type_ in ("FLOAT", "DOUBLE"):
        return float(text) if math.isfinite(float(text)) else text
    if type_ == "BINARY":
        return base64.b64encode(bytes.fromhex(text)).decode()
    if type_.startswith("TIMESTAMP"):
        return text.replace(" ", "T") + ("Z" if type_ == "TIMESTAMP" else "")
    return text


def _sent(value: Any) -> Any:
    """A value as it is written: a Decimal stands for a number that no float holds."""
    return f"@{value}@" if isinstance(value, Decimal) else value


def _same(type_: str, key: Any, x: Any) -> bool:
    if x is None or key is None:
        return False
    if type_ in ("FLOAT", "DOUBLE"):
        kind = pa.float32() if type_ == "FLOAT" else pa.float64()
        one, other = (pa.scalar(float(number), kind).as_py() for number in (key, x))
        return bool(one == other or (math.isnan(one) and math.isnan(other)))
    if type_.startswith("DECIMAL"):
        return Decimal(key) == Decimal(x)
    if type_ == "BINARY":
        return base64.b64decode(key) == base64.b64decode(x)
    if type_.startswith("TIMESTAMP"):
        return _micros(key) == _micros(x)
    return bool(key == x)


def _micros(text: str) -> int:
    day, _, time = re.sub(r"Z$|\+00:00$", "", text).partition("T")
    return days_of(day) * 86_400_000_000 + micros_of(time[:15])
