"""Estimates: the time to an error of 5 and of 1 %, against the exact run, and how often intervals hold the exact value.

Events are points, sessions are intervals; the distribution of the points is what differs.  The second condition reads
both sides, so that the exact run has to form the pairs: without it, running sums make one pass over both tables.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks import harness
from dovetail import Optimizer
from dovetail.optimizer.estimate import run
from dovetail.planner.estimate.clusters import Interval

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PROGRAM = "estimates"
PARTS = ("times", "coverage")
DOMAIN = 1_000_000
UNIT = "(xxhash64(id, {}) & 9223372036854775807) / 9223372036854775807D"
POINTS = {
    "uniform": f"{UNIT} * {DOMAIN}",
    "clustered": f"(floor({UNIT} * 20) + pow({UNIT}, 3)) * {DOMAIN // 20}",
    "Zipf": f"{DOMAIN} * pow({UNIT}, 4)",
}
QUERY = """
    SELECT count(*) AS n, sum(e.amount) AS total, avg(e.amount) AS mean
    FROM events e JOIN sessions s ON e.at BETWEEN s.start AND s.stop AND e.amount + s.id % 7 > 3
"""
BY_GROUP = QUERY.replace("SELECT", "SELECT s.id % 100 AS device,") + " GROUP BY s.id % 100"
TARGETS = {0.05: 0.03, 0.01: 0.1}  # by error, the greatest part of the exact run's time


def main() -> None:
    args = harness.arguments(PROGRAM, __doc__ or "", PARTS)
    chosen = [part for part in PARTS if part in args.parts] or list(PARTS)
    with harness.session(PROGRAM) as spark, tempfile.TemporaryDirectory(prefix="dovetail-") as scratch:
        report = harness.Report(PROGRAM, "Estimates", args.quick)
        if "times" in chosen:
            measure_times(spark, Path(scratch), report, quick=args.quick)
        if "coverage" in chosen:
            measure_coverage(spark, Path(scratch), report, quick=args.quick)
        report.write(spark)


def make_tables(
    spark: SparkSession, folder: Path, points: str, events: int, sessions: int, length: int = DOMAIN // 500
) -> None:
    """Write events and sessions, and name them; a session is of that length."""
    at = points.format(1, 2, 3)
    tables = {
        "events": f"SELECT id, {at} AS at, {UNIT.format(4)} * 100 AS amount FROM range({events})",
        "sessions": f"SELECT id, start, start + {length} AS stop FROM "
        f"(SELECT id, {UNIT.format(5)} * {DOMAIN} AS start FROM range({sessions}))",
    }
    for name, text in tables.items():
        target = folder / f"{name}-{events}-{abs(hash(points))}"
        harness.keep(spark.sql(text), target)
        spark.read.parquet(str(target)).createOrReplaceTempView(name)


def measure_times(spark: SparkSession, folder: Path, report: harness.Report, *, quick: bool) -> None:
    """The seconds to each error, medians of three estimates after five to warm up, and those of the exact run."""
    events, sessions = (200_000, 2_000) if quick else (2_000_000, 100_000)
    cells = []
    for name, points in POINTS.items():
        make_tables(spark, folder, points, events, sessions, DOMAIN // 50)
        opt = Optimizer(spark)
        figures = []
        for error in TARGETS:
            ends = [list(opt.estimate(QUERY, error=error, seed=seed))[-1] for seed in range(8)]
            figures.append(sorted(ends[5:], key=lambda end: end.seconds)[1])
        start = perf_counter()
        pairs = opt.sql(QUERY).collect()[0].n
        exact = perf_counter() - start
        row = [name, f"{pairs:,}", f"{exact:.1f} s"]
        for last, most in zip(figures, TARGETS.values(), strict=True):
            part = last.seconds / exact
            row += [f"{last.seconds:.1f} s", f"{last.share:.1%}", report.judged(f"{part:.0%}", part <= most)]
        cells.append(row)
    columns = ["points", "pairs", "exact run"]
    for error in TARGETS:
        columns += [f"± {error:.0%}", "rows read", "of the exact run"]
    report.table(f"Points in intervals, {events:,} × {sessions:,} rows", columns, cells)


def measure_coverage(spark: SparkSession, folder: Path, report: harness.Report, *, quick: bool) -> None:
    """Runs with seeds of their own: how many of the certified intervals at the end hold the exact value.

    Exact runs of these tables are short; they do not end an estimate here, and an exact answer does not count.
    """
    run._SHORT = 0.0
    events, runs = (20_000, 3) if quick else (200_000, 34)
    cells = []
    for name, points in POINTS.items():
        make_tables(spark, folder, points, events, 2_000)
        opt = Optimizer(spark)
        for kind, text, error in (("all rows", QUERY, 0.05), ("100 groups", BY_GROUP, 0.2)):
            exact = {row[:-3]: row[-3:] for row in opt.sql(text).collect()}
            held = total = 0
            missed = []
            for seed in range(runs):
                *_, answer = (a for a in opt.estimate(text, error=error, seed=seed) if not a.exact)
                hits = [hit for row in answer.rows if row.certified for hit in _hits(row.values, exact)]
                held, total = held + sum(hits), total + len(hits)
                missed += [] if all(hits) else [seed]
            figure = report.judged(f"{held / total:.1%}", held >= 0.94 * total)
            cells.append([name, kind, f"{total:,}", figure, ", ".join(map(str, missed[:5])) or "none"])
    columns = ["points", "groups", "intervals", "hold the exact value", "seeds of the first that miss"]
    report.table(f"Coverage, {runs} runs each, {events:,} × 2,000 rows", columns, cells)


def _hits(values: tuple[object, ...], exact: dict[tuple[object, ...], tuple[float, ...]]) -> list[bool]:
    """Whether each interval of a row holds its exact value."""
    group = tuple(value for value in values if not isinstance(value, Interval))
    intervals = [value for value in values if isinstance(value, Interval)]
    return [i.low <= float(true) <= i.high for i, true in zip(intervals, exact[group], strict=True)]


if __name__ == "__main__":
    main()
