"""Programs that stay as they are: what an installed optimizer adds to them, and whether they get its plans.

The programs are the 121 queries of TPC-H and TPC-DS as `spark.sql(text)`, and the 22 of TPC-H as DataFrames.  Whether
any of them, or of the examples of PySpark's reference, answers otherwise is a test (tests/programs, tests/tpc).
"""

from __future__ import annotations

import re
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks import harness
from dovetail import Optimizer
from tests.programs.tpch_frames import QUERIES
from tests.tpc import data

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

MOST_ADDED = 0.005
LEAST_SAME = 0.95
SCALES = {"tpch": 1.0, "tpcds": 1.0}


def main() -> None:
    args = harness.arguments("programs", __doc__ or "", ("sql", "frames", "actions"))
    parts = args.parts or ["sql", "frames", "actions"]
    report = harness.Report("programs", "Programs under an installed optimizer", args.quick)
    scales = dict.fromkeys(SCALES, 0.05) if args.quick else SCALES
    for suite, scale in scales.items():
        data.generate(suite, scale)
    with harness.session("programs") as spark:
        if "sql" in parts:
            for suite, scale in scales.items():
                measure_sql(spark.newSession(), report, suite, scale, 1 if args.quick else 5)
        if "frames" in parts:
            measure_frames(spark.newSession(), report, scales["tpch"], 1 if args.quick else 3)
        if "actions" in parts:
            measure_actions(spark.newSession(), report, 20 if args.quick else 200)
        report.write(spark)


def measure_sql(spark: SparkSession, report: harness.Report, suite: str, scale: float, rounds: int) -> None:
    """What `spark.sql` takes until it returns a DataFrame, with and without an optimizer, and its plans."""
    data.register(spark, suite, scale)
    added, same, rewritten = [], 0, 0
    queries = data.queries(suite)
    beside = Optimizer(spark)
    for query, text in queries.items():
        times = _in_turn(spark, lambda text=text: spark.sql(text), rounds, frames=False)  # type: ignore[misc]
        expected = beside.sql(text)
        opt = Optimizer.install(spark)
        same += _plan(spark.sql(text)) == _plan(expected)
        opt.uninstall()
        if beside.plan(text).rewritten:
            rewritten += 1
        else:
            added.append(times["installed"] - times["plain"])
        harness.console.print(query, *(f"{name} {1000 * t:.1f} ms" for name, t in times.items()), highlight=False)
    share = same / len(queries)
    report.table(
        f"spark.sql of {suite}, {len(queries)} queries, until it returns",
        ("the plan of opt.sql", "rewritten", "added where nothing is: median", "p95"),
        [
            (
                report.judged(f"{same} of {len(queries)}", share >= LEAST_SAME),
                str(rewritten),
                report.judged(harness.milliseconds(median(added)), median(added) <= MOST_ADDED),
                harness.milliseconds(harness.percentile(added, 95)),
            )
        ],
    )


def measure_frames(spark: SparkSession, report: harness.Report, scale: float, rounds: int) -> None:
    """TPC-H as DataFrames, to the last row, with and without `frames=True`."""
    data.register(spark, "tpch", scale)
    rows = []
    total = {"installed": 0.0, "plain": 0.0}
    for name, query in QUERIES.items():
        times = _in_turn(spark, lambda query=query: harness.run(query(spark)), rounds, frames=True)  # type: ignore[misc]
        rewritten = Optimizer(spark).plan(query(spark)).rewritten
        total = {way: total[way] + times[way] for way in total}
        ratio = times["installed"] / times["plain"]
        rows.append(_row(name, "yes" if rewritten else "no", times, f"{ratio:.2f}"))
        harness.console.print(*rows[-1], highlight=False)
    ratio = total["installed"] / total["plain"]
    rows.append(_row("total", "", total, f"{ratio:.3f}"))
    report.table("TPC-H as DataFrames", ("query", "rewritten", "installed", "plain Spark", "ratio"), rows)


def measure_actions(spark: SparkSession, report: harness.Report, rounds: int) -> None:
    """An action of a DataFrame that joins nothing, with and without `frames=True`."""
    frame = spark.range(100).filter("id > 3").groupBy().count()
    times = _in_turn(spark, frame.collect, rounds, frames=True)
    added = times["installed"] - times["plain"]
    report.table(
        "An action of a DataFrame without a join",
        ("installed", "plain Spark", "added"),
        [(*map(harness.milliseconds, times.values()), report.judged(harness.milliseconds(added), added <= MOST_ADDED))],
    )


def _in_turn(spark: SparkSession, work: Callable[[], Any], rounds: int, *, frames: bool) -> dict[str, float]:
    """Median seconds of work under an optimizer that was installed for it, and without, in turn, after a warm-up."""
    times: dict[str, list[float]] = {"installed": [], "plain": []}
    for _ in range(1 + rounds):
        opt = Optimizer.install(spark, frames=frames)
        try:
            times["installed"].append(harness.seconds(work))
        finally:
            opt.uninstall()
        times["plain"].append(harness.seconds(work))
    return {name: median(values[1:]) for name, values in times.items()}


def _row(name: str, rewritten: str, times: dict[str, float], ratio: str) -> tuple[str, ...]:
    return name, rewritten, f"{times['installed']:.2f} s", f"{times['plain']:.2f} s", ratio


def _plan(frame: DataFrame) -> str:
    """Spark's optimized plan without the numbers of its columns."""
    plan: Any = frame
    return re.sub(r"#\d+L?|plan_id=\d+|\[\d+\]", "", plan._jdf.queryExecution().optimizedPlan().toString())


if __name__ == "__main__":
    main()
