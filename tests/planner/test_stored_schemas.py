"""Columns of temporary views of DataFrames, which Spark stores with their schema: the same as its analysis finds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from planner.runtime.catalog import SparkCatalog
from planner.runtime.views import Views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ITEMS = "id", "named_struct('a', 1, 'b', array(1)) AS s", "CAST(NULL AS DECIMAL(10, 2)) AS `x y`", "'z' AS ID2"


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    own = spark.newSession()
    own.sql("CREATE TABLE padded (c CHAR(5), v VARCHAR(7), n INT NOT NULL) USING parquet")
    own.table("padded").createOrReplaceTempView("of_table")
    own.range(3).selectExpr(*ITEMS).createOrReplaceTempView("computed")
    own.range(3).selectExpr("id", "id + 1 AS id").createOrReplaceTempView("duplicate_names")
    own.range(3).createOrReplaceGlobalTempView("stored_global")
    own.readStream.format("rate").load().createOrReplaceTempView("stream")
    own.sql("CREATE TEMPORARY VIEW written AS SELECT c, n FROM padded")
    yield own
    own.catalog.dropGlobalTempView("stored_global")
    own.sql("DROP TABLE padded")


@pytest.mark.parametrize(
    "name",
    [("of_table",), ("computed",), ("COMPUTED",), ("duplicate_names",), ("global_temp", "stored_global"), ("stream",)],
)
def test_stored_schemas_are_those_of_the_analysis(session: SparkSession, name: tuple[str, ...]) -> None:
    views, catalog = Views(session), SparkCatalog(session)
    assert views.find(name) is catalog.view(name) is None
    assert views.find_schema(name) == session.table(".".join(name)).schema
    assert catalog.columns(name) == SparkCatalog(session).columns(name)


@pytest.mark.parametrize("name", [("padded",), ("default", "padded"), ("written",), ("missing",)])
def test_other_relations_are_analyzed(session: SparkSession, name: tuple[str, ...]) -> None:
    views, catalog = Views(session), SparkCatalog(session)
    views.find(name)
    assert views.find_schema(name) is None
    catalog.view(name)
    assert catalog.columns(name) == SparkCatalog(session).columns(name)


def test_each_statement_reads_the_view_of_its_time(session: SparkSession) -> None:
    for item in ("id", "CAST(id AS STRING) AS id"):
        session.range(3).selectExpr(item).createOrReplaceTempView("remade")
        catalog = SparkCatalog(session)
        catalog.view(("remade",))
        assert catalog.columns(("remade",)) == SparkCatalog(session).columns(("remade",))
        assert catalog.columns(("remade",))[0].type.name == ("bigint" if item == "id" else "string")  # type: ignore[index, union-attr]
