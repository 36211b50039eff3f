"""Quotients, parts and multiples of differences of every number with every other, in joins of every kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from comparing import assert_same
from dovetail import Optimizer, Options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOUBLES = (
    "0D",
    "-0.0D",
    "1D",
    "-1D",
    "1.1D",
    "0.9D",
    "5D",
    "-3D",
    "1e300D",
    "-1.5e300D",
    "1e308D",
    "-1e308D",
    "double('Infinity')",
    "double('-Infinity')",
    "double('NaN')",
    "CAST(NULL AS DOUBLE)",
)
INTEGERS = (*map(str, range(-7, 8)), "60", "61", "119", "120", "-60", "-61", "CAST(NULL AS INT)")
DECIMALS = ("0.00", "0.01", "-0.01", "0.50", "1.49", "1.50", "2.51", "-1.50", "-2.49", "99999.99", "-99999.99")
QUOTIENTS = (
    "abs(a.x - b.x) / b.x <= 0.2",
    "100 * abs(b.x - a.x) / nullif(b.x, 0) < 30",
    "try_divide(a.x - b.x, b.x) BETWEEN -5 AND 5",
    "a.x / b.x BETWEEN 0.9 AND 1.1",
    "abs(a.x / b.x - 1) <= 0.1",
    "1 - a.x / b.x BETWEEN -0.1 AND 0.1",
    "1 - a.x / b.x <= 0.1 AND a.x <= b.x",
    "a.x / b.x <= 1.5 AND a.x >= b.x",
)
SCALED = (
    "a.x - b.x BETWEEN 0 AND 0.5",
    "a.x - b.x >= -1 AND a.x - b.x < 0.5",
    "1 > b.x - a.x AND b.x - a.x >= 0",
    "(a.x - b.x) * 2 BETWEEN 0 AND 4.5",
    "(a.x - b.x) / 3 <= 1 AND (a.x - b.x) / 3 > -0.5",
    "(a.x - b.x) / -3 <= 1 AND a.x <= b.x",
    "10 - 2 * (a.x - b.x) BETWEEN 8 AND 10",
    "a.x - b.x = 1",
    "2 * (a.x - b.x) IN (1, 4, -2)",
    "-2 = (a.x - b.x) / 0.5",
    "abs(a.x - b.x) = 1",
    "round(a.x - b.x, 1) BETWEEN 0 AND 1",
    "bround(a.x - b.x) >= 0 AND bround(a.x - b.x) <= 1",
    "CAST(a.x - b.x AS DOUBLE) / 3 <= b.x AND a.x >= b.x",
)
CUT = (
    "floor((a.x - b.x) / 3) BETWEEN 0 AND 1",
    "ceil((a.x - b.x) / 60) BETWEEN -1 AND 0",
    "round((a.x - b.x) / 60, 1) <= 0.1 AND a.x >= b.x",
    "TRY_CAST((a.x - b.x) / 4 AS INT) BETWEEN -1 AND 1",
    "abs(round((a.x - b.x) / 7)) <= 1",
    "floor((a.x - b.x) / 7) = 0",
    "abs(TRY_CAST((a.x - b.x) / 2 AS INT)) IN (0, 2)",
    "CAST(a.x - b.x AS DOUBLE) / 60 BETWEEN 0 AND 1",
    "CAST(a.x - b.x AS DOUBLE) / 3 BETWEEN -1 AND b.x",
    "round(a.x - b.x) >= -2 AND floor(2 * (a.x - b.x)) <= 1",
)
CASES = [
    *((DOUBLES, condition) for condition in (*QUOTIENTS, *SCALED)),
    *((INTEGERS, condition) for condition in (*SCALED, *CUT, "(a.x - b.x) DIV 4 BETWEEN -1 AND 1")),
    *((DECIMALS, condition) for condition in (*SCALED, *CUT)),
]


@pytest.mark.parametrize(("numbers", "condition"), CASES, ids=[f"{n[4]} {c}" for n, c in CASES])
def test_joins_by_functions_of_differences(spark: SparkSession, numbers: tuple[str, ...], condition: str) -> None:
    own = spark.newSession()
    own.conf.set("spark.sql.ansi.enabled", str(numbers is INTEGERS).lower())
    rows = ", ".join(f"({id_}, {number})" for id_, number in enumerate(numbers))
    own.sql(f"CREATE TEMPORARY VIEW numbers AS SELECT * FROM VALUES {rows} AS v(id, x)")
    optimizer = Optimizer(own, Options(force=True))
    for kind in ("", "LEFT", "FULL", "LEFT ANTI"):
        items = "a.id" if kind == "LEFT ANTI" else "a.id, b.id AS other"
        query = f"SELECT {items} FROM numbers a {kind} JOIN numbers b ON {condition}"
        plan = optimizer.plan(query)
        assert plan.rewritten, plan.explain()
        assert_same(own, query, plan)


@pytest.mark.parametrize(
    "condition",
    [
        "floor(a.x - b.x) BETWEEN 0 AND 1",
        "a.x - b.x >= 0 AND b.x >= a.x - 2",
        "(a.x - b.x) / 3 BETWEEN -1 AND b.x",  # NaN is not greater than NaN
        "a.x - b.x BETWEEN 0 AND b.x",
    ],
)
def test_where_nan_passes_the_join_is_left_to_spark(spark: SparkSession, condition: str) -> None:
    query = f"SELECT * FROM VALUES (1D) AS a(x) JOIN (SELECT double('NaN') AS x) b ON {condition}"
    plan = Optimizer(spark, Options(force=True)).plan(query)
    assert not plan.rewritten
    assert any("NaN" in no.reason or "mixes both sides" in no.reason for no in plan.declined), plan.explain()
