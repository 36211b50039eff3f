"""The columns that DESCRIBE … AS JSON has of a table are those that Spark's analysis finds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from dovetail.executor.catalog.connect_views import described_columns
from dovetail.executor.catalog.spark_catalog import SparkCatalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
COLUMNS = (
    "a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h DECIMAL(20, 3), i DATE, j TIMESTAMP, "
    "k TIMESTAMP_NTZ, l BINARY, `p.q` INT NOT NULL, R INT, m STRING, n VARCHAR(7), o CHAR(3) NOT NULL, s ARRAY<INT>, "
    "t STRUCT<x: INT>, u MAP<INT, STRING>, v STRING COLLATE UTF8_LCASE, w INTERVAL DAY TO SECOND"
)
ANALYZED = "mnostuvw"
"""Columns whose type only the analysis has: DESCRIBE does not tell CHAR from STRING."""


@pytest.fixture
def catalog(spark: SparkSession) -> Iterator[SparkCatalog]:
    yield SparkCatalog(spark)
    spark.sql("DROP TABLE described")


def describe(spark: SparkSession, columns: str) -> dict[str, Any]:
    spark.sql(f"CREATE TABLE described ({columns}) USING parquet PARTITIONED BY (d)")
    found: dict[str, Any] = json.loads(spark.sql("DESCRIBE TABLE EXTENDED described AS JSON").collect()[0][0])
    return found


def test_columns_of_every_type(spark: SparkSession, catalog: SparkCatalog) -> None:
    found = described_columns(describe(spark, COLUMNS))
    expected = catalog.columns(("described",))
    assert found is not None
    assert expected is not None
    assert [(c.name, c.type) for c in found] == [(c.name, None if c.name in ANALYZED else c.type) for c in expected]
    assert [c.name for c in found] == spark.table("described").columns


def test_no_columns() -> None:
    assert described_columns({}) is None
