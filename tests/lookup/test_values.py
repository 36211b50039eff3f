"""Values that Spark's types cannot hold, and those that they just hold: against the database's own text of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.executor.connectors.credentials import env
from dovetail.executor.connectors.fetch import Fetcher
from dovetail.executor.connectors.memory import MemorySource
from dovetail.executor.connectors.postgres import PostgresSource
from dovetail.executor.connectors.source import LookupSource
from dovetail.executor.connectors.sqlite import SQLiteSource
from dovetail.executor.connectors.values import ConvertedColumn, convert, parse_decimals
from dovetail.planner.errors import LookupFailed, SourceError
from dovetail.planner.logical.lookup_spec import LookupSpec
from effort import examples
from lookup_ways import keyed, whole
from servers import execute

URI = env("DOVETAIL_TEST_POSTGRES")


def table_of(uri: str, columns: str, rows: list[str]) -> PostgresSource:
    execute(uri, "DROP TABLE IF EXISTS of_values")
    execute(uri, f"CREATE TABLE of_values (id int, {columns})")
    for number, row in enumerate(rows):
        execute(uri, f"INSERT INTO of_values VALUES ({number}, {row})")
    return PostgresSource("of_values", uri=URI)


# PostgreSQL's dates.

DAYS = ["4714-11-24 BC", "0044-03-15 BC", "0001-01-01", "1582-10-10", "1970-01-01", "9999-12-31", "10000-01-01",
        "20000-02-29", "294247-01-09"]  # fmt: skip
TEMPORAL = {"date": pa.int32(), "timestamp": pa.int64(), "timestamptz": pa.int64()}
DAYS_SINCE = "({x}::date - DATE '1970-01-01')"
MICROS = f"({DAYS_SINCE} * 86400000000 + extract(hour FROM {{x}}) * 3600000000 + extract(minute FROM {{x}}) * 60000000"
MICROS = f"{MICROS} + extract(microseconds FROM {{x}}))::bigint"
SINCE_1970 = {
    "date": DAYS_SINCE.format(x="x"),
    "timestamp": MICROS.format(x="x"),
    "timestamptz": MICROS.format(x="(x AT TIME ZONE 'UTC')"),
}


@pytest.mark.parametrize("type_", TEMPORAL)
def test_null_and_far_dates_arrive_as_they_are(postgres: str, type_: str) -> None:
    more = ["5874897-12-31"] if type_ == "date" else ["294247-01-10 04:00:54.775807Z", "1969-12-31 23:59:59.999999Z"]
    rows = ["NULL", *(f"'{day}'::{type_}" for day in [*DAYS, *more])]
    source = table_of(postgres, f"x {type_}", rows)
    expected = execute(postgres, f"SELECT id, {SINCE_1970[type_]} FROM of_values AS t ORDER BY id")
    assert expected[0] == (0, None)
    for found in (whole(source, "id"), keyed(source, "id", pa.array(range(len(rows)), pa.int32()))):
        values = found["x"].cast(TEMPORAL[type_]).to_pylist()
        assert sorted(zip(found["id"].to_pylist(), values, strict=True), key=lambda row: row[0]) == expected
    field = source.schema().field("x").type
    beyond = [-(2**31), 2**31 - 1] if type_ == "date" else [-(2**63), 2**63 - 1]
    keys = pa.array([*(value for _, value in expected if value is not None), *beyond], TEMPORAL[type_]).cast(field)
    assert sorted(keyed(source, "x", keys.unique())["id"].to_pylist()) == [row for row, v in expected if v is not None]


@pytest.mark.parametrize(
    ("type_", "value", "shown"),
    [
        ("date", "infinity", "infinity, which Spark's DATE cannot hold; read it as text, types={'x': 'STRING'}"),
        ("date", "-infinity", "-infinity, which"),
        ("timestamp", "infinity", "infinity, which Spark's TIMESTAMP_NTZ"),
        ("timestamptz", "-infinity", "-infinity, which Spark's TIMESTAMP cannot"),
        ("timestamptz", "294276-12-31", "a time 9,224,31"),
        ("numeric", "NaN", "'NaN', which Spark's DECIMAL(38, 18)"),
        ("numeric", "-Infinity", "'-Infinity'"),
        ("numeric(5,2)", "NaN", "'NaN', which Spark's DECIMAL(5, 2)"),
        ("numeric", "1e30", "'1000000000000000000000000000000'"),
        ("numeric", "340282366920938463463.374607431768211456", "'340282366920938463463.374607431768211456'"),
        ("numeric", "0.1234567890123456789", "'0.1234567890123456789'"),
    ],
)
def test_what_spark_cannot_hold_is_an_error_with_a_remedy(postgres: str, type_: str, value: str, shown: str) -> None:
    source = table_of(postgres, f"x {type_}", [f"'{value}'", "NULL", "'2020-01-01'" if "num" not in type_ else "1.5"])
    ways: list[Callable[[], pa.Table]] = [
        lambda: whole(source, "id"),
        lambda: keyed(source, "id", pa.array([0, 1, 2], pa.int32())),
    ]
    for way in ways:
        with pytest.raises(LookupFailed, match="1 attempt; ") as failed:
            way()
        assert f"the column x has {shown}" in str(failed.value)
    # As a key it is equal to no value of Spark's: its row matches nothing, and the others are found.
    assert sorted(whole(source, "x")["id"].to_pylist()) == [1, 2]
    assert keyed(source, "id", pa.array([1, 2], pa.int32())).num_rows == 2
    text = PostgresSource("of_values", uri=URI, types={"x": "STRING"})
    found = keyed(text, "id", pa.array([0, 1, 2], pa.int32()))["x"].to_pylist()
    assert found == [row[0] for row in execute(postgres, "SELECT x::text FROM of_values ORDER BY id")]
    assert keyed(text, "x", pa.array(found[:1])).to_pylist() == [{"id": 0, "x": found[0]}]


def test_types_that_a_column_cannot_have(postgres: str) -> None:
    table_of(postgres, "x numeric, d date", [])
    wide = PostgresSource("of_values", uri=URI, types={"x": "DECIMAL(38, 30)"})
    assert wide.schema().field("x").type == pa.decimal128(38, 30)
    with pytest.raises(SourceError, match=r"types: x is numeric in PostgreSQL and can be DECIMAL\(38, 18\) or STRING"):
        PostgresSource("of_values", uri=URI, types={"x": "BIGINT"}).schema()
    with pytest.raises(SourceError, match="has no column y; columns: id, x, d"):
        PostgresSource("of_values", uri=URI, types={"y": "STRING"}).schema()
    with pytest.raises(SourceError, match="'whole number' is not a type of a lookup column"):
        PostgresSource("of_values", uri=URI, types={"x": "whole number"})


# Decimals: Arrow's own casts wrap around.

numbers = st.one_of(
    st.tuples(st.integers(-(10**45), 10**45), st.integers(0, 30)),
    st.tuples(st.integers(-(10**20), 10**20), st.integers(0, 25)),
    st.tuples(st.builds(lambda n, k: 10**n + k, st.integers(0, 45), st.integers(-1, 1)), st.integers(0, 20)),
)
types = st.integers(1, 38).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p)))


def text_of(unscaled: int, scale: int) -> str:
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    sign = "-" if unscaled < 0 else ""
    return sign + (f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits)


@given(st.lists(numbers, min_size=1, max_size=5), types)
@settings(max_examples=examples(5))
def test_a_number_is_its_decimal_or_does_not_fit(given: list[tuple[int, int]], type_: tuple[int, int]) -> None:
    precision, scale = type_
    column = pa.chunked_array([[text_of(*number) for number in given]])
    for read in (parse_decimals(column, pa.decimal128(*type_)), _wide(column, type_)):
        misfits = [False] * len(given) if read.misfits is None else read.misfits.to_pylist()
        for (unscaled, own), value, misfit in zip(given, read.values.to_pylist(), misfits, strict=True):
            exact, rest = divmod(unscaled * 10**scale, 10**own)
            fits = not rest and abs(exact) < 10**precision
            assert misfit == (not fits)
            assert (value is None) == misfit
            if fits:
                assert Fraction(value) * 10**scale == exact


def _wide(texts: pa.ChunkedArray, type_: tuple[int, int]) -> ConvertedColumn:
    """The same out of Arrow's decimal256, which holds them all but for their last digits."""
    array = pa.array([Decimal(text) for text in texts.to_pylist()], pa.decimal256(76, 30))
    return convert(pa.chunked_array([array]), pa.decimal128(*type_))


@pytest.mark.parametrize("kind", ["postgres", "sqlite", "memory"])
def test_a_row_with_other_constants_may_hold_anything(postgres: str, tmp_path: Path, kind: str) -> None:
    if kind == "postgres":
        execute(postgres, "DROP TABLE IF EXISTS of_kinds")
        execute(postgres, "CREATE TABLE of_kinds AS SELECT 1 AS id, 'good' AS kind, DATE '2020-01-01' AS x")
        execute(postgres, "INSERT INTO of_kinds VALUES (2, 'bad', 'infinity'), (3, NULL, 'infinity')")
        source: LookupSource = PostgresSource("of_kinds", uri=URI)
    elif kind == "sqlite":
        with sqlite3.connect(tmp_path / "kinds.db") as database:
            database.execute("CREATE TABLE t (id INTEGER, kind TEXT, x DATE)")
            rows = [(1, "good", "2020-01-01"), (2, "bad", "soon"), (3, None, "soon"), (4, b"good", "soon")]
            database.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        database.close()
        source = SQLiteSource("t", path=tmp_path / "kinds.db")
    else:
        times = pa.array([0, 1, 1]).cast(pa.timestamp("ns"))
        source = MemorySource(pa.table({"id": [1, 2, 3], "kind": ["good", "bad", None], "x": times}))
    schema = source.schema()
    spec = LookupSpec("T", ("id",), ("id", "x"), constants=(("kind", "good"),), delay=0.0)
    with closing(Fetcher(source, spec, schema)) as fetcher:
        ids = pa.table({"id": pa.array([1, 2, 3], schema.field("id").type)})
        assert [row["id"] for answer in fetcher.answers([ids]) for row in answer.rows.to_pylist()] == [1]
        assert [
            row["id"] for part in range(2) for table in fetcher.read_split(part, 2) for row in table.to_pylist()
        ] == [1]
