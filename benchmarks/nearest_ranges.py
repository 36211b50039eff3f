"""As-of joins of one key, or without any: sorted in one task, or in ranges of time; and on one and two executors.

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
PARTS = ("tasks", "executors")
SIZES, QUICK_SIZES, EXECUTOR_ROWS, QUICK_EXECUTOR_ROWS = (4_000_000, 12_000_000), (200_000,), 3_000_000, 200_000
LONGEST, FASTER, SCALED = 3, 1.2, 1.7  # targets
SETTINGS = {"spark.sql.shuffle.partitions": "32", "spark.driver.memory": "3g"}
NEVER = 10**12  # rows of one task
COLUMNS = "t.id, t.qty, q.price, q.ts AS at FROM trades t LEFT ASOF JOIN quotes q MATCH_CONDITION (t.ts >= q.ts)"
CASES = {
    "no key": f"SELECT {COLUMNS}",
    "one key in 90 % of the rows": f"SELECT {COLUMNS} ON t.hot = q.hot",
}
ON_EXECUTORS = {  # and the rows of one task
    "as-of join, 1,000 keys": (f"SELECT {COLUMNS} ON t.k = q.k", NEVER),
    "as-of join, no key, in one task": (CASES["no key"], NEVER),
    "as-of join, no key, in ranges": (CASES["no key"], 0),
    "as-of join, one key in 90 % of the rows, in ranges": (CASES["one key in 90 % of the rows"], 0),
    "band join": ("SELECT t.id, q.price FROM trades t JOIN some_quotes q ON t.ts BETWEEN q.ts AND q.until", NEVER),
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


def executors(report: harness.Report, quick: bool) -> None:
    """One executor of one core against two."""
    rows, rounds = QUICK_EXECUTOR_ROWS if quick else EXECUTOR_ROWS, 1 if quick else 3
    times: dict[str, list[float]] = {name: [] for name in ON_EXECUTORS}
    for count in (1, 2):
        with harness.session(PROGRAM, SETTINGS, f"local-cluster[{count},1,1024]") as spark:
            tables(spark, rows)
            for name, (text, most) in ON_EXECUTORS.items():
                run = _runs(Optimizer(spark, Options(nearest_range_rows=most)), text)
                run()
                times[name].append(median(harness.seconds(run) for _ in range(rounds)))
                harness.console.print(count, name, f"{times[name][-1]:.1f} s", highlight=False)
            if count == 2:
                lines = [
                    (name, f"{one:.1f} s", f"{two:.1f} s", report.judged(f"{one / two:.2f}", one / two >= SCALED))
                    for name, (one, two) in times.items()
                ]
                title = f"Executors of one core and 1 GiB, {rows:,} × {rows:,} rows"
                report.table(title, ("join", "one executor", "two", "faster"), lines)
                report.note(f"{harness.medians(rounds)} after one to warm up. The band join has a tenth of the quotes.")
                report.write(spark)


def main() -> None:
    args = harness.arguments(PROGRAM, __doc__ or "", PARTS)
    for part in args.parts or PARTS:
        title = {"tasks": "As-of joins in ranges of time", "executors": "One executor and two"}[part]
        globals()[part](harness.Report(PROGRAM, title, args.quick, part), args.quick)


if __name__ == "__main__":
    main()
