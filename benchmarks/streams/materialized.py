"""Measures materialized queries of TPC-H: refreshing and reading the view, compared with recomputing the query."""

from __future__ import annotations

import re
import shutil
from collections import defaultdict
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import duckdb

from benchmarks import harness
from benchmarks.streams.clock import Clock
from dovetail import Optimizer, Options
from dovetail.executor.state.answers import JoinRequest
from dovetail.executor.state.epochs import Epochs
from dovetail.executor.state.files import HadoopFolder
from dovetail.executor.state.segments import Segments
from dovetail.executor.state.sinks import FileOutput
from dovetail.executor.state.store import Store
from dovetail.executor.state.stored_rows import StoredRows
from dovetail.optimizer.views.materialized_view import MaterializedView
from tests.tpc.changing import CHANGE, CHANGING, TABLES, Changing
from tests.tpc.data import queries

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from benchmarks.streams.bench import Bench

TITLE = "TPC-H, materialized"
NAMES = {"Q3": "h03", "Q5": "h05", "Q10": "h10"}
WAYS = {"changes": True, "inserts": False}
LARGER = "larger", 4
WARM_UP = (0.001, 0.01)
JUDGED, TARGET = 0.01, 0.15

START = "the streaming query is planned, started and ended"
SPARK = "Spark's own in an epoch: sources, offsets, commits"
ARRIVED = "what arrived becomes segments, one job"
ASKED = "statements: views, planning, Spark's analysis"
ANSWER = "what is found, added up, into files, one job"
FILES = "files: small ones, names, listing, removing"
ANEW = "segments are written anew"
MANIFEST = "the manifest: all but its files"
VIEW = "the view is made anew"
LOOK = "a look at the view"
REST = "all else in an epoch"
STEPS = (START, SPARK, ARRIVED, ASKED, ANSWER, FILES, ANEW, MANIFEST, REST, VIEW, LOOK)
WATCHED = (
    (START, MaterializedView, "refresh"),
    (REST, Epochs, "__call__"),
    (ARRIVED, Segments, "write"),
    (ASKED, JoinRequest, "answer"),
    (ANEW, Segments, "merge"),
    (ANEW, StoredRows, "_merge"),
    (ANSWER, FileOutput, "write"),
    (FILES, HadoopFolder, "walk", "rename", "delete", "inside", "read", "write"),
    (MANIFEST, Store, "before", "check", "clean", "commit"),
    (VIEW, MaterializedView, "table"),
)


class _Recording(Optimizer):
    """An optimizer that holds the last streaming query that it has started."""

    last: Any = None

    def stream(self, *given: Any, **more: Any) -> Any:
        """Start it."""
        self.last = super().stream(*given, **more)
        return self.last


@dataclass
class _MeasuredView:
    """A materialized view, and the same query over tables.  ``took``: by share of the orders, seconds of either."""

    name: str
    view: MaterializedView
    plain: SparkSession
    text: str
    first: float
    took: dict[float, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    steps: dict[float, list[dict[str, float]]] = field(default_factory=lambda: defaultdict(list))

    def look(self) -> list[Any]:
        """The rows of the view."""
        return self.view.opt.session.table(self.view.name).collect()

    def turn(self, share: float, *, ours_first: bool) -> None:
        """Refresh and look, and recompute, each once."""
        theirs = 0.0 if ours_first else self._recomputed()[0]
        clock = Clock(STEPS)
        start = perf_counter()
        with clock.patched(WATCHED):
            self.view.refresh()
        with clock.running(LOOK):
            rows = self.look()
        ours = perf_counter() - start
        again, expected = self._recomputed()
        if rows != expected:
            raise AssertionError(f"{self.name}: the view differs from the query")
        clock.move(START, SPARK, self._spark() - clock.whole[REST])
        self.took[share].append((ours, theirs or again))
        self.steps[share].append(clock.seconds)

    def _recomputed(self) -> tuple[float, list[Any]]:
        start = perf_counter()
        rows = self.plain.sql(self.text).collect()
        return perf_counter() - start, rows

    def _spark(self) -> float:
        """Seconds of the epochs of the last refresh, as Spark counts them."""
        last: Any = self.view.opt
        return float(sum(p.batchDuration for p in last.last.recentProgress)) / 1000


def measure(bench: Bench) -> None:
    """Changes of orders with their lineitems, the same with inserts alone, and changes of larger tables."""
    scale = 0.01 if bench.quick else 1
    rounds = {0.001: 1, 0.01: 1, 0.1: 1} if bench.quick else {0.001: 4, 0.01: 4, 0.1: 2}
    times, sizes, steps = [], [], []
    ways = [(way, scale, changelog) for way, changelog in WAYS.items()]
    for way, size, changelog in (*ways, (LARGER[0], LARGER[1] * scale, True)):
        measured, folder = _measure(bench, way, size, rounds, changelog=changelog)
        for k in measured:
            times.append((f"{k.name}, {way}", f"{k.first:.1f} s", *(_ratio(bench, k, share) for share in rounds)))
            sizes.append((f"{k.name}, {way}", *_sizes(k, folder)))
            steps.append((f"{k.name}, {way}", k.steps[JUDGED]))
        shutil.rmtree(folder)
    shares = [f"{100 * share:g} %" for share in rounds]
    bench.report.table(
        f"Refresh and look ÷ recomputing, at scale {scale:g}, {LARGER[0]}: at {LARGER[1] * scale:g}; "
        f"target: ≤ {TARGET} at {100 * JUDGED:g} %",
        ("view", "first build", *shares),
        times,
    )
    bench.report.note(
        "Changes of so many of the orders with their lineitems: in `changes` and `larger` half are new and half are "
        "deleted, in `inserts` all are new. Refresh, then collect the view; recompute: plain Spark over Parquet tables "
        "of the same rows, warm. Both in turn, and who goes first changes. Medians, of "
        f"{', '.join(map(str, rounds.values()))} rounds. In each the rows are equal."
    )
    bench.report.table(
        "What is kept ÷ the files of the streams, at the end; columns: those of the files that the query names",
        ("view", "files of the streams", "columns named", "kept of these", "of joined rows", "÷ files", "÷ columns"),
        sizes,
    )
    bench.report.table(
        f"Seconds of a refresh and a look, {100 * JUDGED:g} %",
        ("step", *(name for name, _ in steps)),
        [(step, *(f"{median(s[step] for s in seen):.2f}" for _, seen in steps)) for step in STEPS],
    )


def _measure(
    bench: Bench, way: str, scale: float, rounds: dict[float, int], *, changelog: bool
) -> tuple[list[_MeasuredView], Path]:
    folder = bench.scratch / way
    tables = Changing(scale, folder, changelog=changelog)
    opt, plain = _Recording(bench.spark.newSession(), Options(force=False)), bench.spark.newSession()
    tables.stream(opt.session)
    for name in CHANGING if changelog else ():
        opt.declare_changelog(name, CHANGE)
    measured = []
    for name, query in NAMES.items():
        text, start = queries("tpch")[query], perf_counter()
        view = opt.materialize(text, f"{way}_{name}", state=folder / name)
        measured.append(_MeasuredView(name, view, plain, text.rstrip().rstrip(";"), perf_counter() - start))
    todo = [*((share, False) for share in WARM_UP), *((s, True) for s, times in rounds.items() for _ in range(times))]
    for number, (share, counted) in enumerate(todo):
        orders = round(tables.orders * share)
        if changelog:
            tables.delete(orders - orders // 2)
        tables.insert(orders // 2 if changelog else orders)
        tables.write()
        for name, path in tables.save(folder / f"now{number}").items():
            plain.read.parquet(str(path)).createOrReplaceTempView(name)
        for k in measured:
            with harness.console.status(f"{way}, {k.name}, {100 * share:g} %"):
                k.turn(share, ours_first=number % 2 == 0)
            if not counted:
                k.took.clear()
                k.steps.clear()
        shutil.rmtree(folder / f"now{number}")
    return measured, folder


def _ratio(bench: Bench, measured: _MeasuredView, share: float) -> str:
    ours, theirs = (median(times) for times in zip(*measured.took[share], strict=True))
    ratio = ours / theirs
    judged = bench.report.judged(f"{ratio:.2f}", ratio <= TARGET) if share == JUDGED else f"{ratio:.2f}"
    return f"{ours:.2f} s ÷ {theirs:.2f} s = {judged}"


def _sizes(measured: _MeasuredView, folder: Path) -> tuple[str, ...]:
    """MiB of the streams that a query reads, of the columns that it names, of what is kept; and ratios."""
    words = set(re.findall(r"\w+", measured.text)) | {CHANGE}
    files = [path for name in TABLES if name in words for path in (folder / name).glob("*.parquet")]
    named = duckdb.execute(
        "SELECT sum(total_compressed_size) FROM parquet_metadata($files) WHERE list_contains($names, path_in_schema)",
        {"files": [str(path) for path in files], "names": sorted(words)},
    ).fetchall()[0][0]
    read, state = sum(path.stat().st_size for path in files), _bytes(folder / measured.name / "checkpoint")
    rows = _bytes(folder / measured.name) - state
    sizes = (f"{size / 2**20:,.1f} MiB" for size in (read, named, state, rows))
    return (*sizes, f"{(state + rows) / read:.2f}", f"{(state + rows) / named:.2f}")


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.parquet"))
