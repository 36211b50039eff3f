"""Types that are told without Spark are those that Spark tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dovetail.executor.catalog.spark_catalog import SparkCatalog
from dovetail.planner.bind.names import Resolver, Source
from dovetail.planner.expr import Scalar
from dovetail.planner.types.schema import Column, sql_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES = (
    *("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"),
    *("DECIMAL(5,2)", "DECIMAL(30,2)", "DECIMAL(38,0)", "DECIMAL(38,10)", "DECIMAL(36,35)", "DECIMAL(38,38)"),
)


@pytest.mark.parametrize("type_", TYPES)
def test_aggregates(spark: SparkSession, type_: str) -> None:
    names = Resolver(SparkCatalog(spark), {})
    sources = (Source(("t",), (Column("v", sql_type(type_.lower())),)),)
    asked = ("sum(v)", "avg(v)", "min(v)", "max(v)", "count(v)", "sum(DISTINCT v)")
    found = spark.sql(f"SELECT {', '.join(asked)} FROM (SELECT CAST(NULL AS {type_}) AS v)").schema
    for item, field in zip(asked, found, strict=True):
        told = names.type_of(Scalar(item).tree, sources)
        assert told is None or told == sql_type(field.dataType.simpleString()), item
        assert told is not None or "DISTINCT" in item


@pytest.mark.parametrize("keyword", ["UNION", "UNION ALL", "INTERSECT", "EXCEPT"])
@pytest.mark.parametrize("other", ["INT", "BIGINT", "STRING"])
def test_set_operations(spark: SparkSession, keyword: str, other: str) -> None:
    from dovetail.planner.sql.from_sql import from_sql

    text = f"SELECT CAST(1 AS INT) AS a, 'x' AS b {keyword} SELECT CAST(2 AS {other}), 'y'"
    query, _ = from_sql(text)
    columns = Resolver(SparkCatalog(spark), {}).columns(query)
    assert columns is not None
    assert [c.name for c in columns] == ["a", "b"]
    for column, field in zip(columns, spark.sql(text).schema, strict=True):
        assert column.type in (None, sql_type(field.dataType.simpleString()))
    assert (columns[0].type is None) == (other != "INT")
