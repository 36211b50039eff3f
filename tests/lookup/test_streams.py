"""Streaming queries with lookups, started by ``Optimizer.stream``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from dovetail import Optimizer, OptionError, QueryError, Sink
from dovetail.executor.connectors.memory import MemorySource

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

NAMES = pa.table({"k": pa.array(range(8), pa.int32()), "name": [f"n{n}" for n in range(8)]})
QUERY = "SELECT a.nr, a.k, n.name FROM arriving a LEFT JOIN names FOR SYSTEM_TIME AS OF PROCTIME() AS n ON a.k = n.k"
HINTED = QUERY.replace("SELECT", "SELECT /*+ SHUFFLE_HASH('n') */")


@pytest.fixture
def opt(spark: SparkSession, tmp_path: Path) -> Optimizer:
    """A table `names` to look up, and a stream `arriving` of files with ten rows each."""
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    (tmp_path / "in").mkdir()
    stream = session.readStream.schema("nr INT, k INT").option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
    stream.createOrReplaceTempView("arriving")
    found = Optimizer(session)
    found.register_lookup("names", MemorySource(NAMES))
    return found


@pytest.fixture
def add(tmp_path: Path) -> Callable[[int], None]:
    """What adds the next file to the stream."""

    def file(number: int) -> None:
        rows = [f'{{"nr": {number * 10 + n}, "k": {n}}}' for n in range(10)]
        (tmp_path / "in" / f".{number}").write_text("\n".join(rows))
        (tmp_path / "in" / f".{number}").rename(tmp_path / "in" / f"{number}.json")

    return file


def wanted(files: int) -> list[tuple[int, int, str | None]]:
    return [(n, n % 10, f"n{n % 10}" if n % 10 < 8 else None) for n in range(files * 10)]


def rows_of(frame: DataFrame) -> list[tuple[int, int, str | None]]:
    return sorted(map(tuple, frame.collect()))


def test_it_goes_on_from_its_checkpoint(opt: Optimizer, add: Callable[[int], None], tmp_path: Path) -> None:
    sink = Sink("parquet", tmp_path / "out", partition_by=("k",))
    for run in range(2):
        add(2 * run)
        add(2 * run + 1)
        query = opt.stream(QUERY, checkpoint=tmp_path / "checkpoint", sink=sink, trigger="available now")
        query.awaitTermination()
        found = opt.session.read.parquet(str(tmp_path / "out")).select("nr", "k", "name")
        assert rows_of(found) == wanted(2 * run + 2)
    assert (tmp_path / "out" / "k=3").is_dir()


def test_a_function_gets_the_rows_of_each_micro_batch(
    opt: Optimizer, add: Callable[[int], None], tmp_path: Path
) -> None:
    seen: dict[int, list[tuple[int, int, str | None]]] = {}

    def keep(rows: DataFrame, number: int) -> None:
        seen[number] = rows_of(rows)

    add(0)
    add(1)
    opt.stream(QUERY, checkpoint=tmp_path / "c", sink=keep, trigger="Available  NOW").awaitTermination()
    assert sorted(row for rows in seen.values() for row in rows) == wanted(2)
    assert sorted(seen) == [0, 1]


def test_a_table_takes_the_rows(opt: Optimizer, add: Callable[[int], None], tmp_path: Path) -> None:
    opt.session.sql(f"CREATE TABLE taken (nr INT, k INT, name STRING) USING parquet LOCATION '{tmp_path / 'taken'}'")
    try:
        add(0)
        opt.stream(QUERY, checkpoint=tmp_path / "c", sink="taken", trigger="available now").awaitTermination()
        assert rows_of(opt.session.table("taken")) == wanted(1)
    finally:
        opt.session.sql("DROP TABLE taken")


@pytest.mark.parametrize("text", [QUERY, HINTED])
def test_the_progress_says_what_the_lookup_did(
    opt: Optimizer, add: Callable[[int], None], tmp_path: Path, text: str
) -> None:
    for number in range(3):
        add(number)
    query = opt.stream(text, checkpoint=tmp_path / "c", sink=Sink("noop"), trigger="available now", name="looked")
    query.awaitTermination()
    told = [p.observedMetrics["lookup 1: names"].asDict() for p in query.recentProgress if p.numInputRows]
    assert len(told) == 3
    for one in told:
        assert one["keys"] == 10
        assert one["rows"] == 8
        assert one["misses"] == 10
        assert one["fetches"] >= 1
        assert one["hits"] == one["retries"] == 0
    assert query.name == "looked"


def test_two_lookups_are_told_apart(opt: Optimizer, add: Callable[[int], None], tmp_path: Path) -> None:
    add(0)
    again = " LEFT JOIN names FOR SYSTEM_TIME AS OF PROCTIME() AS m ON a.nr + 5 = m.k"
    query = opt.stream(QUERY + again, checkpoint=tmp_path / "c", sink=Sink("noop"), trigger="available now")
    query.awaitTermination()
    told = next(p.observedMetrics for p in query.recentProgress if p.numInputRows)
    assert {name: row.asDict()["rows"] for name, row in told.items()} == {"lookup 1: names": 8, "lookup 2: names": 3}


def test_it_runs_until_it_is_stopped(opt: Optimizer, add: Callable[[int], None], tmp_path: Path) -> None:
    query = opt.stream(QUERY, checkpoint=tmp_path / "c", sink=Sink("memory"), name="kept", trigger="100 milliseconds")
    try:
        for number in range(2):
            add(number)
            query.processAllAvailable()
            assert rows_of(opt.session.table("kept")) == wanted(number + 1)
        assert query.isActive
    finally:
        query.stop()


def test_a_query_without_a_lookup_streams_as_well(opt: Optimizer, add: Callable[[int], None], tmp_path: Path) -> None:
    add(0)
    text = "SELECT k, count(*) AS n FROM arriving WHERE k > ? GROUP BY k"
    target = Sink("memory")
    query = opt.stream(
        text, [7], checkpoint=tmp_path / "c", sink=target, trigger="available now", mode="complete", name="counted"
    )
    query.awaitTermination()
    assert sorted(map(tuple, opt.session.table("counted").collect())) == [(8, 1), (9, 1)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT 1 AS one", "no relation of this query is a stream; run it with opt.sql"),
        ("INSERT INTO t SELECT * FROM arriving", "INSERT … is not a query; write the SELECT alone"),
        ("WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a", "INSERT … is not a query"),
        ("FROM arriving INSERT OVERWRITE t SELECT *", "INSERT … is not a query"),
        ("DROP TABLE arriving", "DROP … is not a query"),
        ("CREATE VIEW v AS SELECT * FROM arriving", "CREATE … is not a query"),
        ("", "an empty text … is not a query"),
    ],
)
def test_what_is_no_streaming_query(opt: Optimizer, tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(QueryError, match=said.replace("…", ".")):
        opt.stream(text, checkpoint=tmp_path / "c", sink=Sink("noop"))
    assert opt.session.catalog.tableExists("arriving")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"sink": 3}, "sink is 3; name a table, or give a Sink or a function"),
        ({"sink": ""}, "sink is empty; name a table"),
        ({"sink": "/data/out"}, r"sink is '/data/out'; a string names a table; .* Sink\('parquet', '/data/out'\)"),
        ({"sink": "./out"}, "for files write"),
        ({"sink": "s3a://bucket/out"}, "for files write"),
        ({"sink": Sink("parqet", "out")}, "Spark knows no format 'parqet' for the sink; did you mean 'parquet'[?]"),
        ({"mode": "apend"}, "mode 'apend' does not exist; .*append"),
        ({"trigger": "soon"}, "trigger is 'soon'; write 'available now', or a time such as '10 seconds'"),
        ({"trigger": " "}, "trigger is ' '; write"),
    ],
)
def test_what_is_no_sink_mode_or_trigger(opt: Optimizer, tmp_path: Path, more: dict[str, object], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        opt.stream(QUERY, checkpoint=tmp_path / "c", **{"sink": Sink("noop"), **more})  # type: ignore[arg-type]


def test_a_name_in_backquotes_is_no_path(opt: Optimizer, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="a/b") as error:  # Spark's own: its catalog takes no such name
        opt.stream(QUERY, checkpoint=tmp_path / "c", sink="`a/b`")
    assert not isinstance(error.value, OptionError)
