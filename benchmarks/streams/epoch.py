"""Measures the time of an epoch step by step, and its jobs and shuffles."""

from __future__ import annotations

from dataclasses import fields
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.metrics import measured
from benchmarks.streams import band, self_join
from benchmarks.streams.clock import Clock
from dovetail import Optimizer, Options, Sink
from dovetail.executor.state.epochs import Epochs, start_epochs
from dovetail.executor.state.files import HadoopFolder
from dovetail.executor.state.sinks import FileOutput, output
from dovetail.executor.state.store import Store
from dovetail.optimizer.streams.epochs import Schemas, analyze_schemas, make_epochs, make_request

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from benchmarks.streams.bench import Bench

TITLE = "What an epoch is made of"
SPARK = "Spark's own: listing the source, offsets, commits"
ARRIVED = "what arrived becomes a segment"
PLANNED = "planning of the statements"
ANALYSED = "views, and Spark's analysis of the statements"
ANSWER = "the answer, in one job, into files"
NAMED = "the sink's files get their names"
ANEW = "segments written anew"
MANIFEST = "the manifest, read and written; what is old is removed"
REST = "all else"
STEPS = (SPARK, ARRIVED, PLANNED, ANALYSED, ANSWER, NAMED, ANEW, MANIFEST, REST)
EPOCHS, RUNS = 5, 3
SMALL, FEW_TARGET = 1_000, 1  # an epoch of few rows takes no longer, in seconds


class _Timed(Epochs):
    """Epochs whose steps are timed, from the second epoch on."""

    clock: Clock
    whole = 0.0

    def __call__(self, batch: DataFrame, epoch: int) -> None:
        """Run an epoch."""
        if epoch == 1:
            self.clock.seconds.update(dict.fromkeys(STEPS, 0.0))
        start = perf_counter()
        with self.clock.running(REST):
            super().__call__(batch, epoch)
        self.whole = (self.whole if epoch else 0.0) + (perf_counter() - start if epoch else 0.0)


def measure(bench: Bench) -> None:
    """The streams of the parts `self_join` and `band`, with few rows and with many."""
    for rows in (500,) if bench.quick else (500, 100_000):
        _measure_size(bench, rows)
    bench.report.note(
        f"Means of {EPOCHS - 1} epochs, the first left out, of the last of {RUNS} runs. Spark's own is the time that "
        "Spark reports for an epoch, without the time in the function that it calls for it."
    )


def _measure_size(bench: Bench, rows: int) -> None:
    stream = bench.events(f"s{rows}", EPOCHS, rows, span=57.4, keys=20_000)
    both = {name: bench.events(f"{name}{rows}", EPOCHS, rows // 2, span=500.0, keys=10) for name in "cv"}
    measured_runs = [
        _measure(bench, bench.session({"s": stream}, "10 seconds"), self_join.QUERY),
        _measure(bench, bench.session(both, "10 seconds"), band.QUERY),
    ]
    cells = [(step, *(_share(seconds[step], sum(seconds.values())) for seconds, _ in measured_runs)) for step in STEPS]
    whole = [sum(seconds.values()) for seconds, _ in measured_runs]
    few = rows < SMALL
    shown = [bench.report.judged(f"{took:.2f}", took <= FEW_TARGET) if few else f"{took:.2f}" for took in whole]
    cells.append(("seconds of an epoch", *shown))
    for n, name in enumerate(("jobs", "shuffles", "broadcasts")):
        cells.append((f"{name} of an epoch", *(f"{counts[n]:.1f}" for _, counts in measured_runs)))
    bench.report.table(
        f"Epochs of {rows:,} rows{f'; target: ≤ {FEW_TARGET} s' if few else ''}",
        ("step", "a stream with itself, key and band", "two streams, a band"),
        cells,
    )


def _share(seconds: float, whole: float) -> str:
    return f"{seconds:.2f} s, {100 * seconds / whole:.0f} %"


def _measure(bench: Bench, session: SparkSession, text: str) -> tuple[dict[str, float], tuple[float, ...]]:
    """Seconds of an epoch by step; its jobs, shuffles and broadcasts."""
    found: dict[str, float] = {}
    jobs = 0

    def once() -> None:
        nonlocal found, jobs
        bench.runs += 1
        found, jobs = _run(session, text, bench.scratch / f"run-{bench.runs}")

    for _ in range(RUNS - 1):
        once()
    counted = measured(bench.spark, once)
    return found, tuple(count / EPOCHS for count in (jobs, counted.exchanges, counted.broadcasts))


def _run(session: SparkSession, text: str, folder: Path) -> tuple[dict[str, float], int]:
    opt = Optimizer(session, Options(force=False))
    join = opt.stream_plan(text).join
    assert join is not None
    known = analyze_schemas(session, join)
    assert isinstance(known, Schemas)
    store = Store(HadoopFolder(session, str(folder / "checkpoint")))
    to = output(session, Sink("parquet", folder / "out"), None, store.open(join))
    assert isinstance(to, FileOutput)
    plain = make_epochs(session, join, known.inputs, store, (make_request(opt, join, known, to),))
    epochs = _Timed(**{f.name: getattr(plain, f.name) for f in fields(plain)})
    epochs.clock = clock = Clock(STEPS)
    clock.watch(epochs.requests[0], PLANNED, "plan")
    clock.watch(epochs.requests[0], ANALYSED, "answer")
    clock.watch(epochs.segments, ARRIVED, "write")
    clock.watch(epochs.segments, ANEW, "merge")
    clock.watch(to, ANSWER, "write")
    clock.watch(to.folder, NAMED, "walk", "inside", "rename", "delete")
    clock.watch(store, MANIFEST, "before", "check", "clean", "commit")
    query = start_epochs(session, epochs, folder / "checkpoint", "available now", None)
    query.awaitTermination()
    spark = sum(p.batchDuration for p in query.recentProgress if p.batchId) / 1000 - epochs.whole
    clock.seconds[SPARK] = spark
    jobs = len(session.sparkContext.statusTracker().getJobIdsForGroup(str(query.runId)))
    return {step: seconds / (EPOCHS - 1) for step, seconds in clock.seconds.items()}, jobs
