"""Lookups as Spark runs them: the same rows as a join of Spark's own, and nothing partial after a fault."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dovetail.executor.connectors.credentials import env
from dovetail.executor.connectors.fetch import Fetcher
from dovetail.executor.connectors.http import HttpSource
from dovetail.executor.connectors.postgres import PostgresSource
from dovetail.executor.connectors.source import LookupSource
from dovetail.executor.connectors.spark_table import SparkTable
from dovetail.planner.errors import SourceError
from dovetail.planner.logical.lookup_spec import LookupSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dovetail.executor.lookup.metrics import LookupMetrics
    from servers import PostgresServer

URI = env("DOVETAIL_TEST_POSTGRES")
COLUMNS = ("id", "name", "day", "at", "paid", "code")


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    from sessions import for_few_rows  # not above: workers import this module, and not the helpers

    return for_few_rows(spark)


@pytest.fixture(scope="module")
def people(postgres: str) -> PostgresSource:
    """A table with duplicates and NULLs in every column but its key."""
    from servers import execute  # not above, either

    execute(postgres, "DROP TABLE IF EXISTS people")
    execute(
        postgres,
        "CREATE TABLE people AS SELECT n AS id, nullif('n' || n % 7, 'n3') AS name, DATE '2024-02-27' + n % 5 AS day, "
        "TIMESTAMPTZ '2024-03-31 00:30:00Z' + n % 6 * INTERVAL '1 hour' AS at, (n % 4 / 8.0)::numeric(10, 3) AS paid, "
        "('00000000-0000-0000-0000-00000000000' || n % 9)::uuid AS code FROM generate_series(1, 50) AS n",
    )
    execute(postgres, "ALTER TABLE people ADD PRIMARY KEY (id)")
    return PostgresSource("people", uri=URI)


def value(type_: str, choose: random.Random) -> Any:
    n = choose.randrange(12)
    at = datetime(2024, 3, 31, 0, 30, tzinfo=UTC) + timedelta(hours=n)
    return {
        "id": n * 5,
        "name": f"n{n}",
        "day": date(2024, 2, 26) + timedelta(days=n),
        "at": at,
        "paid": Decimal(n) / 8,
        "code": f"00000000-0000-0000-0000-00000000000{n % 10}",
    }[type_]


TYPES = {"id": "INT", "name": "STRING", "day": "DATE", "at": "TIMESTAMP", "paid": "DECIMAL(12, 5)", "code": "STRING"}


def order_rows(keys: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """Orders with random keys, some NULL; the first column is their number."""
    choose = random.Random(" ".join(keys))
    return [(n, *(None if choose.random() < 0.15 else value(key, choose) for key in keys)) for n in range(80)]


def orders(session: SparkSession, keys: tuple[str, ...]) -> DataFrame:
    return session.createDataFrame(order_rows(keys), "nr INT, " + ", ".join(f"k_{key} {TYPES[key]}" for key in keys))


def whole(people: PostgresSource) -> list[dict[str, Any]]:
    """All rows of the table."""
    schema = people.schema()
    fetcher = Fetcher(people, LookupSpec("People", ("id",), COLUMNS), schema)
    try:
        return [row for table in fetcher.read_split(0, 1) for row in table.to_pylist()]
    finally:
        fetcher.close()


def as_collected(row: Any) -> tuple[Any, ...]:
    """A row with times as Spark collects them: in the zone of this machine, without saying so."""
    return tuple(v.astimezone().replace(tzinfo=None) if isinstance(v, datetime) and v.tzinfo else v for v in row)


def counted(rows: Any) -> Counter[str]:
    return Counter(repr(as_collected(row)) for row in rows)


def model(left: list[tuple[Any, ...]], right: list[dict[str, Any]], keys: tuple[str, ...], kind: str) -> Counter[str]:
    """A join as a loop in a loop."""
    joined = []
    for row in left:
        found = [
            other
            for other in right
            if None not in row[1:] and all(other[k] == v for k, v in zip(keys, row[1:], strict=True))
        ]
        joined += [(*row, *other.values()) for other in found]
        if kind == "left" and not found:
            joined.append((*row, *[None] * len(right[0])))
    return counted(joined)


def joined(
    source: LookupSource,
    spec: LookupSpec,
    left: DataFrame,
    kind: str,
    on: Sequence[str],
    metrics: LookupMetrics | None = None,
) -> DataFrame:
    """The rows of an inner or a left join whose left rows go to Python whole."""
    from dovetail.executor.lookup.fetch_rows import Lookup, add_matches

    rows = add_matches(Lookup(source, spec, metrics), left, on)
    return rows.selectExpr("* EXCEPT (matches)", f"{'inline_outer' if kind == 'left' else 'inline'}(matches)")


@pytest.mark.parametrize("keys", [*((name,) for name in COLUMNS), ("name", "day"), ("code", "paid")], ids=" ".join)
def test_the_rows_of_a_join(session: SparkSession, people: PostgresSource, keys: tuple[str, ...]) -> None:
    from dovetail.executor.lookup.fetch_rows import Lookup, fetch_rows
    from dovetail.executor.lookup.metrics import LookupMetrics

    left, rows, plain = orders(session, keys), order_rows(keys), whole(people)
    names = [f"k_{key}" for key in keys]
    metrics = LookupMetrics(session)
    spec = LookupSpec("People", keys, COLUMNS, shuffle=True, batch=4)
    asked = {row[1:] for row in rows if None not in row[1:]}
    expected = [row.values() for row in plain if tuple(row[key] for key in keys) in asked]
    assert expected
    assert counted(fetch_rows(Lookup(people, spec, metrics), left.select(*names)).collect()) == counted(expected)
    assert metrics.counters is not None
    assert metrics.counters.keys == len(asked)
    found = joined(people, spec, left, "left", names)
    typed = [
        (row[0], *(row[n + 1] if row[n + 1] is None else _typed(row[n + 1]) for n in range(len(keys)))) for row in rows
    ]
    assert counted(found.collect()) == model(typed, plain, keys, "left")


def _typed(value: Any) -> Any:
    """A decimal with the digits of its column."""
    return value.quantize(Decimal("0.00001")) if isinstance(value, Decimal) else value


@pytest.mark.parametrize("more", [{}, {"shuffle": True}, {"shuffle": True, "skew": True}, {"asynchronous": True}])
def test_every_way_to_join_whole_rows(session: SparkSession, people: PostgresSource, more: dict[str, Any]) -> None:
    from dovetail.executor.lookup.fetch_rows import Lookup, add_matches

    left = orders(session, ("name",)).selectExpr("*", "map(nr, named_struct('a', array(nr))) AS nested", "nr AS `a.b`")
    spec = LookupSpec("People", ("name",), ("id", "name"), constants=(("paid", Decimal("0.125")),), batch=2, **more)
    plain = [{"id": row["id"], "name": row["name"]} for row in whole(people) if row["paid"] == Decimal("0.125")]
    for kind in ("inner", "left"):
        rows = joined(people, spec, left, kind, ["k_name"]).collect()
        assert counted((*row[:2], *row[4:]) for row in rows) == model(order_rows(("name",)), plain, ("name",), kind)
        assert all(row["nested"] == {row["nr"]: ([row["nr"]],)} and row["a.b"] == row["nr"] for row in rows)
    nested = add_matches(Lookup(people, spec), left, ["k_name"]).collect()
    assert sorted(row["nr"] for row in nested) == list(range(80))
    flat = [(*row[:2], *match) for row in nested for match in row["matches"]]
    assert counted(flat) == model(order_rows(("name",)), plain, ("name",), "inner")


def test_a_table_that_spark_reads_itself(session: SparkSession, tmp_path: Path) -> None:
    from dovetail.executor.lookup.fetch_rows import Lookup, add_matches, fetch_rows, source_schema

    rows = [{"id": n, "name": None if n % 5 == 0 else f"n{n % 7}", "day": date(2024, 2, 27 + n % 3)} for n in range(30)]
    frame = session.createDataFrame(rows, "id INT, name STRING, day DATE")
    frame.write.parquet(str(tmp_path / "people"))
    frame.createOrReplaceTempView("people_view")
    left = orders(session, ("name",))
    spec = LookupSpec("People", ("name",), ("id", "name"), constants=(("day", date(2024, 2, 28)),))
    plain = [{"id": row["id"], "name": row["name"]} for row in rows if row["day"] == date(2024, 2, 28)]
    asked = {row[1] for row in order_rows(("name",))} - {None}
    for source in (SparkTable(path=str(tmp_path / "people")), SparkTable("people_view")):
        assert source_schema(session, source) == frame.schema
        found = fetch_rows(Lookup(source, spec), left.select("k_name"))
        assert counted(found.collect()) == counted(row.values() for row in plain if row["name"] in asked)
    for kind in ("inner", "left"):
        found = joined(source, spec, left, kind, ["k_name"])
        assert counted(found.collect()) == model(order_rows(("name",)), plain, ("name",), kind)
    nested = add_matches(Lookup(source, spec), left, ["k_name"]).collect()
    assert len(nested) == 80
    flat = [(*row[:2], *match) for row in nested for match in row["matches"]]
    assert counted(flat) == model(order_rows(("name",)), plain, ("name",), "inner")
    session.catalog.dropTempView("people_view")


def test_an_http_service(session: SparkSession) -> None:
    import pyarrow as pa

    from dovetail.executor.lookup.fetch_rows import Lookup, fetch_rows
    from servers import HttpService

    service = HttpService([{"id": n, "name": f"name {n}"} for n in range(100)])
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    source = HttpSource(service.url, schema=schema, keys=("id",))
    spec = LookupSpec("Names", ("id",), ("id", "name"), batch=10)
    rows = fetch_rows(Lookup(source, spec), session.range(50, 150).selectExpr("if(id % 5 = 0, NULL, id) AS id"))
    assert sorted(row["name"] for row in rows.collect()) == sorted(f"name {n}" for n in range(50, 100) if n % 5)
    asked = [key for _, _, keys in service.requests for key in keys]
    assert sorted(asked) == [n for n in range(50, 150) if n % 5]
    service.stop()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("CAST(id AS STRING) AS k", "is string, id of the lookup table is int; cast one"),
        ("CAST(id AS DOUBLE) AS k", "is double, id of the lookup table is int"),
        ("id, id AS again", "is fetched by 1 columns, not by 2"),
    ],
)
def test_keys_of_another_type_are_refused(
    session: SparkSession, people: PostgresSource, keys: str, message: str
) -> None:
    from dovetail.executor.lookup.fetch_rows import Lookup, fetch_rows

    spec = LookupSpec("People", ("id",), ("id", "name"))
    with pytest.raises(SourceError, match=message):
        fetch_rows(Lookup(people, spec), session.range(3).selectExpr(*keys.split(", ")))


def test_a_key_that_the_column_cannot_have_matches_nothing(session: SparkSession, people: PostgresSource) -> None:

    left = session.createDataFrame([(7,), (2**40,), (None,)], "k BIGINT")
    rows = joined(people, LookupSpec("People", ("id",), ("id",)), left, "left", ["k"]).collect()
    assert sorted(map(tuple, rows), key=repr) == [(2**40, None), (7, 7), (None, None)]
    cents = session.createDataFrame([(Decimal("0.125"),), (Decimal("0.12504"),)], "k DECIMAL(12, 5)")
    spec = LookupSpec("People", ("paid",), ("paid",))
    rows = joined(people, spec, cents, "inner", ["k"]).distinct().collect()
    assert [tuple(row) for row in rows] == [(Decimal("0.12500"), Decimal("0.125"))]


class Seconds(LookupSource):
    """Times in whole seconds."""

    def schema(self) -> Any:
        import pyarrow as pa

        return pa.schema([("at", pa.timestamp("s", tz="Europe/Rome")), ("name", pa.large_string())])

    def fetch(self, keys: Any) -> Any:
        import pyarrow as pa

        assert keys["at"].null_count == 0
        return pa.table({"at": keys["at"], "name": [f"second {at:%S}" for at in keys["at"].to_pylist()]}, self.schema())


def test_layouts_that_spark_does_not_know(session: SparkSession) -> None:
    from dovetail.executor.lookup.fetch_rows import Lookup, fetch_rows

    left = session.sql("SELECT TIMESTAMP '2024-01-01 00:00:01' AS k UNION ALL SELECT TIMESTAMP '2024-01-01 00:00:02.5'")
    spec = LookupSpec("Seconds", ("at",), ("at", "name"))
    assert [row["name"] for row in fetch_rows(Lookup(Seconds(), spec), left).collect()] == ["second 01"]
    rows = joined(Seconds(), spec, left, "left", ["k"]).collect()
    assert sorted((row["at"] == row["k"], row["name"]) for row in rows if row["at"]) == [(True, "second 01")]
    assert len(rows) == 2


def test_hot_keys_go_to_every_task_and_are_fetched_once_by_each(session: SparkSession, people: PostgresSource) -> None:
    from dovetail.executor.lookup.metrics import LookupMetrics
    from dovetail.executor.lookup.spread import task_count

    left = session.range(4000).selectExpr("id AS nr", "CAST(if(id % 2 = 0, 7, id % 400) AS INT) AS k")
    sizes = {}
    for skew in (False, True):
        spec = LookupSpec("People", ("id",), ("id", "name"), shuffle=True, skew=skew, cache_size=1)
        metrics = LookupMetrics(session)
        rows = joined(people, spec, left, "left", ["k"], metrics)
        parts = rows.selectExpr("spark_partition_id() AS part", "nr").groupBy("part").count().collect()
        sizes[skew] = max(row["count"] for row in parts) / (sum(row["count"] for row in parts) / task_count(session))
        assert metrics.counters is not None
        assert metrics.counters.keys <= 200 + (task_count(session) if skew else 1)
    assert sizes[True] < 1.3 < sizes[False]


# Faults.


class Failing(LookupSource):
    """Answers some keys, and fails for one."""

    def schema(self) -> Any:
        import pyarrow as pa

        return pa.schema([("id", pa.int64())])

    def fetch(self, keys: Any) -> Any:
        if 97 in keys["id"].to_pylist():
            raise OSError("no 97 here")
        return keys


def test_after_a_fault_there_is_one_error_and_nothing_is_written(session: SparkSession, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    from dovetail.executor.lookup.fetch_rows import Lookup, fetch_rows

    spec = LookupSpec("Numbers", ("id",), ("id",), batch=10, delay=0.01)
    rows = fetch_rows(Lookup(Failing(), spec), session.range(100))
    with pytest.raises(PySparkException) as failed:
        rows.write.parquet(str(tmp_path / "out"))
    assert "errors.LookupFailed: lookup in Numbers (Failing) failed for id = 97 among " in str(failed.value)
    assert " keys; 3 attempts; OSError: no 97 here" in str(failed.value)
    assert not list((tmp_path / "out").glob("*.parquet"))
    assert not (tmp_path / "out" / "_SUCCESS").exists()


@pytest.fixture
def clicks(session: SparkSession, tmp_path: Path) -> tuple[DataFrame, Callable[[int], None]]:
    """A stream of files, and what adds the next file to it."""
    folder = tmp_path / "clicks"
    folder.mkdir()

    def add(number: int) -> None:
        rows = [f'{{"nr": {number * 100 + n}, "k": {n % 10}}}' for n in range(100)]
        (folder / f".{number}").write_text("\n".join(rows))
        (folder / f".{number}").rename(folder / f"{number}.json")

    return session.readStream.schema("nr INT, k INT").option("maxFilesPerTrigger", 1).json(str(folder)), add


def test_a_stream_resumes_after_the_server_died(
    session: SparkSession, mortal: PostgresServer, clicks: tuple[DataFrame, Callable[[int], None]], tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    from dovetail.executor.lookup.metrics import LookupMetrics
    from servers import execute

    execute(mortal.uri, "DROP TABLE IF EXISTS t")
    execute(mortal.uri, "CREATE TABLE t AS SELECT n::int AS id, 'n' || n AS name FROM generate_series(1, 8) AS n")
    source = PostgresSource("t", uri=mortal.uri)
    stream, add = clicks
    metrics = LookupMetrics(session)
    spec = LookupSpec("T", ("id",), ("id", "name"), shuffle=True, delay=0.01)
    rows = joined(source, spec, stream, "left", ["k"], metrics).select("nr", "k", "name")

    def run() -> None:
        writer = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(tmp_path / "out"))
        query.awaitTermination()

    add(0)
    add(1)
    run()
    assert metrics.counters is not None
    assert metrics.counters.keys == 20  # each of ten keys once in each of two micro-batches
    mortal.kill()
    add(2)
    with pytest.raises(StreamingQueryException, match="lookup in T"):
        run()
    assert session.read.parquet(str(tmp_path / "out")).count() == 200
    mortal.start()
    add(3)
    run()
    found = sorted(map(tuple, session.read.parquet(str(tmp_path / "out")).collect()))
    assert found == [(n, n % 100 % 10, f"n{n % 10}" if 1 <= n % 10 <= 8 else None) for n in range(400)]


def test_a_cache_with_a_time_to_live_outlives_a_micro_batch(
    session: SparkSession, people: PostgresSource, clicks: tuple[DataFrame, Callable[[int], None]]
) -> None:
    from dovetail.executor.lookup.metrics import LookupMetrics

    stream, add = clicks
    for number in range(8):
        add(number)
    metrics = LookupMetrics(session)
    spec = LookupSpec("People", ("id",), ("id", "name"), shuffle=True, cache_ttl=600.0)
    rows = joined(people, spec, stream, "inner", ["k"], metrics)
    rows.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination()
    assert metrics.counters is not None
    asked = metrics.counters.hits + metrics.counters.misses
    assert asked == 80
    assert metrics.counters.keys == 10  # whichever worker gets a share goes on with what is known of it
