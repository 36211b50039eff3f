"""A band of a table's own rows, counted and added up for each row: as a window, as a join by bins, as it is written.

The others get a time limit: a join on keys of a Zipf distribution looks at every pair of the most frequent ones.
"""

from __future__ import annotations

from threading import Timer
from time import perf_counter
from typing import TYPE_CHECKING

import duckdb

from benchmarks import harness
from dovetail import Optimizer, Options

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.self_join.bench import Bench

TITLE = "Aggregates over a band of a table's own rows"
ROWS, QUICK_ROWS = 1_000_000, 20_000
SECONDS, LONG_SECONDS = 200.0, 1_200.0
TARGET = 50
MATCHES = (1, 5, 20, 100)
NEVER = ("band_groups", "band_subquery")

_JOINED = (
    "SELECT x.id, count(*) AS n, sum(y.v) AS s FROM {t} x JOIN {t} y "
    "ON x.k = y.k AND y.ts BETWEEN x.ts - {width} AND x.ts GROUP BY x.id"
)
_SUBQUERY = (
    "SELECT x.id, x.ts, (SELECT count(*) FROM {t} y WHERE y.k = x.k AND y.ts BETWEEN x.ts - {width} AND x.ts) AS n "
    "FROM {t} x"
)
_MOST = (
    "SELECT x.id, max(y.v) AS m FROM {t} x JOIN {t} y "
    "ON x.k = y.k AND y.ts BETWEEN x.ts - {width} AND x.ts GROUP BY x.id"
)


def measure(bench: Bench) -> None:
    """Make the tables and measure: Zipf keys, then as many matches for each row as shall be."""
    rows = QUICK_ROWS if bench.quick else ROWS
    times = "CAST(xxhash64(id, {seed}) & 9223372036854775807 AS BIGINT) % {most}"
    harmonic = sum(1 / n for n in range(1, rows // 100 + 1))
    often = f"CAST(round({rows} / {harmonic} / (id + 1)) AS INT)"
    every = f"SELECT id AS k, explode(sequence(1, {often})) AS n FROM range({rows // 100}) WHERE {often} > 0"
    value = "xxhash64(k, n, {}) & 9223372036854775807"
    bench.table(
        "zipf",
        f"SELECT monotonically_increasing_id() AS id, CAST(k AS INT) AS k, ({value.format(1)}) % {100 * rows} AS ts, "
        f"CAST(({value.format(2)}) % 100 AS INT) AS v FROM ({every})",
    )
    bench.table(
        "even",
        f"SELECT id, CAST({times.format(seed=1, most=rows // 1000)} AS INT) AS k, "
        f"{times.format(seed=2, most=1_000_000)} AS ts, "
        f"CAST({times.format(seed=3, most=100)} AS INT) AS v FROM range({rows})",
    )
    _zipf(bench, rows)
    _matches(bench, rows)


def _zipf(bench: Bench, rows: int) -> None:
    limit = LONG_SECONDS if bench.long else SECONDS
    cells = []
    for name, form in (("count and sum, grouped by row", _JOINED), ("subquery", _SUBQUERY), ("max", _MOST)):
        text = form.format(t="zipf", width=5 * rows // 1000)
        ours = _ours(bench, text)
        is_measured = form is not _MOST or bench.long
        plain = _spark_within(bench, text, limit) if form is _JOINED or bench.long else None
        duck = _duck_within(bench, text, limit) if is_measured else None
        cells.append((name, f"{ours:.2f} s", *_beside(bench, plain, ours, TARGET), *_beside(bench, duck, ours, 1)))
    bench.report.table(
        f"{rows:,} rows, Zipf keys",
        ("", "windows", "plain Spark", "faster", "DuckDB", "faster"),
        cells,
    )
    bench.report.note(f"Plain Spark and DuckDB ran once, and were stopped after {limit:.0f} s where marked.")


def _beside(bench: Bench, other: tuple[float, bool] | None, ours: float, target: float) -> tuple[str, str]:
    if other is None:
        return "–", "–"
    time, stopped = other
    figure = f"{'≥ ' if stopped else ''}{time / ours:.1f}×"
    return f"> {time:.0f} s" if stopped else f"{time:.2f} s", bench.report.judged(figure, time > target * ours)


def _matches(bench: Bench, rows: int) -> None:
    """Windows beside the join by bins, over 1,000 rows of each key."""
    cells = []
    bins = Optimizer(bench.spark, Options(disabled_rules=NEVER))
    for matches in MATCHES:
        text = _JOINED.format(t="even", width=matches * 1000)
        ours = _ours(bench, text)
        other = _median(lambda text=text: harness.run(bins.sql(text)))  # type: ignore[misc]
        most = _ours(bench, _MOST.format(t="even", width=matches * 1000))
        cells.append((f"{matches}", f"{ours:.2f} s", f"{other:.2f} s", f"{other / ours:.1f}×", f"{most:.2f} s"))
    columns = ("matches", "windows", "without the rule", "faster", "max as a window")
    bench.report.table(f"{rows:,} rows, 1,000 of each key: count and sum of so many matches a row", columns, cells)


def _ours(bench: Bench, text: str) -> float:
    assert "BandWindow" in bench.optimizer.plan(text).explain() or bench.quick
    return _median(lambda: harness.run(bench.optimizer.sql(text)))


def _median(work: Callable[[], object]) -> float:
    times = sorted(harness.in_turn({"one": work}, warm_up=1, rounds=3)["one"])
    return times[len(times) // 2]


def _spark_within(bench: Bench, text: str, limit: float) -> tuple[float, bool]:
    """Seconds on plain Spark, and whether it was stopped."""
    context = bench.spark.sparkContext
    return _within(lambda: harness.run(bench.spark.sql(text)), context.cancelAllJobs, limit)


def _duck_within(bench: Bench, text: str, limit: float) -> tuple[float, bool]:
    """Seconds in DuckDB, and whether it was stopped."""
    return _within(lambda: bench.duck.execute(text).fetch_arrow_table(), bench.duck.interrupt, limit)


def _within(work: Callable[[], object], stop: Callable[[], object], limit: float) -> tuple[float, bool]:
    from py4j.protocol import Py4JJavaError

    timer = Timer(limit, stop)
    timer.start()
    start = perf_counter()
    try:
        work()
    except (Py4JJavaError, duckdb.InterruptException):
        if perf_counter() - start < limit:
            raise
        return perf_counter() - start, True
    finally:
        timer.cancel()
    return perf_counter() - start, False
