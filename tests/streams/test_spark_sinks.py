"""What Spark's own sink writes into tables and folders of files: readers find all rows, or nothing is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dovetail import Optimizer, OptionError, Sink

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import Row, SparkSession

QUERIES = {
    "one stream": "SELECT a.id, a.p, a.q, a.v FROM s a WHERE a.id >= 0",
    "Spark's join": "SELECT a.id, a.p, b.q, b.v FROM s a JOIN s b ON a.id = b.id",
}
FORMATS = ("parquet", "orc", "json", "csv")


@pytest.fixture
def stream(opt: Optimizer, tmp_path: Path) -> Optimizer:
    """A session with a stream ``s`` of six rows, whose folder is ``in``."""
    add_rows(opt.session, tmp_path, 0, 6)
    schema = opt.session.read.parquet(str(tmp_path / "in")).schema
    opt.session.readStream.schema(schema).parquet(str(tmp_path / "in")).createOrReplaceTempView("s")
    return opt


def add_rows(session: SparkSession, folder: Path, first: int, end: int) -> None:
    session.range(first, end).selectExpr(*_items()).coalesce(1).write.mode("append").parquet(str(folder / "in"))


def _items() -> list[str]:
    return ["id", "id % 2 AS p", "CAST(id % 3 AS STRING) AS q", "concat('v', id) AS v"]


def run(opt: Optimizer, query: str, sink: str | Sink, checkpoint: Path) -> None:
    opt.stream(
        QUERIES[query], sink=sink, checkpoint=checkpoint, trigger="available now", state_modules=False
    ).awaitTermination()


def expected(session: SparkSession, end: int) -> list[Row]:
    return session.range(end).selectExpr(*_items()).collect()


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize(
    "columns", ["v STRING, id BIGINT, q STRING, p BIGINT", "ID BIGINT, p BIGINT, q STRING, V STRING"]
)
@pytest.mark.parametrize(
    "partitions", ["", "PARTITIONED BY (p)", "PARTITIONED BY (q, p)", "CLUSTERED BY (id) INTO 2 BUCKETS"]
)
@pytest.mark.parametrize("query", QUERIES)
def test_readers_of_a_table_find_all_rows(
    stream: Optimizer, tmp_path: Path, format_: str, columns: str, partitions: str, query: str
) -> None:
    session = stream.session
    session.sql(f"CREATE TABLE written ({columns}) USING {format_} {partitions} LOCATION '{tmp_path / 'out'}'")
    try:
        for end in (6, 9):
            run(stream, query, "written", tmp_path / "checkpoint")
            session.catalog.refreshTable("written")
            found = session.newSession().table("written").select("id", "p", "q", "v").collect()
            assert sorted(found) == sorted(expected(session, end))
            add_rows(session, tmp_path, end, end + 3)
    finally:
        session.sql("DROP TABLE written")


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ("(id BIGINT, p BIGINT, q STRING) USING parquet", "create a table with these columns"),
        ("(id BIGINT, p BIGINT, q STRING, w STRING) USING csv", "create a table with these columns"),
        ("(id BIGINT, p INT, q STRING, v STRING) USING parquet", "create a table with these columns"),
        ("USING parquet AS SELECT 1L AS id, 2L AS p, '3' AS q, '4' AS v", "has files already"),
        ("USING json PARTITIONED BY (p) AS SELECT 1L AS id, '3' AS q, '4' AS v, 2L AS p", "has files already"),
    ],
)
def test_nothing_is_written_that_readers_would_miss(stream: Optimizer, tmp_path: Path, made: str, reason: str) -> None:
    session = stream.session
    session.sql(f"CREATE TABLE written {made}")
    before = session.table("written").collect()
    try:
        with pytest.raises(OptionError, match=reason):
            run(stream, "one stream", "written", tmp_path / "checkpoint")
        session.catalog.refreshTable("written")
        assert session.table("written").collect() == before
    finally:
        session.sql("DROP TABLE written")


@pytest.mark.parametrize("partition_by", [(), ("p",)])
@pytest.mark.parametrize("format_", FORMATS)
def test_the_rows_of_a_folder_are_not_hidden(
    stream: Optimizer, tmp_path: Path, format_: str, partition_by: tuple[str, ...]
) -> None:
    rows = stream.session.range(100, 102).selectExpr(*_items())
    rows.write.format(format_).partitionBy(*partition_by).save(str(tmp_path / "out"))
    with pytest.raises(OptionError, match="has files already, such as"):
        run(stream, "Spark's join", Sink(format_, tmp_path / "out", partition_by=partition_by), tmp_path / "checkpoint")
    assert stream.session.read.format(format_).schema(rows.schema).load(str(tmp_path / "out")).count() == 2


@pytest.mark.parametrize("format_", FORMATS)
def test_files_without_rows_hide_nothing(stream: Optimizer, tmp_path: Path, format_: str) -> None:
    session = stream.session
    none = stream.session.read.parquet(str(tmp_path / "in")).where("false").select("id", "p", "q", "v")
    none.write.format(format_).saveAsTable("written")
    none.write.format(format_).save(str(tmp_path / "out"))
    try:
        run(stream, "one stream", "written", tmp_path / "of_table")
        session.catalog.refreshTable("written")
        assert session.newSession().table("written").count() == 6
        run(stream, "one stream", Sink(format_, tmp_path / "out"), tmp_path / "of_folder")
        assert session.newSession().read.format(format_).schema(none.schema).load(str(tmp_path / "out")).count() == 6
    finally:
        session.sql("DROP TABLE written")


def test_a_folder_without_rows_and_one_that_the_query_wrote(stream: Optimizer, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "_SUCCESS").touch()
    for end in (6, 9):
        run(stream, "one stream", Sink("parquet", tmp_path / "out"), tmp_path / "checkpoint")
        assert stream.session.newSession().read.parquet(str(tmp_path / "out")).count() == end
        add_rows(stream.session, tmp_path, end, end + 3)
