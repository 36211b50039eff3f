"""Quotients of every DOUBLE with every other: signs, zeros, extremes, infinities, NaN and NULL; joins of every kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from comparing import assert_same
from dovetail import Optimizer, Options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NUMBERS = (
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
CONDITIONS = (
    "abs(a.x - b.x) / b.x <= 0.2",
    "100 * abs(b.x - a.x) / nullif(b.x, 0) < 30",
    "try_divide(a.x - b.x, b.x) BETWEEN -5 AND 5",
    "a.x / b.x BETWEEN 0.9 AND 1.1",
    "abs(a.x / b.x - 1) <= 0.1",
    "1 - a.x / b.x BETWEEN -0.1 AND 0.1",
    "1 - a.x / b.x <= 0.1 AND a.x <= b.x",
    "a.x / b.x <= 1.5 AND a.x >= b.x",
)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_joins_by_quotients(spark: SparkSession, condition: str) -> None:
    own = spark.newSession()
    own.conf.set("spark.sql.ansi.enabled", "false")
    rows = ", ".join(f"({id_}, {number})" for id_, number in enumerate(NUMBERS))
    own.sql(f"CREATE TEMPORARY VIEW numbers AS SELECT * FROM VALUES {rows} AS v(id, x)")
    optimizer = Optimizer(own, Options(force=True))
    for kind in ("", "LEFT", "FULL", "LEFT ANTI"):
        items = "a.id" if kind == "LEFT ANTI" else "a.id, b.id AS other"
        query = f"SELECT {items} FROM numbers a {kind} JOIN numbers b ON {condition}"
        plan = optimizer.plan(query)
        assert plan.rewritten, plan.explain()
        assert_same(own, query, plan)
