"""Measures planning: the time that the optimizer adds before Spark gets a query, for TPC-H and TPC-DS.

What is timed is `opt.sql(text)`, all of it, less the one call of `spark.sql` that hands the statement to Spark, which
plain Spark needs as well. Of that the catalog's share (Spark's answers on columns and statistics) is shown by itself.
Every round has an optimizer of its own, so that nothing is remembered from the round before.
"""

from __future__ import annotations

import time
from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING, Any

from rich.progress import track

from benchmarks import harness
from dovetail import Optimizer
from tests.tpc import data

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCALE = 0.01
MEDIAN_TARGET, P95_TARGET = 0.015, 0.080
TITLE = "Planning: what the optimizer adds before Spark sees a query"


class Stopwatch:
    """Times each call of a session's `sql`, by the DataFrame that it gave."""

    def __init__(self, session: SparkSession):
        self.calls: list[tuple[DataFrame, float]] = []
        self._sql = session.sql
        session.sql = self  # type: ignore[method-assign]

    def __call__(self, *args: Any, **kwargs: Any) -> DataFrame:
        start = time.perf_counter()
        frame = self._sql(*args, **kwargs)
        self.calls.append((frame, time.perf_counter() - start))
        return frame

    def of(self, frame: DataFrame) -> float:
        """Seconds of the call that gave this DataFrame."""
        return next(spent for found, spent in self.calls if found is frame)


class Measured:
    """Times of one query: a list for each part, an entry for each round."""

    def __init__(self) -> None:
        self.parts: dict[str, list[float]] = defaultdict(list)
        self.rewritten = False

    def median(self, part: str) -> float:
        """Middle of the rounds."""
        return median(self.parts[part])


Suites = dict[str, dict[str, Measured]]


def plan_once(watch: Stopwatch, optimizer: Optimizer, text: str, to: Measured) -> None:
    """Bring one query to where Spark has it, and note where the time went."""
    watch.calls.clear()
    start = time.perf_counter()
    plan = optimizer._planner.plan_to_run(text, None)  # what opt.sql does; opt.plan also takes a snapshot
    frame = plan.run()
    whole = time.perf_counter() - start
    spark = watch.of(frame)
    to.rewritten = plan.rewritten
    to.parts["catalog"].append(plan.timings["catalog"])
    analyzed_by_catalog = plan.frame is frame  # during planning, so that its time is among the catalog's
    to.parts["added"].append(whole - plan.timings["catalog"] - (0.0 if analyzed_by_catalog else spark))
    to.parts["with catalog"].append(whole - spark)
    to.parts["parse"].append(plan.timings.get("parse", 0.0))
    to.parts["spark"].append(spark)


def main() -> None:
    args = harness.arguments("planning", __doc__ or "")
    rounds = 1 if args.quick else 7
    report = harness.Report("planning", TITLE, args.quick)
    with harness.session("planning") as spark:
        first, later = measure(spark, rounds)
        show(report, first, later, rounds)
        report.write(spark)


def measure(spark: SparkSession, rounds: int) -> tuple[Suites, Suites]:
    """Plan all queries round by round; the first round is kept apart."""
    first: Suites = {}
    later: Suites = {}
    for suite in data.SUITES:
        session = spark.newSession()
        data.register(session, suite, SCALE)
        watch, texts = Stopwatch(session), data.queries(suite)
        first[suite] = {query: Measured() for query in texts}
        later[suite] = {query: Measured() for query in texts}
        for number in track(range(1 + rounds), f"{suite}, {len(texts)} queries"):
            optimizer = Optimizer(session)
            for query, text in texts.items():
                plan_once(watch, optimizer, text, (later if number else first)[suite][query])
    return first, later


def show(report: harness.Report, first: Suites, later: Suites, rounds: int) -> None:
    """Tables: the targets, then where the time goes."""
    ms = harness.milliseconds
    rows = []
    for suite, queries in later.items():
        rewritten = sum(measured.rewritten for measured in queries.values())
        for part, name, judged in (("added", suite, True), ("with catalog", f"{suite}, with the catalog", False)):
            times = {query: measured.median(part) for query, measured in queries.items()}
            middle, p95 = median(times.values()), harness.percentile(times.values(), 95)
            slowest = max(times, key=lambda query: times[query])
            cells = [ms(middle), ms(p95)]
            if judged:
                cells = [report.judged(cells[0], middle <= MEDIAN_TARGET), report.judged(cells[1], p95 <= P95_TARGET)]
            rows.append((name, str(len(times)), str(rewritten), *cells, f"{ms(times[slowest])} ({slowest})"))
    report.table(
        f"Added, warm (targets, without the catalog: median ≤ {ms(MEDIAN_TARGET)}, p95 ≤ {ms(P95_TARGET)})",
        ("suite", "queries", "rewritten", "median", "p95", "max"),
        rows,
    )
    slow = sorted(
        (
            (measured.median("added"), query, measured)
            for queries in later.values()
            for query, measured in queries.items()
        ),
        key=lambda entry: -entry[0],
    )
    report.table(
        "The ten slowest, warm",
        ("query", "added", "of it: parse", "catalog", "Spark's own analysis"),
        [
            (query, ms(added), *(ms(m.median(part)) for part in ("parse", "catalog", "spark")))
            for added, query, m in slow[:10]
        ],
    )
    parts = {"parse": "parse", "catalog": "catalog", "spark": "Spark's own analysis"}
    shares = []
    for suite, queries in later.items():
        for part, name in parts.items():
            values = [measured.median(part) for measured in queries.values()]
            shares.append((f"{suite}: {name}", ms(median(values)), ms(harness.percentile(values, 95)), ms(max(values))))
    report.table("For comparison, per query, warm", ("part", "median", "p95", "max"), shares)
    seen_first = []
    for suite, queries in first.items():
        for part in ("added", "catalog"):
            values = [measured.median(part) for measured in queries.values()]
            seen_first.append((f"{suite}: {part}", ms(values[0]), ms(median(values)), ms(max(values)), ms(sum(values))))
    report.table(
        "First use: a new process, the first time that each query is seen",
        ("part", "very first query", "median", "max", "all queries"),
        seen_first,
    )
    report.note(
        f"{harness.medians(rounds)} for each query; median, p95 and max are over queries. Tables are "
        f"Parquet files of scale {SCALE:g}, as temporary views. “Added” is `opt.sql(text)` less the call of "
        "`spark.sql` that hands the statement over, less the catalog."
    )


if __name__ == "__main__":
    main()
