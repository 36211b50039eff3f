"""The joins of the matrix of docs/coverage.md return what plain Spark returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from comparing import assert_same, few_rows
from docs.programs.join_shapes import CATALOG, KINDS, SHAPES, statement
from dovetail import Optimizer, Options
from dovetail.planner.offline_catalog.read_catalog import read_catalog
from sessions import for_few_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Any:
    session = for_few_rows(spark)
    for table in read_catalog(CATALOG).tables:
        few_rows(session, table.name[-1], table.query())
    return session


@pytest.mark.parametrize("shape", SHAPES)
def test_each_kind_of_join(session: SparkSession, shape: str) -> None:
    query = " UNION ALL ".join(f"SELECT '{kind}' AS kind, * FROM ({statement(shape, kind)})" for kind in KINDS)
    assert_same(session, query, Optimizer(session, Options(force=True)).plan(query))
    assert session.sql(statement(shape, "inner")).count() > 0
