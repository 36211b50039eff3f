"""Which queries return the same rows when they are read twice, as Spark's analyzed plan tells."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from dovetail.executor.catalog.spark_catalog import SparkCatalog

EXACT = [
    "SELECT k, sum(i), avg(d), count(*), max(r) FROM v GROUP BY k",
    "SELECT sum(n) FROM (SELECT k, sum(i + d) AS n FROM v GROUP BY k)",
    "SELECT * FROM v WHERE i > (SELECT avg(i) FROM v)",
]
BY_ORDER = [
    ("SELECT k, sum(r) FROM v GROUP BY k", "sum"),
    ("SELECT k, sum(i), avg(r) FROM v GROUP BY k", "sum"),
    ("SELECT k, try_sum(r) FROM v GROUP BY k", "sum"),
    ("SELECT k, sum(i), first(i) FROM v GROUP BY k", "first"),
    ("SELECT * FROM v WHERE i > (SELECT sum(r) FROM v)", "sum"),
    ("SELECT * FROM v LIMIT 1", "Limit"),
]


@pytest.fixture(scope="module")
def catalog(spark: SparkSession) -> Any:
    """A catalog with a view of integers, decimals and reals."""
    session = spark.newSession()
    columns = "id AS k, CAST(id AS INT) AS i, CAST(id AS DECIMAL(8,2)) AS d, CAST(id AS DOUBLE) AS r"
    session.sql(f"CREATE TEMP VIEW v AS SELECT {columns} FROM range(3)")
    return SparkCatalog(session)


@pytest.mark.parametrize("query", EXACT)
def test_exact_sums_are_repeatable(catalog: Any, query: Any) -> None:
    assert catalog.nonrepeatable_reason(query) is None


@pytest.mark.parametrize(("query", "why"), BY_ORDER)
def test_what_hangs_on_the_order_is_not(catalog: Any, query: Any, why: Any) -> None:
    assert why in catalog.nonrepeatable_reason(query)
