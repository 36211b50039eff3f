"""A session for random queries over a few rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessions import for_few_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """A session with views and settings of its own."""
    return for_few_rows(spark)
