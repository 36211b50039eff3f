"""Estimated and measured savings: joins of several shapes and sizes, advised with ``--verify --measure``.

An estimate is in seconds on one core; it is divided by the cores of this machine.  A join counts as estimated well if
estimate and measurement differ by a factor of at most two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import harness
from dovetail import Optimizer
from dovetail.optimizer.advise.advice import advise
from dovetail.optimizer.advise.planners import SessionWorkloadPlanner
from dovetail.optimizer.advise.workload import WorkloadStatement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TARGET_SHARE, FACTOR = 0.8, 2.0
JOINS = {
    "interval of numbers": "FROM e JOIN s ON e.x BETWEEN s.lo AND s.hi",
    "interval of times": "FROM e JOIN s ON e.ts BETWEEN s.starts AND s.ends",
    "distance": "FROM e JOIN s ON abs(e.x - s.lo) <= 0.01",
    "overlap": "FROM s a JOIN s b ON a.starts <= b.ends AND b.starts <= a.ends",
    "band in WHERE": "FROM e, s WHERE e.x >= s.lo AND e.x <= s.hi AND s.id % 10 > 0",
    "left join": "FROM e LEFT JOIN s ON e.x BETWEEN s.lo AND s.hi",
    "exists": "FROM e WHERE EXISTS (SELECT 1 FROM s WHERE e.ts BETWEEN s.starts AND s.ends)",
}


def main() -> None:
    args = harness.arguments("savings", __doc__ or "")
    report = harness.Report("savings", "Estimated and measured savings of `dovetail advise`", args.quick)
    sizes = [(12_000, 10_000)] if args.quick else [(25_000, 25_000), (200_000, 3_000)]
    rows, well, known = [], 0, 0
    with harness.session("savings") as spark:
        for events, spans in sizes:
            _make_tables(spark, events, spans)
            planner = SessionWorkloadPlanner(Optimizer(spark), measure=True)
            # of an unmatched row of e only its number is read, so that both ways compute the same rows
            statements = [
                WorkloadStatement(name, f"SELECT count(*) AS n, sum({'a' if ' a ' in text else 'e'}.id) AS t {text}")
                for name, text in JOINS.items()
            ]
            for found in sorted(advise(statements, planner, verify=True).statements, key=lambda s: s.file):
                if not found.runs:
                    rows.append((f"{found.file}, {events:,} × {spans:,}", found.status, "", "", ""))
                    continue
                harness.console.print(f"{found.file}: {found.runs}, estimated {found.savings.seconds}", highlight=False)
                measured = found.runs.written.seconds - found.runs.rewritten.seconds
                estimated = None if found.savings.seconds is None else found.savings.seconds / harness.cores()
                ratio = estimated / measured if estimated and measured > 0 else None
                known += estimated is not None
                well += ratio is not None and 1 / FACTOR <= ratio <= FACTOR
                rows.append(
                    (
                        f"{found.file}, {events:,} × {spans:,}",
                        found.verified.partition(";")[0],
                        f"{found.runs.written.seconds:.2f} s",
                        f"{found.runs.rewritten.seconds:.2f} s",
                        f"{measured:.2f} s",
                        "–" if estimated is None else f"{estimated:.2f} s",
                        "–" if ratio is None else f"{ratio:.2f}",
                    )
                )
        columns = ("join", "rows", "as written", "rewritten", "measured saving", "estimated saving", "ratio")
        report.table("Savings", columns, [(*row, *[""] * (len(columns) - len(row))) for row in rows])
        share = well / known if known else 0.0
        met = report.judged(f"{well} of {known}", share >= TARGET_SHARE)
        report.note(
            f"Within a factor of {FACTOR:g}: {met} (target: {TARGET_SHARE:.0%}). The tables have statistics; otherwise "
            "Spark guesses rows from the size of files. A dash: the pairs that remain are unknown. An expression that "
            "is costly for each pair, such as ± INTERVAL in the condition, is not estimated."
        )
        report.write(spark)


def _make_tables(spark: SparkSession, events: int, spans: int) -> None:
    """Make tables of events e and spans s over one day, with statistics; a span is a ten-thousandth of it, about."""
    random = "(xxhash64(id, {}) & 9223372036854775807) % 86400000 / 1000"
    made = {
        "e": f"SELECT id, {random.format(1)} AS x, timestamp_millis(CAST({random.format(1)} * 1000 AS BIGINT)) AS ts "
        f"FROM range({events})",
        "s": "SELECT id, lo, lo + length AS hi, timestamp_millis(CAST(lo * 1000 AS BIGINT)) AS starts, "
        "timestamp_millis(CAST((lo + length) * 1000 AS BIGINT)) AS ends FROM "
        f"(SELECT id, {random.format(2)} AS lo, 1 + id % 16 AS length FROM range({spans}))",
    }
    for name, text in made.items():
        spark.sql(f"DROP TABLE IF EXISTS {name}")
        spark.sql(f"CREATE TABLE {name} USING parquet AS {text}")
        spark.sql(f"ANALYZE TABLE {name} COMPUTE STATISTICS")


if __name__ == "__main__":
    main()
