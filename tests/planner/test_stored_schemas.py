"""Columns of tables and views, which Spark's catalog stores: the same as its analysis finds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from dovetail.executor.catalog.spark_catalog import SparkCatalog, _columns
from dovetail.executor.catalog.views import Views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ITEMS = "id", "named_struct('a', 1, 'b', array(1)) AS s", "CAST(NULL AS DECIMAL(10, 2)) AS `x y`", "'z' AS ID2"


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    own = spark.newSession()
    own.sql("CREATE TABLE padded (c CHAR(5), v VARCHAR(7), n INT NOT NULL) USING parquet")
    for provider in ("orc", "csv", "json"):
        own.sql(
            f"CREATE TABLE of_{provider} (a INT NOT NULL, d DECIMAL(9, 2), P DATE) USING {provider} PARTITIONED BY (P)"
        )
    own.table("padded").createOrReplaceTempView("of_table")
    own.range(3).selectExpr(*ITEMS).createOrReplaceTempView("computed")
    own.range(3).selectExpr("id", "id + 1 AS id").createOrReplaceTempView("duplicate_names")
    own.range(3).createOrReplaceGlobalTempView("stored_global")
    own.readStream.format("rate").load().createOrReplaceTempView("stream")
    own.sql("CREATE TEMPORARY VIEW written AS SELECT c, n FROM padded")
    own.sql("CREATE VIEW kept (x, y) AS SELECT n, struct(v, n) AS s FROM padded")
    own.sql("CREATE VIEW following WITH SCHEMA EVOLUTION AS SELECT n FROM padded")
    yield own
    for view in ("kept", "following"):
        own.sql(f"DROP VIEW {view}")
    for provider in ("orc", "csv", "json"):
        own.sql(f"DROP TABLE of_{provider}")
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


@pytest.mark.parametrize("name", ["padded", "DEFAULT.padded", "of_orc", "of_csv", "of_json", "written", "kept"])
def test_types_of_tables_and_views(session: SparkSession, name: str) -> None:
    """The analysis has the same types; which columns of a view may be NULL only the analysis knows, which is asked."""
    found = SparkCatalog(session).columns(tuple(name.split("."))) or ()
    analyzed = _columns(session.table(name).schema)
    is_view = name in ("written", "kept")
    assert tuple(replace(column, nullable=column.may_be_null) for column in found) == tuple(
        column if is_view else replace(column, nullable=True) for column in analyzed
    )
    assert Views(session).find_schema(tuple(name.split("."))) is not None


@pytest.mark.parametrize("name", ["following", "missing", "nowhere.of_csv"])
def test_other_relations_are_analyzed(session: SparkSession, name: str) -> None:
    assert Views(session).find_schema(tuple(name.split("."))) is None


def test_each_statement_reads_the_view_of_its_time(session: SparkSession) -> None:
    for item in ("id", "CAST(id AS STRING) AS id"):
        session.range(3).selectExpr(item).createOrReplaceTempView("remade")
        catalog = SparkCatalog(session)
        catalog.view(("remade",))
        assert catalog.columns(("remade",)) == SparkCatalog(session).columns(("remade",))
        assert catalog.columns(("remade",))[0].type.name == ("bigint" if item == "id" else "string")  # type: ignore[index, union-attr]
