"""Compares a join on state modules with Spark's own join, with each store and each format of its state."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.streams.bench import OURS, SPARK

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.streams.bench import Bench, Done

EPOCHS = 8
LIMIT = 100.0  # seconds of a run of Spark's own join
TWICE = 15.0  # seconds up to which a way runs twice


@dataclass(frozen=True)
class Case:
    """Streams of ``rows`` an epoch; Spark's own join runs ``own`` where it does not take ``text``."""

    name: str
    streams: dict[str, Path]
    rows: int
    text: str
    target: float
    own: str = ""


def compare(bench: Bench, few: Case, cases: Sequence[Case]) -> None:
    """Run each case in all ways, in turn, after a warm-up over ``few`` rows; two tables."""
    for way in (OURS, *SPARK):
        _run(bench, few, way)
    lines: list[tuple[str, ...]] = []
    bests = [_case(bench, case, lines) for case in cases]
    bench.report.table(
        f"{EPOCHS} epochs; target: as many times as fast as Spark's best, and never below 1",
        ("rows an epoch", OURS, "the best of Spark", "", "faster", "target"),
        bests,
    )
    bench.report.table(
        "All ways",
        ("rows an epoch, way", "seconds", "of one epoch", "rows out", "÷ state modules", "rows kept", "bytes kept"),
        lines,
    )
    bench.report.note(
        "Each way runs the whole stream from a new checkpoint into Parquet files, in turn, after a run over "
        f"{few.rows:,} rows an epoch; twice where it takes less than {TWICE:.0f} s, and the faster run counts. Of one "
        f"epoch: the median of {EPOCHS}. Spark's own join is stopped after {LIMIT:.0f} s. Kept: after the last epoch; "
        "for RocksDB the size of its SST files, for the store in memory what Spark reports for its own. Formats are "
        "values of `spark.sql.streaming.join.stateFormatVersion`; 2 is Spark's default, and 3 and 4 need RocksDB. "
        "Changelog: `changelogCheckpointing.enabled` is on and `trackTotalNumberOfRows` off, so no rows are counted."
    )


def _run(bench: Bench, case: Case, way: str) -> Done | None:
    return bench.run_way(way, case.streams, case.text if way == OURS else case.own or case.text, LIMIT)


def _case(bench: Bench, case: Case, lines: list[tuple[str, ...]]) -> tuple[str, ...]:
    found = {way: _run(bench, case, way) for way in (OURS, *SPARK)}
    for way, done in found.items():
        if done and done.seconds < TWICE and (again := _run(bench, case, way)) and again.seconds < done.seconds:
            found[way] = again
    ours = found[OURS]
    assert ours is not None
    for way, done in found.items():
        label = f"{case.name}, {case.rows:,}: {way}"
        if done is None:
            lines.append((label, f"> {LIMIT:.0f}", "", "", f"> {LIMIT / ours.seconds:.2f}", "", ""))
            continue
        if done.rows != ours.rows:
            raise AssertionError(f"the ways differ in their rows: {way} {done.rows:,}, {OURS} {ours.rows:,}")
        ratio = "" if way == OURS else f"{done.seconds / ours.seconds:.2f}"
        kept = f"{done.kept:,}" if done.kept else "not counted"
        epoch = f"{median(done.epochs):.2f}"
        lines.append((label, f"{done.seconds:.2f}", epoch, f"{done.rows:,}", ratio, kept, f"{done.bytes:,}"))
    best, way = min((done.seconds, way) for way, done in found.items() if done and way != OURS)
    faster = best / ours.seconds
    shown = bench.report.judged(f"{faster:.2f}×", faster >= case.target)
    return f"{case.name}, {case.rows:,}", f"{ours.seconds:.2f} s", f"{best:.2f} s", way, shown, f"{case.target:g}"
