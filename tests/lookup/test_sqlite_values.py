"""SQLite lets any column hold anything: by key and whole, the same rows come back, read by SQLite's own module here."""

from __future__ import annotations

import sqlite3
import tempfile
import threading
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.executor.connectors.fetch import Fetcher
from dovetail.executor.connectors.sqlite import SQLiteSource
from dovetail.planner.errors import LookupFailed, SourceError
from dovetail.planner.logical.lookup_spec import LookupSpec
from lookup_ways import keyed, whole
from shares import Share, at_least
from sqlite_reading import MISFIT, READ
from waiting import until

TIMES = st.builds(
    lambda day, between, time: day + (between + time if time else ""),
    st.sampled_from(["2020-01-01", "2020-01-02", "0001-01-01", "9999-12-31", "2020-02-30", "2020-1-1", "20200101"]),
    st.sampled_from([" ", "T", "t", "  "]),
    st.sampled_from(["", "00", "00:00", "00:00:00", "00:00:00.0", "00:00:00.000000", "10:00:00.5", "10:00:00.500",
                     "10:00:00.500000", "10:00", "10:00:00.0000001", "00:00:00Z", "24:00", "10:00:00.123456"]),
)  # fmt: skip
NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([2**53, 2**53 + 1, 2**63 - 1, -(2**63), 10**15, 10**15 - 1, 10**18, 10**18 + 1]),
    st.sampled_from([0.5, -0.0, 0.1, 0.1 + 0.2, 0.3, 1e-5, 1e300, float("inf"), -float("inf"), 2.5e15 + 0.5,
                     1e15 + 0.125, 1.0, 12345678901234567.89, 1e19, 5.000000000000001, 99999999.99, 1e8, 0.005, 1e22]),
)  # fmt: skip
OTHERS = st.sampled_from(["", "a", "A", "a\0", "a\0b", "é", "1", "01", "1.0", "many", b"", b"\0", b"a", b"\xff", None])
VALUES = st.one_of(TIMES, NUMBERS, OTHERS)


COLUMNS = sorted({*READ} - {"ANY"})

share = at_least(0.4)  # of all examples have rows and no error


LIKELY = {"TEXT": OTHERS, "BLOB": st.binary(max_size=2), "BOOLEAN": st.booleans(), "DATE": TIMES, "TIMESTAMP": TIMES}


def columns(type_: str) -> st.SearchStrategy[tuple[str, list[Any]]]:
    likely = LIKELY.get(type_.partition(" COLL")[0], NUMBERS)
    return st.tuples(st.just(type_), st.lists(st.one_of(likely, likely, VALUES), min_size=1, max_size=12))


@given(st.sampled_from(COLUMNS).flatmap(columns), st.sampled_from("yyyyyn"), st.data())
def test_what_is_stored_is_found_by_key_and_whole_or_an_error(
    share: Share, column: tuple[str, list[Any]], only: str, data: st.DataObject
) -> None:
    type_, given = column
    read = READ[type_]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "values.db")
        stored = write(path, type_, given, (lambda value: read(value) is not MISFIT) if only == "y" else anything)
        expected = {n: None if value is None else read(value) for n, value in stored.items()}
        share.count(MISFIT not in expected.values() and bool(expected))
        source = SQLiteSource("t", path=path)
        ways: list[Callable[[], pa.Table]] = [
            lambda: whole(source, "id"),
            lambda: keyed(source, "id", pa.array(list(stored), pa.int64())),
        ]
        for way in ways:
            if MISFIT in expected.values():
                with pytest.raises(LookupFailed, match=r"the column x has .*, which Spark's"):
                    way()
            else:
                assert dict(zip(*way().to_pydict().values(), strict=True)) == expected
        # As a key: misfits are equal to none.
        good = SQLiteSource(query="SELECT x, id FROM t", path=path, types={"x": type_.partition(" COLL")[0]})
        some = [value for value in expected.values() if value is not MISFIT and value is not None]
        more = data.draw(st.lists(VALUES, max_size=3))
        keys = list(dict.fromkeys([*some, *(v for v in map(read, more) if v is not MISFIT and v is not None)]))
        array = pa.array(keys, good.schema().field("x").type)
        rows = [(n, value) for n, value in expected.items() if value in keys]
        for table in (source, good):
            assert sorted(zip(*pairs(keyed(table, "x", array)), strict=True)) == sorted(rows)
            everything = sorted(zip(*pairs(whole(table, "x")), strict=True), key=lambda row: row[0])
            assert everything == [(n, value) for n, value in expected.items() if value is not MISFIT]


def pairs(table: pa.Table) -> tuple[list[Any], list[Any]]:
    return table["id"].to_pylist(), table["x"].to_pylist()


def anything(value: Any) -> bool:
    del value
    return True


def write(path: Path, type_: str, values: list[Any], wanted: Callable[[Any], bool] = anything) -> dict[int, Any]:
    """Write a table of values, with a unique index where they allow one; return what is stored of each."""
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA synchronous = OFF")
        database.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, x {type_})")
        database.executemany("INSERT INTO t VALUES (?, ?)", enumerate(values))
        try:
            database.execute("CREATE UNIQUE INDEX i ON t (x)")
        except sqlite3.IntegrityError:
            database.execute("CREATE INDEX i ON t (x)")
        stored = dict(database.execute("SELECT id, x FROM t"))
        bad = [(number,) for number, value in stored.items() if value is not None and not wanted(value)]
        database.executemany("DELETE FROM t WHERE id = ?", bad)
        stored = dict(database.execute("SELECT id, x FROM t"))
    database.close()
    return stored


def test_text_that_is_no_utf8_is_an_error_and_no_key(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "t.db") as database:
        database.execute("CREATE TABLE t (id INTEGER, x TEXT)")
        database.executemany("INSERT INTO t VALUES (?, ?)", [(n, f"n{n}") for n in range(2500)])
        database.execute("INSERT INTO t VALUES (2500, CAST(x'61ff' AS TEXT))")
    database.close()
    source = SQLiteSource("t", path=tmp_path / "t.db")
    with pytest.raises(LookupFailed, match=r"the column x has 'a\\udcff', which Spark's STRING cannot hold"):
        whole(source, "id")
    assert sorted(whole(source, "x")["id"].to_pylist()) == list(range(2500))
    assert keyed(source, "x", pa.array(["n7"])).num_rows == 1


def test_bytes_in_a_column_that_is_read_as_text_anyway(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "t.db") as database:
        database.execute("CREATE TABLE t (id INTEGER, v ANY)")
        database.execute("INSERT INTO t VALUES (1, x'61ff')")
    database.close()
    with pytest.raises(LookupFailed, match="Spark's STRING cannot hold; write a query that converts it or leaves"):
        keyed(SQLiteSource("t", path=tmp_path / "t.db"), "id", pa.array([1]))


def test_an_index_is_used_for_each_type(tmp_path: Path) -> None:
    values = {"INTEGER": 1, "DOUBLE": 1.0, "TEXT": "1", "BLOB": b"1", "DATE": "2020-01-01", "TIMESTAMP": "2020-01-01",
              "DECIMAL(10, 2)": Decimal(1)}  # fmt: skip
    for number, type_ in enumerate(values):
        path = tmp_path / f"{number}.db"
        write(path, type_, [])
        source = SQLiteSource("t", path=path)
        source.schema()
        source.open()
        statements: list[str] = []
        source._connection.set_trace_callback(statements.append)
        array = pa.array([values[type_]]) if type_ not in ("DATE", "TIMESTAMP") else pa.array([datetime(2020, 1, 1)])
        source.fetch(pa.table({"x": array.cast(source.schema().field("x").type)}))
        select = next(one for one in statements if one.startswith("SELECT k.number"))
        plan = [row[3] for row in source._connection.execute(f"EXPLAIN QUERY PLAN {select}")]
        source.close()
        assert any("SEARCH t USING " in step and "INDEX i " in step for step in plan), (type_, plan)


def test_a_statement_that_takes_too_long_is_interrupted(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "t.db").execute("CREATE TABLE t (id INTEGER)").connection.close()
    forever = "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT id FROM n WHERE id < 0"
    source = SQLiteSource(query=forever, path=tmp_path / "t.db", types={"id": "BIGINT"})
    fetcher = Fetcher(source, LookupSpec("T", ("id",), ("id",), timeout=0.3, attempts=2, delay=0.0), source.schema())
    with pytest.raises(LookupFailed, match=r"2 attempts; no answer within 0\.3 seconds"):
        list(fetcher.answers([pa.table({"id": pa.array([1], pa.int64())})]))
    fetcher.close()
    assert until(lambda: not any(thread.name.startswith("lookup SQLite") for thread in threading.enumerate()))


def test_an_answer_has_a_size_limit(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "t.db") as database:
        database.execute("CREATE TABLE t (id INTEGER, x BLOB)")
        database.executemany("INSERT INTO t VALUES (1, ?)", [(bytes(10_000),) for _ in range(2_000)])
    database.close()
    source = SQLiteSource("t", path=tmp_path / "t.db", max_bytes=1_000_000)
    with pytest.raises(LookupFailed, match="the answer to 1 keys is larger than max_bytes = 1,000,000; request"):
        keyed(source, "id", pa.array([1], pa.int64()))


def test_generated_columns_are_columns(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "t.db") as database:
        database.execute(
            "CREATE TABLE t (id INTEGER, twice INTEGER AS (2 * id) STORED, thrice INTEGER AS (3 * id) VIRTUAL)"
        )
        database.execute("INSERT INTO t (id) VALUES (1)")
    database.close()
    source = SQLiteSource("t", path=tmp_path / "t.db")
    assert keyed(source, "thrice", pa.array([3], pa.int64())).to_pylist() == [{"id": 1, "twice": 2, "thrice": 3}]


@pytest.mark.parametrize(
    ("columns", "unique"),
    [
        ("x TIMESTAMP UNIQUE", ()),
        ("x UNIQUE", ()),
        ("x DECIMAL(10, 2) UNIQUE", ()),
        ("x UUID UNIQUE", ()),
        ("x TEXT UNIQUE", (("x",),)),
        ("x DATE UNIQUE, y INTEGER UNIQUE", (("y",), ("x",))),
        ("x BLOB, y DOUBLE, PRIMARY KEY (x, y)", (("x", "y"),)),
    ],
)
def test_an_index_is_unique_only_where_different_values_stay_different(
    tmp_path: Path, columns: str, unique: tuple[Any, ...]
) -> None:
    sqlite3.connect(tmp_path / "t.db").execute(f"CREATE TABLE t ({columns})").connection.close()
    assert SQLiteSource("t", path=tmp_path / "t.db").unique_keys == unique


@pytest.mark.parametrize(
    "slip",
    ["STRNG", "", "DECIML(10,2)", "NUMBER(10,2)", "ARRAY<INT>", "INTERVAL", "FLOATY", "DECIMAL(50,2)", "TIMESTAMP_LTZ"],
)
def test_a_slip_in_types_is_no_guess(slip: str) -> None:
    with pytest.raises(SourceError, match="types: "):
        SQLiteSource("t", path="t.db", types={"n": slip})
