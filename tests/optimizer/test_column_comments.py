"""Comments, defaults and lengths of CHAR that a rewriting returns as the statement does, and the order of its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dovetail import Optimizer, Options
from sessions import for_few_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

PAIRS = "SELECT x.id, y.v, y.note AS n FROM commented x JOIN commented y ON x.id = y.id"
LATEST = """SELECT x.id, y.note FROM commented x,
LATERAL (SELECT y.note FROM commented y WHERE y.v <= x.v ORDER BY y.v DESC LIMIT 1) y"""


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    own = for_few_rows(spark)
    own.sql("DROP TABLE IF EXISTS commented")
    own.sql(
        "CREATE TABLE commented (id INT COMMENT 'number', v INT DEFAULT 3, note VARCHAR(9) COMMENT 'text') "
        "USING parquet"
    )
    own.sql("INSERT INTO commented SELECT id, (id * 7) % 20, concat('n', id) FROM range(20)")
    yield own
    own.sql("DROP TABLE commented")


def _optimizer(session: SparkSession) -> Optimizer:
    optimizer = Optimizer(session, Options(force=True, strict=True))
    optimizer.declare_key("commented", ["id"])
    return optimizer


@pytest.mark.parametrize("query", [PAIRS, LATEST])
@pytest.mark.parametrize("order", ["", "\nORDER BY x.v DESC, x.id", "\nORDER BY x.v DESC, x.id LIMIT 7"])
def test_a_query(session: SparkSession, query: str, order: str) -> None:
    plan = _optimizer(session).plan(query + order)
    assert plan.rewritten, plan.declined
    found, wanted = plan.dataframe(), session.sql(query + order)
    assert found.schema.json() == wanted.schema.json()
    rows, expected = found.collect(), wanted.collect()
    assert rows == expected if order else sorted(map(str, rows)) == sorted(map(str, expected))
    assert "Union" not in found._jdf.queryExecution().executedPlan().toString() or query == LATEST


@pytest.mark.parametrize("query", [PAIRS, LATEST])
def test_a_new_table(session: SparkSession, query: str) -> None:
    schemas = []
    for run in (session.sql, _optimizer(session).sql):
        session.sql("DROP TABLE IF EXISTS copied")
        run(f"CREATE TABLE copied USING parquet AS {query}")
        schemas.append(session.table("copied").schema.json())
    session.sql("DROP TABLE copied")
    assert schemas[0] == schemas[1]
    assert "number" in schemas[0]


def test_a_relation_of_the_query_has_its_name(session: SparkSession) -> None:
    found = _optimizer(session).sql(PAIRS)
    assert found.select("y.v").collect() == session.sql(PAIRS).select("y.v").collect()


@pytest.mark.parametrize("order", ["", " ORDER BY x.v DESC, x.id"])
def test_columns_of_one_name_are_left_to_spark(session: SparkSession, order: str) -> None:
    """Spark fails to optimize a union whose first query sorts such columns."""
    query = PAIRS.replace("x.id, y.v", "x.id, x.id AS id, y.v") + order
    plan = _optimizer(session).plan(query)
    assert "would lose its comment" in plan.declined[-1].reason
    assert sorted(plan.dataframe().collect()) == sorted(session.sql(query).collect())
