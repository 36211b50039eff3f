"""The optimizer ÷ plain Spark, at sizes that plain Spark can finish: the band alone, and the band with hot keys."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from benchmarks import harness
from benchmarks.band_join import cases
from benchmarks.band_join.hand import hinted

if TYPE_CHECKING:
    from benchmarks.band_join.bench import Bench
    from benchmarks.band_join.cases import Case

TITLE = "÷ plain Spark, where plain Spark loops over all pairs"
BAND_TARGET, ZIPF_TARGET = 250.0, 150.0  # times faster
JUDGED_BAND, JUDGED_ZIPF = 50_000, 1_000_000  # rows that the targets are for
THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"
COLUMNS = ("rows", "rows out", "optimizer", "plain Spark", "with its best hint", "", "faster")
AS_WRITTEN = "as written"
SMALL = 1_000  # rows, to warm up


def measure(bench: Bench) -> None:
    """Two tables: one for each target."""
    rounds = 1 if bench.quick else 7
    sizes = (5_000, 10_000) if bench.quick else (12_500, 25_000, 50_000)
    rows = [one(bench, band(size), f"{size:,} × {size:,}", rounds, size == JUDGED_BAND) for size in sizes]
    bench.spark.conf.set(THRESHOLD, "-1")
    size = sizes[-1]
    rows.append(one(bench, band(size), f"{size:,} × {size:,}, no broadcast", rounds, size == JUDGED_BAND))
    bench.spark.conf.unset(THRESHOLD)
    bench.report.table(
        f"|a.x − b.x| ≤ {cases.BAND} (target ≥ {BAND_TARGET:.0f}× at {JUDGED_BAND:,} rows)", COLUMNS, rows
    )
    sizes = (20_000, 50_000) if bench.quick else (100_000, 300_000)
    rows = [one(bench, cases.zipf_band(size), f"{size:,} × {size:,}", rounds, False) for size in sizes]
    if bench.long:
        case = cases.zipf_band(JUDGED_ZIPF)
        rows.append(one(bench, case, f"{JUDGED_ZIPF:,} × {JUDGED_ZIPF:,}", rounds, True, ZIPF_TARGET))
    bench.report.table(
        f"a.k = b.k and |a.x − b.x| ≤ {cases.BAND}, Zipf keys (target ≥ {ZIPF_TARGET:.0f}× at {JUDGED_ZIPF:,} rows)",
        COLUMNS,
        rows,
    )
    bench.report.note(
        f"{harness.medians(rounds)} of the optimizer after two rounds of warm-up; plain Spark ran once "
        "as written and once with each of `BROADCAST(b)`, `SHUFFLE_HASH(b)` and `MERGE(b)`, since it takes minutes and "
        "a loop needs no long warm-up; the fastest counts. Times go from SQL text to the answer. Both gave the same "
        "answer."
    )
    bench.report.note(
        "Tables of the first table are one Parquet file each, which Spark knows to be small: it broadcasts one and "
        f"loops in one task of generated code. “No broadcast” sets `{THRESHOLD}` to -1 for both, as if the tables were "
        "larger than it or of unknown size: then Spark takes a CartesianProduct, unless it gets a hint."
    )
    if not bench.long:
        bench.report.note(f"Zipf keys at {JUDGED_ZIPF:,} rows, ten minutes on plain Spark, run with `--long`.")


def band(rows: int) -> Case:
    """Rows as sparse as in a table of a million, so that the output does not hide the search."""
    tables = tuple((name, replace(table, domain=10**8)) for name, table in cases.band(rows).tables)
    return replace(cases.band(rows), tables=tables)


def one(bench: Bench, case: Case, name: str, rounds: int, judge: bool, target: float = BAND_TARGET) -> tuple[str, ...]:
    """A line of the table."""
    small = band(SMALL)
    bench.register(small)
    for _ in range(3):
        bench.plain(small)
    bench.register(case)
    with harness.console.status(f"{name} on plain Spark, once as written and with each hint"):
        texts = hinted(case.query, "b")
        times = {
            how.strip(", ") or AS_WRITTEN: harness.seconds(partial(bench.plain, case, texts[how])) for how in texts
        }
    how = min(times, key=lambda one: times[one])
    plain = times[how]
    ours = median(harness.in_turn({"ours": lambda: bench.ours(case)}, warm_up=2, rounds=rounds)["ours"])
    faster = f"{plain / ours:,.0f}×"
    harness.console.print(f"{name}: ours {ours:.2f} s, plain Spark {times}", highlight=False)
    return (
        name,
        f"{bench.rows_out(case):,}",
        f"{ours:.2f} s",
        f"{times[AS_WRITTEN]:.1f} s",
        f"{plain:.1f} s",
        how,
        bench.report.judged(faster, plain / ours >= target) if judge else faster,
    )
