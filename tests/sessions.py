"""The sessions that the tests run on; one process holds one."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

from pyspark.sql import SparkSession

from execution import follow_tests

MASTERS = {"classic": "local[2]", "cluster": "local-cluster[2,1,1024]", "connect": "local[2]"}


def start(where: str, scratch: Path, **settings: str) -> SparkSession:
    """Start a small, quiet session that writes nowhere but below `scratch`."""
    os.environ["PYSPARK_PYTHON"] = settings.get("spark.pyspark.python", sys.executable)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.appName(f"dovetail-tests-{where}")
    builder = (builder.remote if where == "connect" else builder.master)(MASTERS[where])
    always = {
        "spark.buffer.pageSize": "512k",  # tens of MB are taken, and zeroed, for each sort and hash table of a few rows
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={scratch / 'derby'}",
        "spark.local.dir": str(scratch / "local"),
        "spark.log.level": "OFF",
        "spark.pyspark.python": sys.executable,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    for name, value in (always | settings).items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        # A Connect client sets all of them once more on the server it has started with them.
        warnings.filterwarnings("ignore", "Failed to set spark", UserWarning)
        return builder.getOrCreate()


def for_few_rows(spark: SparkSession) -> SparkSession:
    """A session of its own for queries over a few rows; `tests/execution.py` says how each test runs them."""
    own = spark.newSession()
    follow_tests(own)
    return own


def with_points_and_intervals(spark: SparkSession) -> SparkSession:
    """Such a session with the views `p (x)` of 100 points and `i (lo, hi)` of 100 intervals."""
    own = for_few_rows(spark)
    own.range(100).selectExpr("id AS x").createOrReplaceTempView("p")
    own.range(100).selectExpr("id AS lo", "id + 3 AS hi").createOrReplaceTempView("i")
    return own
