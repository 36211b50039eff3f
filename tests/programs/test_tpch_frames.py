"""TPC-H as DataFrames under `install(frames=True)`: the rows of its SQL in plain Spark, the plans of `dataframe`."""

from __future__ import annotations

import logging
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from optimizer import Optimizer, Options
from programs.tpch_frames import QUERIES
from tpc import data
from tpc.compare import assert_same_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.tpc, pytest.mark.thorough]
REWRITTEN = frozenset({"h02", "h17", "h21"})
"""The queries that a rule improves if costs do not count."""


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    data.register(session, "tpch", 0.01)
    return session


def values(rows: list[Any]) -> list[tuple[Any, ...]]:
    """Rows whose decimals are floats: programs multiply by 0.2 where SQL has a decimal."""
    return [tuple(float(v) if isinstance(v, Decimal) else v for v in row) for row in rows]


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_as_dataframes(session: SparkSession, name: str, caplog: pytest.LogCaptureFixture) -> None:
    expected = values(session.sql(data.queries("tpch")[name]).collect())
    opt = Optimizer.install(session, Options(strict=True, force=True), frames=True)
    try:
        frame = QUERIES[name](session)
        caplog.set_level(logging.INFO, "dovetail.plan")
        caplog.clear()
        actual = values(frame.collect())
        logged = [record.message.partition(" in ")[0] for record in caplog.records]
        assert_same_rows(actual, expected)
        assert logged == ["Rewritten"] * (name in REWRITTEN) or "Rewritten" not in logged
        assert (name in REWRITTEN) is opt.plan(frame).rewritten
    finally:
        opt.uninstall()
