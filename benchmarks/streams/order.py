"""Compares sort orders of the rows of a state: the time of a half-join of a small epoch, and the bytes it reads."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.harness import in_turn, run
from benchmarks.metrics import measured, mebibytes
from benchmarks.streams.bench import EVEN, SCHEMA, ZIPF
from dovetail import Optimizer, Options
from dovetail.executor.session.batch import run as run_statement
from dovetail.executor.state.answers import Rows
from dovetail.executor.state.files import HadoopFolder
from dovetail.executor.state.segments import Segments, tagged_query
from dovetail.executor.state.sinks import NoOutput
from dovetail.executor.state.store import Store
from dovetail.optimizer.streams.epochs import Schemas, analyze_schemas, make_epochs, make_request
from dovetail.planner.state.manifest import InputState, Manifest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from benchmarks.streams.bench import Bench
    from dovetail.executor.state.epochs import Epochs
    from dovetail.executor.state.segments import Delta
    from dovetail.planner.state.manifest import Segment
    from dovetail.planner.state.spec import Side

TITLE = "The order of the rows in a state"
QUERY = """SELECT s.id, t.id AS tid FROM s JOIN t
ON s.k = t.k AND s.ts BETWEEN t.ts - INTERVAL 1 SECOND AND t.ts + INTERVAL 1 SECOND"""
NEW, KEYS, SPEED, LOADS = 10_000, 20_000, 1742, 4
ORDERS = {"as it arrived": (), "time": ("ts",), "key, time": ("k", "ts"), "time, key": ("ts", "k")}
KEPT = 1.2
_STATE = 1  # the number of t, whose rows are the state


class _Laid(Segments):
    """Segments that are merged in an order."""

    by: tuple[str, ...] = ()
    filtered = False

    def order(self, number: int) -> tuple[str, ...]:
        """The columns by which a merged segment is sorted."""
        return self.by

    def side(self, session: SparkSession, side: Side, segments: tuple[Segment, ...], which: str = "") -> DataFrame:
        """The rows of a side, with or without the filter that an epoch sets."""
        return super().side(session, side, segments, which if self.filtered else "")


def measure(bench: Bench) -> None:
    """Every order, with and without a filter; for what is new at the end of the state's times, and all over them."""
    rows = 40_000 if bench.quick else 4_000_000
    for name, key in (("even", EVEN), ("Zipf", ZIPF)):
        _measure(bench, name, key, rows)
    bench.report.note(
        f"A merged segment of {rows:,} rows: {LOADS} that arrived one after the other, each out of order. {NEW:,} rows "
        f"arrive on the other stream; {KEYS:,} keys, an equality and a band of one second to either side. The "
        "statement is the one that an epoch plans; its rows go nowhere. Medians, in turn. Filter: the least and the "
        "greatest key and time that a new row can meet, as literals on the columns of the state, by which Parquet's "
        "statistics of files and pages prune; without it no filter but `IS NOT NULL` reaches the files. Rows read: "
        f"what the scans return, new rows included. Bold: at least {KEPT} times as fast as the order of arrival "
        "without a filter. For new rows all over the times an epoch sets no filter, since it would leave hardly a row "
        "behind: both lines of an order are one statement there, and show how far the figures scatter."
    )


def _measure(bench: Bench, name: str, key: str, rows: int) -> None:
    span, soon = rows / LOADS / SPEED, NEW / SPEED
    state_files = bench.events(f"state-{name}", LOADS, rows // LOADS, span=span, keys=KEYS, key=key)
    after = int(LOADS * span / soon)
    new = {
        "after the last of the state": bench.events(f"end-{name}", 1, NEW, span=soon, keys=KEYS, key=key, first=after),
        "all over its times": bench.events(f"all-{name}", 1, NEW, span=LOADS * span, keys=KEYS, key=key),
    }
    streams = bench.session({"s": state_files, "t": state_files}, "9 days")
    opt = Optimizer(streams, Options(force=False))
    join = opt.stream_plan(QUERY).join
    assert join is not None
    known = analyze_schemas(streams, join)
    assert isinstance(known, Schemas)
    states = {}
    for order, by in ORDERS.items():
        store = Store(HadoopFolder(streams, str(bench.scratch / f"{name}, {order}")))
        laid = _Laid(store, join, known.inputs)
        laid.by = by
        request = make_request(opt, join, known, NoOutput())
        epochs = replace(make_epochs(streams, join, known.inputs, store, (request,)), segments=laid)
        states[order] = _State(streams.newSession(), epochs, laid, state_files)
    for where, folder in new.items():
        _beside(bench, f"{name} keys, new rows {where}", states, folder)


class _State:
    """A state in one order."""

    def __init__(self, work: SparkSession, epochs: Epochs, laid: _Laid, state_files: Path):
        self.work, self.epochs, self.laid = work, epochs, laid
        self.epoch, self.probes = -1, 0
        arrived = [self.arrive({"t": file}).inputs[_STATE].segment for file in sorted(state_files.glob("*.parquet"))]
        merged = laid.merge(work, _STATE, tuple(s for s in arrived if s), LOADS, None)
        assert merged is not None
        self.manifest = Manifest(LOADS, (InputState(), InputState((merged,))))

    def arrive(self, files: Mapping[str, Path]) -> Delta:
        """Write what arrives, of tables in the place of the streams."""
        self.epoch += 1
        for stream in ("s", "t"):
            rows = self.work.read.schema(SCHEMA).parquet(str(files.get(stream, next(iter(files.values())))))
            (rows if stream in files else rows.where("false")).createOrReplaceTempView(stream)
        return self.laid.write(run_statement(self.work, tagged_query(self.epochs.join)), self.epoch, None, 0)

    def probe(self, delta: Delta, *, filtered: bool) -> None:
        """Run the statement of an epoch, each time with another literal in the filter, as in each epoch."""
        new = delta.inputs[1 - _STATE].segment
        assert new is not None
        self.laid.filtered, self.probes = filtered, self.probes + 1
        wider = replace(new, marks=tuple(span and (span[0], span[1] + self.probes) for span in new.marks))
        rows = Rows(self.epoch, tuple(i.segments for i in self.manifest.inputs), ((wider,), ()))
        run(self.epochs.requests[0].answer(self.work, self.laid, rows))


def _beside(bench: Bench, title: str, states: Mapping[str, _State], folder: Path) -> None:
    deltas = {order: state.arrive({"s": folder}) for order, state in states.items()}
    ways = {}
    for order, state in states.items():
        delta = deltas[order]
        ways[order] = partial(state.probe, delta, filtered=False)
        ways[f"{order}; filter"] = partial(state.probe, delta, filtered=True)
    times = in_turn(ways, warm_up=1, rounds=1 if bench.quick else 3)
    first = median(times[next(iter(ORDERS))])
    cells = []
    for way, found in times.items():
        took, size = median(found), states[way.split(";")[0]].manifest.inputs[_STATE].bytes
        faster = f"{first / took:.2f}×"
        judged = f"**{faster}**" if first / took >= KEPT else faster
        read = measured(bench.spark, ways[way]).rows
        cells.append((way, f"{took:.2f}", judged, f"{read:,}", mebibytes(size)))
    bench.report.table(title, ("order", "seconds", "faster", "rows read", "MiB of state"), cells)
