"""PostgreSQL and SQLite, the real ones: every type of key, against a plain comparison of all rows in Python."""

from __future__ import annotations

import pickle
import random
import sqlite3
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dovetail.executor.connectors.credentials import env
from dovetail.executor.connectors.database import DatabaseSource
from dovetail.executor.connectors.fetch import Fetcher
from dovetail.executor.connectors.postgres import PostgresSource
from dovetail.executor.connectors.sqlite import SQLiteSource
from dovetail.planner.errors import LookupFailed, SourceError
from dovetail.planner.logical.lookup_spec import LookupSpec
from servers import execute

URI = env("DOVETAIL_TEST_POSTGRES")
ROME = timezone(timedelta(hours=2))


_TEXTS = (  # some are equal in one collation or the other, none to the byte
    "a",
    "A",
    "b",
    "Ab",
    "ab ",
    " ab",
    "é",
    "e\u0301",
    "",
    "O'Hara",
    '"',
    "\\",
    "1",
    "01",
    "漢字",
    "a,b",
    "{}",
)


def texts(choose: random.Random) -> str:
    return choose.choice(_TEXTS)


def decimals(choose: random.Random) -> Decimal:
    return Decimal(choose.choice([0, 10, 105, 1050, -5, 99999])).scaleb(-2)


def moments(choose: random.Random) -> datetime:
    micros = choose.choice([0, 0, 500_000, 123_000, 1, 999_999])
    return datetime(2024, choose.choice([1, 3, 10]), 31, choose.choice([0, 1, 23]), 59, 0, micros)


VALUES: dict[str, Callable[[random.Random], Any]] = {
    "int": lambda choose: choose.choice([0, 1, 2, 3, -1, 2**31 - 1, -(2**31)]),
    "bigint": lambda choose: choose.choice([0, 1, 2, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)]),
    "text": texts,
    "uuid": lambda choose: str(uuid.UUID(int=choose.choice([0, 1, 2, 2**127]))),
    "date": lambda choose: date(2024, 2, 27) + timedelta(days=choose.randrange(5)),
    "timestamp": moments,
    "numeric(10,2)": decimals,
    "double precision": lambda choose: choose.choice([0.0, -0.0, 0.1, 0.1 + 0.2, 1e300, float("inf"), -1.5]),
    "boolean": lambda choose: choose.random() < 0.5,
}
POSTGRES = VALUES | {
    "smallint": lambda choose: choose.randrange(-2, 3),
    "real": lambda choose: choose.choice([0.5, 1.25, -2.0]),
    "timestamptz": lambda choose: moments(choose).replace(tzinfo=choose.choice([UTC, ROME])),
    "varchar(20)": texts,
    "bytea": lambda choose: choose.choice([b"", b"\0", b"ab"]),
    "numeric": decimals,
}
SQLITE = VALUES | {"blob": POSTGRES["bytea"], "varchar(20) COLLATE NOCASE": texts, "char": texts, "": texts}
COMPOSITE = [("int", "text"), ("text", "date"), ("numeric(10,2)", "timestamp", "uuid")]


def literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return "x'" + value.hex() + "'"
    if isinstance(value, float) and value == float("inf"):
        return "9e999"
    return str(value) if isinstance(value, int | float | Decimal) else "'" + str(value).replace("'", "''") + "'"


def postgres_literal(value: Any) -> str:
    if isinstance(value, bytes):
        return f"'\\x{value.hex()}'"
    if isinstance(value, float):
        return f"'{value!r}'"
    return literal(value)


def tables(types: tuple[str, ...], values: dict[str, Any], choose: random.Random) -> list[tuple[Any, ...]]:
    rows = []
    for number in range(60):
        key = [None if choose.random() < 0.1 else values[type_](choose) for type_ in types]
        rows.append((*key, number))
    return rows


def agree(source: DatabaseSource, types: tuple[str, ...], values: dict[str, Any], choose: random.Random) -> None:
    """Fetch random keys, some of which no row has, and compare with all rows of the table."""
    schema = source.schema()
    names = tuple(schema.names[:-1])
    spec = LookupSpec("T", names, tuple(schema.names), batch=7, delay=0.0)
    whole = Fetcher(source, spec, schema)
    rows = [
        tuple(row.values()) for part in range(3) for table in whole.read_split(part, 3) for row in table.to_pylist()
    ]
    whole.close()
    assert sorted(row[-1] for row in rows) == list(range(60))
    asked = {tuple(values[type_](choose) for type_ in types) for _ in range(40)}
    columns = [pa.array([key[n] for key in asked], schema.field(name).type) for n, name in enumerate(names)]
    fetcher = Fetcher(source, spec, schema)
    answers = list(fetcher.answers([pa.table(columns, names=names)]))
    fetcher.close()
    found = [tuple(row.values()) for answer in answers for row in answer.rows.to_pylist()]
    wanted = {tuple(key.values()) for key in pa.table(columns, names=names).to_pylist()}
    expected = [row for row in rows if row[:-1] in wanted]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    assert [sum(answer.counts) for answer in answers] == [answer.rows.num_rows for answer in answers]


@pytest.mark.parametrize("types", [*((name,) for name in POSTGRES), *COMPOSITE], ids=" ".join)
def test_postgres_keys(postgres: str, types: tuple[str, ...]) -> None:
    choose = random.Random(" ".join(types))
    execute(postgres, "DROP TABLE IF EXISTS keys_of_a_type")
    columns = ", ".join(f'"Key {n}" {type_}' for n, type_ in enumerate(types))
    execute(postgres, f"CREATE TABLE keys_of_a_type ({columns}, n int)")
    rows = tables(types, POSTGRES, choose)
    values = ", ".join(f"({', '.join(map(postgres_literal, row))})" for row in rows)
    execute(postgres, f"INSERT INTO keys_of_a_type VALUES {values}")
    agree(PostgresSource("keys_of_a_type", uri=URI), types, POSTGRES, choose)
    agree(PostgresSource(query="SELECT * FROM keys_of_a_type -- all\n;", uri=URI), types, POSTGRES, choose)


@pytest.mark.parametrize("types", [*((name,) for name in SQLITE), *COMPOSITE], ids=" ".join)
def test_sqlite_keys(tmp_path: Path, types: tuple[str, ...]) -> None:
    choose = random.Random(" ".join(types))
    columns = ", ".join(f'"Key {n}" {type_}' for n, type_ in enumerate(types))
    with sqlite3.connect(tmp_path / "a file?.db") as database:
        database.execute(f"CREATE TABLE keys_of_a_type ({columns}, n int)")
        for row in tables(types, SQLITE, choose):
            database.execute(f"INSERT INTO keys_of_a_type VALUES ({', '.join(map(literal, row))})")
    database.close()
    path = tmp_path / "a file?.db"
    agree(SQLiteSource("keys_of_a_type", path=path), types, SQLITE, choose)
    agree(SQLiteSource(query="SELECT * FROM keys_of_a_type;", path=path), types, SQLITE, choose)


# What a database says about itself.


@pytest.fixture
def shop(sql: Callable[[str], None]) -> None:
    sql("DROP SCHEMA IF EXISTS shop CASCADE")
    sql("CREATE SCHEMA shop")
    sql("CREATE TYPE shop.mood AS ENUM ('sad', 'ok')")
    sql(
        "CREATE TABLE shop.customers (id bigint PRIMARY KEY, name text, code char(4), mood shop.mood, about jsonb, "
        "until date, since timestamptz, wide numeric, precise numeric(30, 10), country text, zip text)"
    )
    sql("CREATE UNIQUE INDEX ON shop.customers (country, zip)")
    sql("CREATE UNIQUE INDEX ON shop.customers (name) WHERE id > 5")
    sql("CREATE UNIQUE INDEX ON shop.customers (lower(name))")
    sql(
        "INSERT INTO shop.customers SELECT n, 'n' || n, 'c' || n, 'ok', '{\"n\": 1}', '2030-12-31', '1930-01-01Z', "
        "n / 8.0, n / 3.0, 'c' || n % 2, 'z' || n FROM generate_series(1, 9) AS n"
    )


def rows_of(source: DatabaseSource, *keys: Any, key: str = "id", columns: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    schema = source.schema()
    fetcher = Fetcher(source, LookupSpec("T", (key,), columns or tuple(schema.names), delay=0.0), schema)
    try:
        asked = pa.table({key: pa.array(keys, schema.field(key).type)})
        return [row for answer in fetcher.answers([asked]) for row in answer.rows.to_pylist()]
    finally:
        fetcher.close()


@pytest.mark.usefixtures("shop")
def test_postgres_types_and_unique_keys() -> None:
    source = PostgresSource("shop.customers", uri=URI)
    assert source.unique_keys == (("id",), ("country", "zip"))
    assert rows_of(source, 3) == [
        {
            "id": 3,
            "name": "n3",
            "code": "c3",
            "mood": "ok",
            "about": '{"n": 1}',
            "until": date(2030, 12, 31),
            "since": datetime(1930, 1, 1, tzinfo=UTC),
            "wide": Decimal("0.375"),
            "precise": Decimal("1.0000000000"),
            "country": "c1",
            "zip": "z3",
        }
    ]
    assert [row["id"] for row in rows_of(source, "c3", "c3  ", key="code")] == [3]
    assert len(rows_of(source, "ok", "glad", key="mood")) == 9


@pytest.mark.usefixtures("shop")
def test_postgres_estimates_its_rows() -> None:
    execute(URI(), "ANALYZE shop.customers")
    assert PostgresSource("shop.customers", uri=URI).rows() == 9
    assert PostgresSource(query="SELECT * FROM shop.customers WHERE id < 100", uri=URI).rows() == 9


@pytest.mark.usefixtures("shop")
def test_only_the_columns_of_the_lookup_are_read() -> None:
    source = PostgresSource("shop.customers", uri=URI)
    source.schema()
    execute(URI(), "ALTER TABLE shop.customers DROP COLUMN about")
    assert rows_of(source, 3, columns=("id", "name")) == [{"id": 3, "name": "n3"}]


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("DROP COLUMN name", 'column t.name does not exist'),
        ("ALTER COLUMN zip TYPE bigint USING id", "operator does not exist: bigint = text"),
        ("ALTER COLUMN country TYPE bigint USING 1", "the column country came back as int64; it was string"),
        ("RENAME TO clients", 'relation "shop.customers" does not exist'),
    ],
)  # fmt: skip
def test_a_table_that_changes_meanwhile_is_an_error(change: str, message: str) -> None:
    source = PostgresSource("shop.customers", uri=URI)
    source.schema()
    execute(URI(), f"ALTER TABLE shop.customers {change}")
    with pytest.raises(LookupFailed, match="3 attempts") as failed:
        rows_of(source, "z3", key="zip", columns=("zip", "name", "country"))
    assert message in str(failed.value)


@pytest.mark.usefixtures("shop")
def test_a_source_never_writes() -> None:
    execute(URI(), "CREATE FUNCTION shop.grow() RETURNS bigint LANGUAGE sql AS "
            "'INSERT INTO shop.customers (id) VALUES (100) RETURNING id'")  # fmt: skip
    with pytest.raises(LookupFailed, match="read-only transaction"):
        rows_of(PostgresSource(query="SELECT shop.grow() AS id", uri=URI), 100)


@pytest.mark.usefixtures("shop")
def test_names_and_values_are_never_read_as_sql() -> None:
    name = 'a "b"; DROP TABLE shop.customers; --'
    execute(URI(), f'CREATE TABLE shop.odd ("{name.replace(chr(34), chr(34) * 2)}" text)')
    value = "x'); DROP TABLE shop.customers; --"
    execute(URI(), "INSERT INTO shop.odd VALUES ($1)", value)
    assert rows_of(PostgresSource("shop.odd", uri=URI), value, key=name) == [{name: value}]
    assert len(rows_of(PostgresSource("shop.customers", uri=URI), *range(20))) == 9


def test_names_with_dots_are_given_in_parts(sql: Callable[[str], None]) -> None:
    sql('CREATE TABLE IF NOT EXISTS "a.b" (id int PRIMARY KEY)')
    assert PostgresSource(("public", "a.b"), uri=URI).unique_keys == (("id",),)


def test_sqlite_types_and_unique_keys(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TABLE customers (id INTEGER PRIMARY KEY, country TEXT, zip TEXT, born DATE, seen TIMESTAMP, "
            "paid DECIMAL(10, 2), active BOOLEAN, UNIQUE (country, zip))"
        )
        for row in ((1, "it", "z1", "2024-02-29", "2024-02-29T10:00:00", "10.50", 1), (2, *[None] * 6)):
            database.execute("INSERT INTO customers VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    database.close()
    source = SQLiteSource("customers", path=path)
    assert source.unique_keys == (("id",), ("country", "zip"))
    assert source.rows() == 2
    first = rows_of(source, 1)[0]
    assert list(first.values()) == [1, "it", "z1", date(2024, 2, 29), datetime(2024, 2, 29, 10), Decimal("10.50"), True]
    assert set(rows_of(source, 2)[0].values()) == {2, None}
    total = SQLiteSource(query="SELECT id, 2 * id AS twice FROM customers", path=path, types={"twice": "BIGINT"})
    assert rows_of(total, 2) == [{"id": 2, "twice": 4}]


def test_a_column_that_is_null_for_a_thousand_rows_keeps_its_type(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "nulls.db") as database:
        database.execute("CREATE TABLE t (id INTEGER, name TEXT)")
        database.executemany("INSERT INTO t VALUES (1, ?)", [(None if n < 3000 else "x",) for n in range(3001)])
    database.close()
    rows = rows_of(SQLiteSource("t", path=tmp_path / "nulls.db"), 1)
    assert len(rows) == 3001
    assert {row["name"] for row in rows} == {None, "x"}


def test_a_value_that_is_not_what_its_column_is_declared_as_is_an_error(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "odd.db") as database:
        database.execute("CREATE TABLE t (id INTEGER, n INTEGER, d DATE)")
        database.execute("INSERT INTO t VALUES (1, 'many', '2024-01-01'), (2, 2, 'soon'), (3, 3, '2024-01-01')")
    database.close()
    source = SQLiteSource("t", path=tmp_path / "odd.db")
    assert rows_of(source, 3) == [{"id": 3, "n": 3, "d": date(2024, 1, 1)}]
    for key in (1, 2):
        with pytest.raises(LookupFailed, match=f"id = {key}; 1 attempt; the column . has '.*', which Spark's"):
            rows_of(source, key)


def test_a_database_file_that_does_not_exist_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"SQLite table t: there is no file .*none\.db on this machine"):
        SQLiteSource("t", path=tmp_path / "none.db").schema()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", [{}, {"table": "t", "query": "SELECT 1"}])
def test_a_table_or_a_query(arguments: dict[str, Any]) -> None:
    with pytest.raises(SourceError, match="takes either a table or a query"):
        SQLiteSource(**arguments, path="x.db")


# Credentials.


def test_no_credential_is_in_what_can_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_DB", "postgresql://me:s3cr%40t@127.0.0.1:9/shop?connect_timeout=1")
    source = PostgresSource("customers", uri=env("SHOP_DB"))
    with pytest.raises(ConnectionError) as failed:
        source.schema()
    for seen in (repr(source), str(failed.value), repr(pickle.dumps(source)), repr(vars(source)["_uri"])):
        assert "s3cr" not in seen
    monkeypatch.setenv("SHOP_DB", "host=127.0.0.1 port=9 password=s3cr@t pasword=other")
    with pytest.raises(SourceError, match="a parameter that PostgreSQL does not have"):
        source.schema()


def test_a_callable_gives_the_credential_of_the_moment(postgres: str) -> None:
    calls = []

    def credential() -> str:
        calls.append(1)
        return postgres

    source = PostgresSource(query="SELECT 1 AS id", uri=credential)
    rows_of(source, 1)
    rows_of(source, 1)
    assert len(calls) == 3  # to describe it, and for each fetch


@pytest.mark.parametrize("uri", ["postgresql://me:secret@localhost/shop", "host=localhost password=secret"])
def test_a_password_in_the_uri_is_refused(uri: str) -> None:
    with pytest.raises(SourceError, match="put the uri into an environment variable") as refused:
        PostgresSource("customers", uri=uri)
    assert "secret" not in str(refused.value)


def test_a_variable_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_DB", raising=False)
    with pytest.raises(SourceError, match="the environment variable NO_SUCH_DB is not set"):
        PostgresSource("customers", uri=env("NO_SUCH_DB")).schema()
