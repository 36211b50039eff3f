"""TPC-H, all 22 queries, run to the last row: through the optimizer ÷ plain Spark, in turn.

What Spark plans well must not become slower. The test-suite checks that the rows are the same; here only time counts.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from benchmarks import harness
from dovetail import Optimizer
from tests.tpc import data

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TARGET = 1.02


def main() -> None:
    args = harness.arguments("tpch", __doc__ or "")
    scale, rounds = (0.01, 1) if args.quick else (1, 5)
    report = harness.Report("tpch", f"TPC-H at scale {scale:g}: the optimizer ÷ plain Spark", args.quick)
    data.generate("tpch", scale)
    with harness.session("tpch") as spark:
        measure(spark, report, scale, rounds)
        report.write(spark)


def measure(spark: SparkSession, report: harness.Report, scale: float, rounds: int) -> None:
    """Run the queries one by one, each both ways in turn."""
    data.register(spark, "tpch", scale)
    optimizer = Optimizer(spark)
    rows, ours, theirs = [], 0.0, 0.0
    for query, text in data.queries("tpch").items():
        ways = {
            "ours": lambda text=text: harness.run(optimizer.sql(text)),
            "theirs": lambda text=text: harness.run(spark.sql(text)),
        }
        with harness.console.status(query):
            times = harness.in_turn(ways, warm_up=1, rounds=rounds)
        us, them = median(times["ours"]), median(times["theirs"])
        ours, theirs = ours + us, theirs + them
        rewritten = "yes" if optimizer.plan(text).rewritten else "no"
        rows.append((query, rewritten, f"{us:.2f} s", f"{them:.2f} s", f"{us / them:.2f}"))
        harness.console.print(f"{query}  {us:.2f} s ÷ {them:.2f} s = {us / them:.2f}", highlight=False)
    ratio = ours / theirs
    rows.append(("total", "", f"{ours:.2f} s", f"{theirs:.2f} s", report.judged(f"{ratio:.3f}", ratio <= TARGET)))
    report.table(
        f"All 22 queries (target of the total ≤ {TARGET})",
        ("query", "rewritten", "optimizer", "plain Spark", "ratio"),
        rows,
    )
    report.note(
        f"{harness.medians(rounds)} after a warm-up, both ways in turn; who goes first changes from round to round. "
        "Times include parsing and planning. Where nothing is rewritten both ways run the same text: how far such "
        "a ratio is from 1 is the noise of this machine."
    )


if __name__ == "__main__":
    main()
