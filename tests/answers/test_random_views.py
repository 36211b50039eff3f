"""Random views over a table under random queries that read both: a view that is read as its query says the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from comparing import assert_same
from dovetail import Optimizer, Options
from effort import examples
from sessions import for_few_rows
from shares import Share, at_least

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTIONS = Options(force=True, strict=True)
VIEWS = (
    "SELECT id, k, v FROM t",
    "SELECT * FROM t WHERE v > 10",
    "SELECT id AS k, k AS id, v FROM t",
    "SELECT id, k, CAST(v AS TINYINT) AS v FROM t",
    "SELECT id, k, 100 / v AS v FROM t WHERE v <> 0",
    "SELECT * FROM t LIMIT 5",
    "SELECT DISTINCT id, k, v FROM t",
    "SELECT k AS id, k, max(v) AS v FROM t GROUP BY k",
    "SELECT id, k, sum(v) OVER (PARTITION BY k) AS v FROM t",
    "WITH t AS (SELECT * FROM other.t) SELECT id, k, v FROM t",
    "SELECT id, k, v FROM other.t",
    "SELECT a.id, a.k, b.v FROM t a JOIN t b ON a.id = b.id",
    "SELECT id, k, v FROM t UNION ALL SELECT id, k, v FROM t WHERE k = 1",
    "SELECT id, k, v + CAST(rand(3) * 0 AS INT) AS v FROM t",
    "SELECT id, k, v FROM t WHERE id IN (SELECT id FROM t WHERE k = 2)",
    "SELECT id, coalesce(k, 1) AS k, v FROM t",
    "SELECT id, k, v FROM t TABLESAMPLE (100 PERCENT)",
)
QUERIES = (
    "SELECT x.id, y.v FROM s x JOIN t y ON x.id = y.id WHERE y.v > 5",
    "SELECT x.id, y.v FROM t x JOIN s y ON x.id = y.id AND x.k = y.k",
    "SELECT x.id FROM t x WHERE x.v > (SELECT avg(y.v) FROM s y WHERE y.k = x.k)",
    "SELECT x.id FROM s x WHERE x.v > (SELECT avg(y.v) FROM t y WHERE y.k = x.k)",
    "SELECT id FROM s x WHERE EXISTS (SELECT 1 FROM t y WHERE y.k = x.k AND y.id <> x.id)",
    "SELECT id FROM t x WHERE NOT EXISTS (SELECT 1 FROM s y WHERE y.k = x.k AND y.id <> x.id)",
    "SELECT x.id, count(*) FROM t x JOIN s y ON y.v BETWEEN x.v - 3 AND x.v + 3 GROUP BY x.id",
    "SELECT x.id, (SELECT sum(y.v) FROM s y WHERE y.id BETWEEN x.id - 1 AND x.id) AS w FROM t x",
    "SELECT (SELECT max(v) FROM s WHERE k = 1) AS a, (SELECT max(v) FROM t WHERE k = 1) AS b",
    "SELECT x.id, y.k FROM s x LEFT JOIN t y ON x.id = y.id",
    "WITH t AS (SELECT id, k, v FROM s) SELECT x.id, y.v FROM t x JOIN s y ON x.id = y.id",
    "SELECT * FROM s x JOIN t y USING (id)",
)
share = at_least(0.3)


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Iterator[SparkSession]:
    """A database with the table t, and another one of that name."""
    session = for_few_rows(spark)
    for database, shift in (("views", 0), ("other", 1)):
        session.sql(f"CREATE DATABASE {database}")
        row = f"id + {shift} AS id, nullif(CAST(id % 4 AS INT), 3) AS k, IF(id = 7, NULL, CAST(id * 3 AS INT)) AS v"
        session.sql(f"CREATE TABLE {database}.t USING parquet AS SELECT {row} FROM range(24)")
    session.sql("USE views")
    yield session
    session.sql("USE default")
    for database in ("views", "other"):
        session.sql(f"DROP DATABASE {database} CASCADE")


@pytest.mark.hypothesis
@settings(max_examples=examples(1 / 2))
@given(
    view=st.sampled_from(VIEWS),
    query=st.sampled_from(QUERIES),
    kind=st.sampled_from(["VIEW", "TEMP VIEW"]),
    key=st.booleans(),
)
@example(view=VIEWS[0], query=QUERIES[0], kind="VIEW", key=True)
@example(view=VIEWS[9], query=QUERIES[1], kind="TEMP VIEW", key=True)
def test_a_view_beside_its_table(
    tables: SparkSession, share: Share, view: str, query: str, kind: str, key: bool
) -> None:
    tables.sql("DROP VIEW IF EXISTS s")
    tables.sql(f"CREATE OR REPLACE {kind} s AS {view}")
    try:
        opt = Optimizer(tables, OPTIONS)
        if key:
            opt.declare_key("views.t", ["id"])
        plan = opt.plan(query)
        event(f"rewritten: {plan.rewritten}")
        share.count("inline_views" in plan.rules)
        if plan.rewritten:
            assert_same(tables, query, plan)
    finally:
        tables.sql("DROP VIEW IF EXISTS s")
        if kind == "VIEW":
            tables.sql("DROP VIEW IF EXISTS views.s")
