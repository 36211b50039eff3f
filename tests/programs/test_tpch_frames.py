"""TPC-H as DataFrames under `install(frames=True)`: the rows of its SQL in plain Spark, the plans of `dataframe`."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dovetail import Optimizer, Options
from programs.tpch_frames import QUERIES
from tpc import data
from tpc.compare import assert_same_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM = Path(__file__).parents[1] / "connect_tpch_main.py"
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


@pytest.mark.connect
def test_the_same_queries_on_spark_connect(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAM), str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout[done.stdout.index("{") :])
    assert found == {"rewritten": sorted(REWRITTEN), "wrong": []}
