"""Bands of a time and of counts of it (seconds since 1970, days), in joins of every kind and zones with summer time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from comparing import assert_same
from dovetail import Optimizer, Options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMES = (
    *(
        f"2024-11-0{day} {hour}"
        for day in (2, 3, 4)
        for hour in ("00:00:00", "01:30:00", "04:30:00", "23:59:59.999999")
    ),
    *(
        "2024-11-03 05:45:00",
        "2024-11-03 06:15:00.5",
        "2024-03-10 06:59:59",
        "2024-03-10 07:00:00",
        "2024-03-11 03:00:00",
    ),
    *("1969-12-31 23:59:58.5", "1970-01-01 00:00:00.25", "1970-01-01 00:00:00.75", "1970-01-01 00:59:59"),
    *("0001-01-02 00:00:00", "0001-01-03 12:00:00", "9999-12-30 00:00:00", "9999-12-30 18:00:00.000001"),
)
CONDITIONS = (
    "datediff(a.t, b.t) = 1",
    "floor((unix_timestamp(a.t) - unix_timestamp(b.t)) / 3600) = 0",
    "timestampdiff(HOUR, b.t, a.t) IN (0, 2)",
    "unix_timestamp(a.t) - unix_timestamp(b.t) BETWEEN 0 AND 3600",
    "abs(unix_millis(a.t) - unix_millis(b.t)) <= 1500",
    "b.t <= a.t AND unix_timestamp(a.t) - unix_timestamp(b.t) <= 3600",
    "b.t < a.t AND CAST(a.t AS BIGINT) - CAST(b.t AS BIGINT) < 5400",
    "b.t <= a.t AND (unix_millis(a.t) - unix_millis(b.t)) / 60000 <= 90",
    "b.t <= a.t AND floor((unix_seconds(a.t) - unix_seconds(b.t)) / 3600) <= 1",
    "b.t <= a.t AND CAST(a.t AS DOUBLE) - CAST(b.t AS DOUBLE) <= 0.5",
    "b.t <= a.t AND to_unix_timestamp(b.t) >= to_unix_timestamp(a.t) - 3600",
    "b.t <= a.t AND datediff(a.t, b.t) <= 1",
    "b.t <= a.t AND datediff(a.t, b.t) / 7 < 0.2",
    "b.t <= a.t AND CAST(a.t AS DATE) <= date_add(b.t, 1)",
    "b.t <= a.t AND to_date(b.t) >= CAST(a.t AS DATE) - 1",
    "a.t >= b.d AND CAST(a.t AS DATE) <= b.d + 1",
    "a.t >= b.d AND datediff(b.d, a.t) >= 0",
    "b.t <= a.t AND unix_timestamp(a.t) - unix_timestamp(b.t) <= 60 * b.n",
    "b.t <= a.t AND (unix_timestamp(a.t) - unix_timestamp(b.t)) / 60 <= b.n",
    "(unix_timestamp(a.t) - unix_timestamp(b.t)) / 60 BETWEEN 0 AND a.n",
    "b.t <= a.t AND datediff(a.t, b.t) <= b.n / 60",
    "a.t < b.d AND date_add(CAST(a.t AS DATE), 1) >= b.d",
)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kathmandu"])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_joins_by_times_and_their_counts(spark: SparkSession, condition: str, zone: str) -> None:
    own = spark.newSession()
    own.conf.set("spark.sql.ansi.enabled", str(zone != "UTC").lower())
    own.conf.set("spark.sql.session.timeZone", zone)
    rows = ", ".join(f"({id_}, TIMESTAMP '{time} UTC')" for id_, time in enumerate(TIMES))
    rows = f"{rows}, ({len(TIMES)}, NULL)"
    n = "CASE id % 5 WHEN 0 THEN NULL WHEN 1 THEN double('NaN') ELSE 45D * (id % 5 - 2) END"
    own.sql(
        f"CREATE TEMPORARY VIEW times AS SELECT id, t, CAST(t AS DATE) AS d, {n} AS n FROM VALUES {rows} AS v(id, t)"
    )
    optimizer = Optimizer(own, Options(force=True))
    for kind in ("", "LEFT", "FULL", "LEFT ANTI"):
        items = "a.id" if kind == "LEFT ANTI" else "a.id, b.id AS other"
        query = f"SELECT {items} FROM times a {kind} JOIN times b ON {condition}"
        plan = optimizer.plan(query)
        assert plan.rewritten, plan.explain()
        assert_same(own, query, plan)


@pytest.mark.parametrize(
    "condition",
    [
        "b.t <= a.t AND unix_timestamp(a.t) <= b.id + 300",  # the count of one time
        "b.t <= a.t AND 300 - unix_timestamp(a.t) >= -b.id",
        "b.t <= a.t AND date_format(a.t, 'D') - date_format(b.t, 'D') <= 1",
        "b.t <= a.t AND to_date(a.s, 'yyyy') <= b.d",
    ],
)
def test_other_counts_are_left_to_spark(spark: SparkSession, condition: str) -> None:
    table = "(SELECT id, timestamp_seconds(id) AS t, string(id) AS s, date_from_unix_date(INT(id)) AS d FROM range(3))"
    plan = Optimizer(spark, Options(force=True)).plan(f"SELECT a.id FROM {table} a JOIN {table} b ON {condition}")
    assert not plan.rewritten
    assert any("one side only" in no.reason for no in plan.declined), plan.explain()
