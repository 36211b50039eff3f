from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dovetail import Optimizer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def opt(spark: SparkSession) -> Optimizer:
    """An optimizer on a session of its own."""
    return Optimizer(spark.newSession())
