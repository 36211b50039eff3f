"""Rows of tables with statistics: those that ANALYZE TABLE counted, and not a guess from the size of the files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dovetail.executor.catalog.spark_catalog import SparkCatalog

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ROWS = 3_000


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    own = spark.newSession()
    own.sql(f"CREATE TABLE counted_rows USING parquet AS SELECT id, id % 7 AS k, 'x' AS s FROM range({ROWS})")
    yield own
    own.sql("DROP TABLE counted_rows")


def rows(session: SparkSession, query: str) -> int | None:
    return SparkCatalog(session).statistics(query).rows


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM counted_rows",
        "SELECT k FROM counted_rows WHERE id > 7 AND s = 'x'",
        "SELECT k + 1 AS l FROM (SELECT k FROM counted_rows c WHERE id > 7) d WHERE k < 3",
        "WITH c AS (SELECT * FROM counted_rows) SELECT id FROM c",
    ],
)
def test_counted_rows_are_used(session: SparkSession, query: str) -> None:
    assert rows(session, query) != ROWS
    session.sql("ANALYZE TABLE counted_rows COMPUTE STATISTICS")
    assert rows(session, query) == ROWS
    session.sql("INSERT INTO counted_rows SELECT id, 1, 'y' FROM range(10)")  # Spark drops the count
    assert rows(session, query) != ROWS


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id FROM counted_rows UNION ALL SELECT id FROM range(5)",
        "SELECT a.id FROM counted_rows a JOIN counted_rows b ON a.k = b.k",
        "SELECT explode(sequence(1, 3)) FROM counted_rows",
        "SELECT k, count(*) FROM counted_rows GROUP BY k",
        "SELECT id FROM range(10)",
        "SELECT id FROM counted_rows LIMIT 5",
    ],
)
def test_other_plans_are_estimated_as_before(session: SparkSession, query: str) -> None:
    before = rows(session, query)
    session.sql("ANALYZE TABLE counted_rows COMPUTE STATISTICS")
    assert rows(session, query) == before
