"""Measures the overhead of a repeated statement over Spark's analysis of its text.

One optimizer sees each statement over and over. Timed are `opt.sql(text)` and, in turn with it, `spark.sql(text)` of a
session without an optimizer; nothing runs. The statements: TPC-H, two bands over 3 million rows each, whose planning
measures, and a join of two tables of 200 files.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks import harness
from dovetail import Optimizer
from tests.tpc import data

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

TARGET = 0.015
SCALE = 0.01
TITLE = "Again: a statement that comes again, beyond Spark's analysis of its text"
TWO_BANDS = """
SELECT a.id, b.id AS b, c.id AS c
FROM points a JOIN spans b ON a.x BETWEEN b.lo AND b.hi JOIN spans c ON a.x BETWEEN c.lo AND c.hi AND b.k = c.k
"""
FILES = "SELECT a.id, b.x FROM many a JOIN more b ON a.id = b.id WHERE a.x > 3"


def main() -> None:
    args = harness.arguments("again", __doc__ or "")
    rounds, rows, files = (3, 30_000, 20) if args.quick else (15, 3_000_000, 200)
    report = harness.Report("again", TITLE, args.quick)
    with harness.session("again") as spark, tempfile.TemporaryDirectory() as folder:
        statements = {f"TPC-H {name}": text for name, text in data.queries("tpch").items()}
        data.register(spark, "tpch", SCALE)
        made(spark, Path(folder), rows, files)
        statements |= {f"two bands, {rows:,} rows": TWO_BANDS, f"two tables of {files} files": FILES}
        found = {name: measured(spark, text, rounds) for name, text in statements.items()}
        ms = harness.milliseconds
        report.table(
            f"Warm (target: at most {ms(TARGET)} beyond Spark)",
            ("statement", "rewritten", "first", "second", "again", "Spark's analysis", "beyond it"),
            [
                (
                    name,
                    "yes" if rewritten else "",
                    ms(first),
                    ms(second),
                    ms(again),
                    ms(own),
                    report.judged(ms(again - own), again - own <= TARGET),
                )
                for name, (rewritten, first, second, again, own) in found.items()
            ],
        )
        report.note(
            f"{harness.medians(rounds)}, in turn. TPC-H is of scale {SCALE:g}, Parquet files as temporary views."
        )
        report.write(spark)


def made(spark: SparkSession, folder: Path, rows: int, files: int) -> None:
    """The tables, as temporary views over files."""
    low = f"id * 104729 % {10 * rows}"
    spread = f"id, id * 7919 % {10 * rows} AS x, id % 1000 AS k"
    tables = {
        "points": (spread, rows, 4),
        "spans": (f"id, {low} AS lo, {low} + id % 50 AS hi, id % 1000 AS k", rows, 4),
        "many": (spread, 10 * files, files),
        "more": (spread, 10 * files, files),
    }
    for name, (items, count, parts) in tables.items():
        path = str(folder / name)
        spark.range(0, count, 1, parts).selectExpr(*items.split(", ")).write.parquet(path)
        spark.read.parquet(path).createOrReplaceTempView(name)


def measured(spark: SparkSession, text: str, rounds: int) -> tuple[bool, float, float, float, float]:
    """Whether a statement is rewritten; seconds of the first call, of the second, of later ones, and of Spark's own."""
    spark.sql(text)
    optimizer = Optimizer(spark)
    calls = [timed(lambda: optimizer.sql(text)) for _ in range(2)]
    ways = {"again": lambda: optimizer.sql(text), "own": lambda: spark.sql(text)}
    times = harness.in_turn(ways, warm_up=2, rounds=rounds)
    return optimizer.plan(text).rewritten, calls[0], calls[1], median(times["again"]), median(times["own"])


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
