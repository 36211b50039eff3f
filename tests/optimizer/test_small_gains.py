"""Joins over files that Spark plans well: planning counts and samples their rows, and leaves them to Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dovetail import Optimizer

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

ROWS = 30_000
BAND = "FROM small_e e JOIN small_s s ON e.x BETWEEN s.lo AND s.hi"
OVERLAP = "a.lo <= b.hi AND b.lo <= a.hi"


@pytest.fixture(scope="module")
def optimizer(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Optimizer:
    """An optimizer of tables of 30,000 rows as files: 10 rows have the same k, sorted by it, and 1,000 the same g."""
    session = spark.newSession()
    folder: Path = tmp_path_factory.mktemp("small_gains")
    keys, x = "id, id DIV 10 AS k, id DIV 1000 AS g", f"pmod(xxhash64(id), {10 * ROWS})"
    tables = {
        "small_e": f"SELECT {keys}, {x} AS x FROM range(0, {ROWS}, 1, 1)",
        "small_s": f"SELECT {keys}, {x} AS lo, {x} + 20 AS hi FROM range(0, {ROWS}, 1, 1)",
        "small_d": f"SELECT id, id * {2 * ROWS} AS lo, (id + 1) * {2 * ROWS} - 1 AS hi FROM range(0, 5, 1, 5)",
    }
    for name, query in tables.items():
        session.sql(query).write.parquet(str(folder / name))
        session.read.parquet(str(folder / name)).createOrReplaceTempView(name)
    return Optimizer(session)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"SELECT e.id, s.g {BAND} WHERE e.id = 77", "up to 3e+04 pairs, so few rows"),
        (
            f"SELECT e.id, s.g {BAND} JOIN small_d d ON d.id = s.g WHERE e.id IN (77, 78)",
            "up to 6e+04 pairs, so few rows",
        ),
        (f"SELECT e.id, s.g {BAND} AND s.id < 3", "up to 9e+04 pairs, so few rows"),
        (
            "SELECT e.id FROM small_e e LEFT JOIN small_d d ON e.x BETWEEN d.lo AND d.hi",
            "so few rows",
        ),
        (f"SELECT a.id FROM small_s a JOIN small_s b ON a.k = b.k AND {OVERLAP}", "have equal keys"),
        (
            "SELECT e.id FROM small_e e WHERE EXISTS (SELECT 1 FROM small_e f WHERE f.k = e.k AND f.x <> e.x)",
            "equal keys",
        ),
    ],
)
def test_few_pairs_stay_with_spark(optimizer: Optimizer, text: str, reason: str) -> None:
    plan = optimizer.plan(text)
    assert not plan.rewritten
    assert reason in " | ".join(declined.reason for declined in plan.declined)


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT e.id, s.g {BAND}",
        f"SELECT e.id, s.g {BAND} WHERE e.id > 77",
        f"SELECT a.id FROM small_s a JOIN small_s b ON a.g = b.g AND {OVERLAP}",
        "SELECT e.id FROM small_e e WHERE EXISTS (SELECT 1 FROM small_e f WHERE f.g = e.g AND f.x < e.x)",
    ],
)
def test_many_pairs_are_rewritten(optimizer: Optimizer, text: str) -> None:
    assert optimizer.plan(text).rewritten
