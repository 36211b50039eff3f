"""Sources with the values of the matrix in them, and what is in them by a reader of its own: no connector of ours."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from dovetail.executor.connectors.memory import MemorySource
from dovetail.executor.connectors.postgres import PostgresSource
from dovetail.executor.connectors.source import LookupSource
from dovetail.executor.connectors.spark_table import SparkTable
from dovetail.executor.connectors.sqlite import SQLiteSource
from source_values import MISFIT, VALUES, is_decimal, sign, typed
from sqlite_reading import MISFIT as NO_VALUE
from sqlite_reading import READ

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = tuple[int, str | None]


@dataclass(frozen=True)
class Column:
    """A table with a number ``n`` and a column ``x``, and what is stored, as text, by its number."""

    type: str  # in Spark
    sources: LookupSource | dict[str, LookupSource]  # one, or one for each column that it is asked by
    rows: list[Row]
    one: Any  # makes the same source with one row alone

    def source(self, key: str) -> LookupSource:
        """The source to ask by a column."""
        return self.sources[key] if isinstance(self.sources, dict) else self.sources

    @property
    def misfits(self) -> list[int]:
        return [n for n, value in self.rows if value == MISFIT]


class Store(ABC):
    """A kind of source."""

    name = ""
    can_be_whole = True

    @abstractmethod
    def types(self) -> list[str]:
        """The kinds of columns that it has; the part before a colon is Spark's type."""

    @abstractmethod
    def column(self, kind: str, numbers: list[int] | None = None) -> Column:
        """A table with a column of that kind; with all its values, or those of some rows."""


class Postgres(Store):
    name = "PostgreSQL"
    kinds: ClassVar[dict[str, Any]] = {
        "BOOLEAN": "boolean",
        "SMALLINT": "smallint",
        "INT": "integer",
        "BIGINT": "bigint",
        "FLOAT": "real",
        "DOUBLE": "double precision",
        "DECIMAL(10, 2)": "numeric(10, 2)",
        "DECIMAL(20, 0)": "numeric(20)",
        "DECIMAL(38, 18)": "numeric",
        "STRING": "text",
        "STRING:varchar": "varchar",
        "STRING:char": "char(3)",
        "STRING:uuid": "uuid",
        "STRING:jsonb": "jsonb",
        "BINARY": "bytea",
        "DATE": "date",
        "TIMESTAMP": "timestamptz",
        "TIMESTAMP_NTZ": "timestamp",
    }
    more: ClassVar[dict[str, list[str]]] = {
        "DECIMAL(10, 2)": ["NaN"],
        "DECIMAL(20, 0)": ["NaN"],
        "DECIMAL(38, 18)": ["NaN", "Infinity", "-Infinity", "1e30", "340282366920938463463.374607431768211456",
                            "0.1234567890123456789", "1.50000000000000000000"],
        "STRING:char": ["abc"],
        "STRING:uuid": ["00000000-0000-0000-0000-00000000000a", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF"],
        "STRING:jsonb": ["1", '"a"', '{"b": 1, "a": [1]}'],
        "DATE": ["infinity", "-infinity", "4714-11-24 BC"],
        "TIMESTAMP": ["infinity", "-infinity", "294276-12-31 23:59:59.999999Z", "4714-11-24 00:00:00Z BC"],
        "TIMESTAMP_NTZ": ["infinity", "-infinity", "294276-12-31 23:59:59.999999", "4714-11-24 00:00:00 BC"],
    }  # fmt: skip

    def __init__(self, uri: str, credential: Any) -> None:
        self.uri, self.credential = uri, credential

    def types(self) -> list[str]:
        return list(self.kinds)

    def column(self, kind: str, numbers: list[int] | None = None) -> Column:
        from servers import execute

        table = f"matrix_{list(self.kinds).index(kind)}"
        type_ = kind.partition(":")[0]
        if numbers is None:
            plain = VALUES[type_] if kind not in ("STRING:uuid", "STRING:jsonb") else []
            given = [*plain, *self.more.get(kind, ())]
            literals = {n: self._literal(kind, value) for n, value in enumerate(given, 1)}
            rows_ = ", ".join(["(0, NULL)", *(f"({n}, {text})" for n, text in literals.items() if text is not None)])
            execute(self.uri, f"DROP TABLE IF EXISTS {table}")
            execute(self.uri, f"CREATE TABLE {table} (n int, x {self.kinds[kind]})")
            execute(self.uri, f"INSERT INTO {table} VALUES {rows_}")
            execute(self.uri, f"CREATE INDEX ON {table} (x)")
        where = "" if numbers is None else f" WHERE n IN ({', '.join(map(str, numbers))})"
        text = "encode(x, 'hex')" if type_ == "BINARY" else "x::text"
        stored = execute(self.uri, f"SELECT n, {text} FROM {table}{where} ORDER BY n")
        rows = [(n, None if x is None else self._read(type_, x)) for n, x in stored]
        if numbers is None:
            source = PostgresSource(table, uri=self.credential)
        else:
            source = PostgresSource(query=f"SELECT * FROM {table}{where}", uri=self.credential)
        return Column(type_, source, rows, lambda n: self.column(kind, n))

    def _literal(self, kind: str, value: str) -> str | None:
        """A value as PostgreSQL reads it; None for one that it cannot store."""
        type_ = kind.partition(":")[0]
        if "\0" in value or (kind == "STRING:char" and len(value) > 3):
            return None
        if type_ == "BINARY":
            return f"'\\x{value}'::bytea"
        if type_.startswith(("DATE", "TIMESTAMP")) and (match := re.fullmatch(r"([+-]?)(\d+)(-\d\d-\d\d.*)", value)):
            year = int(match[1] + match[2])
            rest, zone = match[3], "Z" if type_ == "TIMESTAMP" and not value.endswith(("Z", "BC")) else ""
            if not -4712 <= year <= (5874897 if type_ == "DATE" else 294276):
                return None
            value = f"{year:04d}{rest}{zone}" if year > 0 else f"{1 - year:04d}{rest}{zone} BC"
        quoted = value.replace("'", "''")
        return f"'{quoted}'::{self.kinds[kind]}"

    def _read(self, type_: str, text: str) -> str:
        if type_.startswith("DECIMAL"):
            precision, scale = map(int, re.findall(r"\d+", type_))
            return text if is_decimal(text, precision, scale) else MISFIT
        if not type_.startswith(("DATE", "TIMESTAMP")):
            return text
        if "infinity" in text:
            return MISFIT
        match = re.fullmatch(r"(\d+)(-\d\d-\d\d)( [\d:.]+)?(\+00)?( BC)?", text)
        assert match, text
        year = 1 - int(match[1]) if match[5] else int(match[1])
        time = match[3] or ""
        if year > 294247 and time:
            return MISFIT
        return sign(year, match[2] + time)


class SQLite(Store):
    name = "SQLite"
    kinds: ClassVar[dict[str, Any]] = {
        "BOOLEAN": "BOOLEAN",
        "BIGINT": "INTEGER",
        "DOUBLE": "REAL",
        "DECIMAL(10, 2)": "DECIMAL(10, 2)",
        "DECIMAL(20, 0)": "DECIMAL(20, 0)",
        "DECIMAL(38, 18)": "DECIMAL(38, 18)",
        "STRING": "TEXT",
        "STRING:any": "",
        "BINARY": "BLOB",
        "DATE": "DATE",
        "TIMESTAMP_NTZ": "TIMESTAMP",
    }
    more: ClassVar[dict[str, list[Any]]] = {
        "BOOLEAN": [2, "true", 0.5],
        "BIGINT": [0.5, 1e19, "many", b"1"],
        "DOUBLE": [2**53 + 1, "many"],
        "DECIMAL(10, 2)": [0.1 + 0.2, 1, 0.005, 1e8, float("inf"), "many", 99999999.99],
        "DECIMAL(20, 0)": [10**15 + 1, 1e19, 1e20, 12345678901234567.0, 5.000000000000001, 2**53 + 1.0],
        "DECIMAL(38, 18)": [1e-18, 1e-19, 1e30, 0.1, 2.5e15 + 0.5, 1e15 + 0.125],
        "STRING": [b"a", 1, 1.5],
        "STRING:any": [b"a", 1, 1.5, 0.1 + 0.2, "1.5"],
        "BINARY": ["a", 1],
        "DATE": ["2020-1-1", "20200101", "2020-01-01 00:00:00", "2020-02-30", "now"],
        "TIMESTAMP_NTZ": ["2020-01-01", "2020-01-01 00", "2020-01-01 00:00", "2020-01-01T10:00",
                          "2020-01-01 10:00:00.500", "2020-01-01T10:00:00.500000", "2020-01-01T00:00:00Z",
                          "2020-01-01 00:00:00.1234567", "soon", 5],
    }  # fmt: skip

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def types(self) -> list[str]:
        return list(self.kinds)

    def column(self, kind: str, numbers: list[int] | None = None) -> Column:
        type_, declared = kind.partition(":")[0], self.kinds[kind]
        path = self.folder / f"{list(self.kinds).index(kind)}.db"
        if numbers is None:
            path.unlink(missing_ok=True)
            with sqlite3.connect(path) as database:
                database.execute(f"CREATE TABLE t (n INTEGER, x {declared})")
                plain = [None, *(self._stored(type_, value) for value in VALUES[type_]), *self.more[kind]]
                given = [(n, value) for n, value in enumerate(plain) if n == 0 or value is not None]
                database.executemany("INSERT INTO t VALUES (?, ?)", given)
                database.execute("CREATE INDEX i ON t (x)")
            database.close()
        else:
            whole, path = path, path.with_suffix(f".{len(numbers)}-{numbers[0]}.db")
            shutil.copy(whole, path)
            with sqlite3.connect(path) as database:
                database.execute(f"DELETE FROM t WHERE n NOT IN ({', '.join(map(str, numbers))})")
            database.close()
        with sqlite3.connect(path) as database:
            stored = list(database.execute("SELECT n, x FROM t ORDER BY n"))
        database.close()
        rows = [(n, None if x is None else self._read(READ[declared or "ANY"](x))) for n, x in stored]
        return Column(type_, SQLiteSource("t", path=path), rows, lambda n: self.column(kind, n))

    def _stored(self, type_: str, value: str) -> Any:
        if type_ == "BOOLEAN":
            return int(value == "true")
        if type_ == "BIGINT":
            return int(value)
        if type_ == "DOUBLE":
            return float(value)
        if type_ == "BINARY":
            return bytes.fromhex(value)
        return None if value[0:1] in "+-" and "-" in value[1:] else value  # no year of more than four digits

    def _read(self, value: Any) -> str:
        if value is NO_VALUE:
            return MISFIT
        if isinstance(value, bytes):
            return value.hex()
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, float):
            return repr(value).replace("inf", "Infinity").replace("nan", "NaN")
        if isinstance(value, Decimal):
            return f"{value:f}"
        return f"{value:%Y-%m-%d %H:%M:%S.%f}".rjust(26, "0") if isinstance(value, datetime) else str(value)


class Memory(Store):
    """Arrow tables, for a type of Spark in all layouts that Arrow has for it."""

    name = "memory"
    kinds: ClassVar[dict[str, Any]] = {
        "BOOLEAN": pa.bool_(),
        "TINYINT": pa.int8(),
        "SMALLINT": pa.int16(),
        "INT": pa.int32(),
        "BIGINT": pa.int64(),
        "FLOAT": pa.float32(),
        "DOUBLE": pa.float64(),
        "DECIMAL(10, 2)": pa.decimal128(10, 2),
        "DECIMAL(20, 0)": pa.decimal256(20, 0),
        "DECIMAL(38, 18)": pa.decimal256(76, 38),
        "STRING": pa.string(),
        "STRING:large": pa.large_string(),
        "STRING:dictionary": pa.dictionary(pa.int32(), pa.string()),
        "BINARY": pa.binary(),
        "BINARY:large": pa.large_binary(),
        "DATE": pa.date32(),
        "DATE:date64": pa.date64(),
        "TIMESTAMP": pa.timestamp("us", "UTC"),
        "TIMESTAMP:ns": pa.timestamp("ns", "Europe/Rome"),
        "TIMESTAMP_NTZ": pa.timestamp("us"),
        "TIMESTAMP_NTZ:ns": pa.timestamp("ns"),
        "TIMESTAMP_NTZ:s": pa.timestamp("s"),
        "TIME(6)": pa.time64("us"),
        "TIME(6):ns": pa.time64("ns"),
        "INTERVAL DAY TO SECOND": pa.duration("us"),
        "INTERVAL DAY TO SECOND:ns": pa.duration("ns"),
        "ARRAY<INT>": pa.list_(pa.int32()),
        "STRUCT<a INT, b STRING>": pa.struct([("a", pa.int32()), ("b", pa.large_string())]),
    }

    def types(self) -> list[str]:
        return list(self.kinds)

    def column(self, kind: str, numbers: list[int] | None = None) -> Column:
        type_, arrow = kind.partition(":")[0], self.kinds[kind]
        plain = [(_value(arrow, text), text) for text in VALUES[type_]]
        given = [(None, None), *((value, text) for value, text in plain if value is not None), *self._misfits(kind)]
        some = [(n, *pair) for n, pair in enumerate(given) if numbers is None or n in numbers]
        x = _array([value for _, value, _ in some], arrow)
        table = pa.table({"n": pa.array([n for n, _, _ in some], pa.int32()), "x": x})
        rows = [(n, text) for n, _, text in some]
        return Column(type_, MemorySource(table), rows, lambda n: self.column(kind, n))

    def _misfits(self, kind: str) -> list[tuple[Any, str]]:
        if kind == "TIME(6):ns":
            return []  # Spark's TIME has nanoseconds inside
        if kind.endswith(":ns"):
            return [(1_577_836_800_000_000_001, MISFIT), (-1, MISFIT)]
        if kind.endswith(":s"):
            return [(2**62, MISFIT), (-(2**62), MISFIT)]
        if kind == "DECIMAL(38, 18)":
            return [(Decimal(text), MISFIT) for text in ("1e30", "1e-19", "340282366920938463463.374607431768211456")]
        return []


class Spark(Store):
    name = "Spark table"

    def __init__(self, session: SparkSession, folder: Path) -> None:
        self.session, self.folder = session, folder

    def types(self) -> list[str]:
        return list(VALUES)

    def column(self, kind: str, numbers: list[int] | None = None) -> Column:
        rows = [(n, text) for n, text in enumerate([None, *VALUES[kind]]) if numbers is None or n in numbers]
        path = str(self.folder / f"{self.types().index(kind)}.parquet")
        frame = self.session.createDataFrame(rows, "n INT, x STRING").selectExpr("n", f"{typed(kind, 'x')} AS x")
        frame.coalesce(1).write.mode("overwrite").parquet(path)
        return Column(kind, SparkTable(path=path), rows, lambda n: self.column(kind, n))


def days_of(text: str) -> int:
    """Days since 1970 in the proleptic Gregorian calendar, which repeats itself every 400 years."""
    match = re.fullmatch(r"([+-]?\d+)-(\d\d)-(\d\d)", text)
    assert match, text
    cycles, year = divmod(int(match[1]), 400)
    return (date(year + 400, int(match[2]), int(match[3])) - date(1970, 1, 1)).days + (cycles - 1) * 146_097


def micros_of(text: str) -> int:
    """Microseconds since midnight."""
    found = datetime.strptime(text, "%H:%M:%S.%f" if "." in text else "%H:%M:%S").replace(tzinfo=UTC)
    return (found - datetime(1900, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def as_arrow(arrow: pa.DataType, text: str) -> pa.Array:
    """An Arrow array of one value."""
    return _array([_value(arrow, text)], arrow)


def _value(arrow: pa.DataType, text: str) -> Any:
    """A value as a number where it is a time; None for one that the layout does not have."""
    if pa.types.is_boolean(arrow):
        return text == "true"
    if pa.types.is_integer(arrow):
        return int(text)
    if pa.types.is_floating(arrow):
        return float(text)
    if pa.types.is_decimal(arrow):
        return Decimal(text)
    if arrow in (pa.binary(), pa.large_binary()):
        return bytes.fromhex(text)
    if pa.types.is_nested(arrow):
        return json.loads(text)
    if not pa.types.is_temporal(arrow):
        return text
    if pa.types.is_duration(arrow):
        match = re.search(r"'(-?)(\d+) ([\d:.]+)'", text)
        assert match, text
        micros = int(match[2]) * 86_400_000_000 + micros_of(match[3])
        return _ticks(-micros if match[1] else micros, arrow.unit)
    if pa.types.is_time(arrow):
        return _ticks(micros_of(text), arrow.unit)
    days = days_of(text.partition(" ")[0])
    if pa.types.is_date(arrow):
        return days if arrow == pa.date32() else days * 86_400_000
    micros = days * 86_400_000_000 + micros_of(text.partition(" ")[2])
    return _ticks(micros, arrow.unit)


def _ticks(micros: int, unit: str) -> int | None:
    """A time in another unit; None where it is not whole there, or more than 64 bits."""
    times, parts = {"us": (1, 1), "ns": (1000, 1), "s": (1, 1_000_000)}[unit]
    value, rest = divmod(micros * times, parts)
    return value if not rest and -(2**63) <= value < 2**63 else None


def _array(values: list[Any], arrow: pa.DataType) -> pa.Array:
    if pa.types.is_temporal(arrow):
        return pa.array(values, pa.int32() if arrow == pa.date32() else pa.int64()).cast(arrow)
    if pa.types.is_dictionary(arrow):
        return pa.array(values, pa.string()).dictionary_encode()
    return pa.array(values, arrow)
