"""As-of joins of one key, or without any: sorted in one task, or in ranges of time.

Rows are trades and quotes at random times.  The longest task is that of the stage that reads most rows from shuffles.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from benchmarks import harness
from benchmarks.stage_tasks import StageTasks
from dovetail import Optimizer, Options
from tests.tpc import data

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

PROGRAM, VERSION = "nearest_ranges", 1  # count up when a table below changes
SIZES, QUICK_SIZES = (4_000_000, 12_000_000), (200_000,)
LONGEST, FASTER = 3, 1.2  # targets
SETTINGS = {"spark.sql.shuffle.partitions": "32", "spark.driver.memory": "3g"}
NEVER = 10**12  # rows of one task
COLUMNS = "t.id, t.qty, q.price, q.ts AS at FROM trades t LEFT ASOF JOIN quotes q MATCH_CONDITION (t.ts >= q.ts)"
CASES = {
    "no key": f"SELECT {COLUMNS}",
    "one key in 90 % of the rows": f"SELECT {COLUMNS} ON t.hot = q.hot",
}


def tables(spark: SparkSession, rows: int) -> None:
    """Make the tables unless they are there, and read them."""
    for name, seed, column in (("trades", 2, "id % 100 AS qty"), ("quotes", 3, "id / 7 AS price")):
        ts = f"timestamp_micros((xxhash64(id, {seed}) & 9223372036854775807) % 1000000000000)"
        keys = "id % 1000 AS k, if(id % 10 = 0, id % 1000, 1) AS hot"
        target = data.home() / PROGRAM / f"v{VERSION}" / f"{name}-{rows}"
        harness.keep(spark.sql(f"SELECT id, {keys}, {ts} AS ts, {column} FROM range({rows})"), target)
        spark.read.parquet(str(target)).createOrReplaceTempView(name)
    some = f"SELECT ts, ts + INTERVAL 0.2 SECONDS AS until, price FROM quotes WHERE id < {rows // 10}"
    spark.sql(some).createOrReplaceTempView("some_quotes")


def _runs(opt: Optimizer, text: str) -> Callable[[], object]:
    return lambda: harness.run(opt.sql(text))


def tasks(report: harness.Report, quick: bool) -> None:
    """One task against ranges of time."""
    lines, rounds = [], 1 if quick else 3
    with harness.session(PROGRAM, SETTINGS) as spark:
        stages = StageTasks(spark)
        for rows in QUICK_SIZES if quick else SIZES:
            tables(spark, rows)
            chosen = 2 * rows > Options().nearest_range_rows
            for name, text in CASES.items():
                ways = {
                    way: _runs(Optimizer(spark, Options(nearest_range_rows=most)), text)
                    for way, most in (("one", NEVER), ("ranges", 0))
                }
                times = {way: median(t) for way, t in harness.in_turn(ways, warm_up=1, rounds=rounds).items()}
                before = stages.last_stage()
                ways["ranges"]()
                by_rows, by_time = stages.longest(before)
                faster = times["one"] / times["ranges"]
                figures = (
                    f"{times['one']:.1f} s",
                    f"{times['ranges']:.1f} s",
                    report.judged(f"{faster:.2f}", faster >= FASTER) if chosen else f"{faster:.2f}, not chosen",
                    report.judged(f"{by_rows:.1f}", by_rows <= LONGEST),
                    f"{by_time:.1f}",
                )
                harness.console.print(name, f"{rows:,}", *figures, highlight=False)
                lines.append((name, f"{rows:,} × {rows:,}", *figures))
        columns = ("key", "rows", "one task", "ranges", "faster", "longest task ÷ median, rows", "time")
        report.table(f"On local[{harness.cores()}]", columns, lines)
        report.note(f"{harness.medians(rounds)} after one to warm up, with parsing, planning and its measurements.")
        report.write(spark)


def main() -> None:
    args = harness.arguments(PROGRAM, __doc__ or "")
    tasks(harness.Report(PROGRAM, "As-of joins in ranges of time", args.quick), args.quick)


if __name__ == "__main__":
    main()
