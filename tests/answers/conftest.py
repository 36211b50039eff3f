"""A session for random queries over a few rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """A session with views and settings of its own; a few rows repay neither a compiler nor a second planning."""
    own = spark.newSession()
    own.conf.set("spark.sql.codegen.wholeStage", "false")
    own.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    own.conf.set("spark.sql.adaptive.enabled", "false")
    return own
