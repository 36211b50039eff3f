"""Planning asks Spark what may fail, and PySpark's log of it is not the user's; that of the user's own errors is."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger

from dovetail import Optimizer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture
def logged() -> Iterator[list[logging.LogRecord]]:
    """What PySpark logs of errors in queries."""
    found: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = found.append  # type: ignore[method-assign, assignment]
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    before, logger.disabled = logger.disabled, False
    logger.addHandler(handler)
    yield found
    logger.removeHandler(handler)
    logger.disabled = before


def test_an_error_is_logged_once(spark: SparkSession, logged: list[logging.LogRecord]) -> None:
    session = spark.newSession()
    session.sql("CREATE TEMPORARY VIEW p AS SELECT 1 AS id, 2 AS x")
    session.sql("CREATE TEMPORARY VIEW i AS SELECT 1 AS lo, 3 AS hi")
    text = "SELECT p.id, i.none FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi AND nothing(p.id) > 0"
    plan = Optimizer(session).plan(text)
    assert not logged
    with pytest.raises(PySparkException):
        plan.dataframe()
    assert len(logged) == 1
