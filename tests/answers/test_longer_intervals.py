"""Bins of measured lengths, over intervals that are longer when the statement runs than when it was planned."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from dovetail import Optimizer, Options
from sessions import for_few_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

QUERIES = [
    "SELECT p.id, i.id AS i FROM points p JOIN intervals i ON p.x BETWEEN i.lo AND i.hi",
    "SELECT p.id, i.id AS i FROM points p LEFT JOIN intervals i ON p.x BETWEEN i.lo AND i.hi",
    "SELECT a.id, b.id AS b FROM intervals a JOIN intervals b ON a.lo <= b.hi AND b.lo <= a.hi",
]


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    own = for_few_rows(spark)
    own.sql("CREATE DATABASE longer_intervals")
    own.sql("USE longer_intervals")
    own.sql("CREATE TABLE points USING parquet AS SELECT id, CAST(id * 7 % 100 AS INT) AS x FROM range(300)")
    own.sql("CREATE TABLE intervals (id BIGINT, lo INT, hi INT) USING parquet")
    own.sql("INSERT INTO intervals SELECT id, id * 2, id * 2 + 3 FROM range(50)")
    yield own
    own.sql("USE default")
    own.sql("DROP DATABASE longer_intervals CASCADE")


@pytest.mark.parametrize("query", QUERIES)
def test_intervals_that_became_longer_are_joined(session: SparkSession, query: str) -> None:
    plan = Optimizer(session, Options(force=True, strict=True)).plan(query)
    session.sql("INSERT INTO intervals VALUES (60, -100000, 100000), (61, 7, NULL)")
    found, wanted = (Counter(map(tuple, session.sql(text).collect())) for text in (plan.sql(), query))
    assert "raise_error" in plan.sql()
    assert found == wanted


@pytest.mark.parametrize("query", QUERIES)
def test_an_interval_of_billions_of_bins_is_an_error_and_not_the_end_of_the_driver(
    session: SparkSession, query: str
) -> None:
    opt = Optimizer(session, Options(force=True, strict=True))
    plan = opt.plan(query)
    session.sql("INSERT INTO intervals VALUES (60, -2147483648, 2147483647)")
    with pytest.raises(
        (PySparkException, Py4JJavaError), match=r"touches more than 10000000 bins: .* Make the DataFrame"
    ):
        session.sql(plan.sql()).collect()
    assert opt.sql(query).count() == session.sql(query).count()
