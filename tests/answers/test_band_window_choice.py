"""When a band of a table's own rows becomes a window, and when the join is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from comparing import assert_same
from dovetail import Optimizer, Options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BAND = "y.k = x.k AND y.ts BETWEEN x.ts - 60 AND x.ts"
SUBQUERY = f"SELECT x.id, (SELECT count(*) FROM events y WHERE {BAND}) AS n FROM events x"
GROUPED = f"SELECT x.id, count(*) AS n FROM events x JOIN events y ON {BAND}"


@pytest.fixture
def events(session: SparkSession) -> SparkSession:
    """A session with 5,000 events of 50 users."""
    session.conf.set("spark.sql.ansi.enabled", "true")
    session.range(5000).createOrReplaceTempView("numbers")
    rows = "SELECT id, CAST(id % 50 AS INT) AS k, id * 7 AS ts, CAST(id % 1000 AS INT) AS v FROM numbers"
    session.sql(f"CREATE OR REPLACE TEMPORARY VIEW events AS {rows}")
    return session


@pytest.mark.parametrize(
    ("query", "windowed"),
    [
        (SUBQUERY, True),
        (f"{GROUPED} GROUP BY x.id", True),
        (f"{SUBQUERY} WHERE x.v >= 100", True),
        (f"{SUBQUERY} WHERE x.v = 7", False),
        (SUBQUERY.replace("count(*)", "max(y.v)"), True),
        (SUBQUERY.replace("count(*)", "max(y.v)") + " WHERE x.v >= 100", False),
        (f"{GROUPED} WHERE x.v = 7 GROUP BY x.id", False),
        (f"{GROUPED} WHERE y.v = 7 GROUP BY x.id", False),
        (f"{GROUPED} WHERE x.v >= 100 AND y.v >= 100 GROUP BY x.id", True),
        (SUBQUERY.replace("y.k = x.k AND ", ""), True),
    ],
)
def test_few_rows_asked_about_are_joined(events: SparkSession, query: str, *, windowed: bool) -> None:
    plan = Optimizer(events, Options(strict=True)).plan(query)
    assert ("BandWindow" in plan.explain()) == windowed, plan.explain("cost")
    assert_same(events, query, plan)


def test_so_many_rows_are_not_sorted_by_one_task(events: SparkSession) -> None:
    query = SUBQUERY.replace("y.k = x.k AND ", "")
    plan = Optimizer(events, Options(one_task_window_rows=4_000)).plan(query)
    assert "BandWindow" not in plan.explain()
    assert "one_task_window_rows" in plan.explain("cost")


def test_the_rules_can_be_switched_off(events: SparkSession) -> None:
    for query in (SUBQUERY, f"{GROUPED} GROUP BY x.id"):
        options = Options(force=True, disabled_rules=("band_subquery", "band_groups"))
        assert "BandWindow" not in Optimizer(events, options).plan(query).explain()
