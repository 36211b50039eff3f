"""A struct names its fields after the columns in it, and JSON shows these names: no name of a rewriting may be seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from comparing import assert_same
from dovetail import Optimizer, Options
from sessions import for_few_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BAND = "(SELECT max(y.hi) FROM t y WHERE y.k = x.k AND y.lo BETWEEN x.lo - 9 AND x.lo)"
NEAREST = "(SELECT max_by(y.id, y.lo) FROM t y WHERE y.k = x.k AND y.lo <= x.lo)"
GROUP = "(SELECT max(y.hi) FROM t y WHERE y.k = x.k)"
TOTALS = "(SELECT count(*) FROM t WHERE lo > 10), (SELECT sum(lo) FROM t WHERE k = 2)"
FIRST_LAST = "SELECT {} AS j FROM t x WHERE x.lo >= (SELECT avg(y.lo) FROM t y WHERE y.k = x.k)"
JOIN = "JOIN t x ON z.lo BETWEEN x.lo AND x.hi"
QUERIES = (
    f"SELECT to_json(struct(x.id, {BAND})) AS j FROM t x",
    f"SELECT to_json((x.id, {BAND})) AS j FROM t x",
    f"SELECT typeof(struct({NEAREST}, x.id)) AS j FROM t x",
    "SELECT to_json(arrays_zip(array(x.id), (SELECT array(max(y.hi)) FROM t y WHERE y.k = x.k))) AS j FROM t x",
    FIRST_LAST.format(f"to_json(struct({GROUP}))"),
    FIRST_LAST.format(f"to_json(named_struct('a', ({GROUP})))"),
    f"SELECT to_json(struct({TOTALS})) AS j",
    f"SELECT z.j FROM (SELECT lo, to_json(struct(id, 100 DIV id AS r)) AS j FROM t) z {JOIN}",
    f"SELECT to_json(struct(z.r, x.id)) AS j FROM (SELECT lo, 100 DIV id AS r FROM t) z {JOIN}",
    f"SELECT to_json(struct(x.id, max(x.hi), (x.k))) AS j FROM t z {JOIN} GROUP BY x.id, x.k",
)


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    session = for_few_rows(spark)
    rows = session.sql(
        "SELECT id + 1 AS id, id % 3 AS k, CAST(id * 4 AS INT) AS lo, CAST(id * 4 + 9 AS INT) AS hi FROM range(9)"
    )
    rows.createOrReplaceTempView("t")
    return session


@pytest.mark.parametrize("query", QUERIES)
def test_fields_have_the_names_that_spark_gives_them(session: SparkSession, query: str) -> None:
    assert_same(session, query, Optimizer(session, Options(force=True, strict=True)).plan(query))
