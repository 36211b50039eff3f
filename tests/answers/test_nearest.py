"""Joins of which the nearest row counts, in sessions and over tables of several kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from optimizer import Optimizer, Options

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

FORCE = Options(force=True, strict=True)
AS_OF = "SELECT t.id, q.v FROM {} t LEFT ASOF JOIN q MATCH_CONDITION (t.ts >= q.ts) ON q.k = t.k"
LAST = (
    "SELECT t.id, q.v FROM t JOIN q ON q.k = t.k AND q.ts <= t.ts "
    "QUALIFY row_number() OVER (PARTITION BY t.id ORDER BY q.ts DESC) = 1"
)


@pytest.fixture
def tables(session: SparkSession, tmp_path: Path) -> SparkSession:
    """Views ``t`` and ``q`` of files, whose columns may be NULL, and ``s``, a stream of those of ``t``."""
    session.range(6).selectExpr("id", "id % 2 AS k", "id * 3 AS ts").write.parquet(str(tmp_path / "t"))
    session.range(9).selectExpr("id % 2 AS k", "id * 2 AS ts", "id AS v").write.parquet(str(tmp_path / "q"))
    for name in "tq":
        session.read.parquet(str(tmp_path / name)).createOrReplaceTempView(name)
    stream = session.readStream.schema(session.table("t").schema).parquet(str(tmp_path / "t"))
    stream.createOrReplaceTempView("s")
    return session


@pytest.mark.parametrize("has_it", ["true", "false"])
def test_a_stream_is_left_to_spark(tables: SparkSession, has_it: str) -> None:
    tables.conf.set("spark.sql.join.asofJoin.enabled", has_it)
    optimizer = Optimizer(tables, FORCE)
    assert not optimizer.plan(AS_OF.format("s")).rewritten
    if has_it == "false":
        with pytest.raises(PySparkException, match="ASOF_JOIN"):
            optimizer.sql(AS_OF.format("s"))
    assert optimizer.plan(AS_OF.format("t")).rewritten


def test_a_view_is_left_to_spark(tables: SparkSession) -> None:
    tables.conf.set("spark.sql.join.asofJoin.enabled", "false")
    plan = Optimizer(tables, FORCE).plan(f"CREATE TEMP VIEW latest AS {AS_OF.format('t')}")
    assert not plan.rewritten
    assert any("a view would keep the types" in declined.reason for declined in plan.declined)


def test_a_column_that_is_never_null_may_become_null(tables: SparkSession) -> None:
    """A plan that was made over the first table is not used over the second."""
    tables.sql("CREATE OR REPLACE TEMP VIEW files AS SELECT * FROM q")
    optimizer = Optimizer(tables, FORCE)
    for value in ("7L", "CASE WHEN ts > 4 THEN 7L END"):
        tables.sql(f"SELECT k, ts, {value} AS v FROM files").createOrReplaceTempView("q")
        expected = tables.sql(LAST)
        found = optimizer.sql(LAST)
        assert found.schema == expected.schema
        assert sorted(map(str, found.collect())) == sorted(map(str, expected.collect()))
    tables.catalog.dropTempView("files")


RANKED = LAST.replace(" QUALIFY", " WHERE {} QUALIFY")
LATERAL = (
    "SELECT t.id, x.v FROM t JOIN LATERAL (SELECT q.v FROM q WHERE q.k = t.k AND q.ts <= t.ts "
    "ORDER BY q.ts DESC LIMIT 1) x WHERE {}"
)


@pytest.mark.parametrize(
    ("query", "rewritten"),
    [
        (RANKED.format("t.note LIKE '%99999'"), False),
        (RANKED.format("q.v % 100000 = 3"), False),
        (RANKED.format("t.note LIKE '%9'"), True),
        (LATERAL.format("t.note LIKE '%99999'"), False),
        (LATERAL.format("t.note LIKE '%9'"), True),
    ],
)
def test_rows_that_a_filter_keeps_are_counted(
    session: SparkSession, tmp_path: Path, query: str, rewritten: bool
) -> None:
    """A sort of both sides costs more than the pairs of a few rows, and Spark estimates that a filter keeps all."""
    for name, column in (("t", "CAST(id AS STRING) AS note"), ("q", "id AS v")):
        path = str(tmp_path / name)
        session.range(100_000).selectExpr("id", "id % 7 AS k", "id AS ts", column).write.parquet(path)
        session.read.parquet(path).createOrReplaceTempView(name)
    assert Optimizer(session).plan(query).rewritten == rewritten
