"""Compares materialized views of TPC-H with Apache Flink's cascade of joins: the same changes, separate processes."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

from benchmarks import harness
from benchmarks.streams.children import processor_seconds
from benchmarks.streams.flink import SETTINGS, VARIABLE, version
from benchmarks.streams.live_flink import LiveQuery, live_query
from benchmarks.streams.materialized import JUDGED, NAMES
from dovetail import Optimizer, Options
from tests.tpc.changing import CHANGE, CHANGING, TABLES, Changing
from tests.tpc.data import queries

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.streams.bench import Bench
    from dovetail.optimizer.views.materialized_view import MaterializedView

TITLE = "TPC-H, materialized, beside Apache Flink's cascade of joins"
TARGET = 1
LOOKED_FOR = "50 ms"  # how often Flink looks for new files
HEAP = "10g"
NOW = f"CASE WHEN {CHANGE} IN ('delete', 'update_preimage') THEN NULL ELSE row END"
THEN = f"CASE WHEN {CHANGE} IN ('delete', 'update_preimage') THEN row END"


@dataclass
class _Found:
    """What one query took: to be built, and in each round of a share; (seconds, seconds of processors)."""

    ours: tuple[float, float]
    theirs: tuple[float, float]
    rounds: dict[float, list[tuple[tuple[float, float], tuple[float, float]]]] = field(
        default_factory=lambda: defaultdict(list)
    )


def measure(bench: Bench) -> None:
    """One query after the other, over changes of its own; in each round one engine after the other."""
    scale = 0.01 if bench.quick else 0.3
    shares = {0.001: 1, 0.01: 1, 0.1: 1} if bench.quick else {0.001: 2, 0.01: 4, 0.1: 1}
    cells = []
    for name in NAMES:
        with harness.console.status(f"{name}, {TITLE}"):
            found = _measure(bench, name, scale, shares)
        cells.append((f"{name}, seconds", _format_ratio(found.ours, found.theirs, 0), *_cells(bench, found, 0)))
        cells.append((f"{name}, CPU", _format_ratio(found.ours, found.theirs, 1), *_cells(bench, found, 1)))
    headings = [f"{100 * share:g} %" for share in shares]
    bench.report.table(
        f"Refresh and look ÷ Flink's time to its last change, at scale {scale:g}; target: ≤ {TARGET} at "
        f"{100 * JUDGED:g} %",
        ("view", "first build", *headings),
        cells,
    )
    bench.report.note(
        f"Apache Flink {version(os.environ[VARIABLE])}, SQL, {harness.cores()} parallel subtasks, state on a heap of "
        f"{HEAP}, checkpoints to files every 10 seconds, objects reused; it looks for new files every {LOOKED_FOR} and "
        "stays up. Dovetail starts a streaming query for each refresh, which ends with its state in files. Queries "
        "without ORDER BY and LIMIT. Changes of so many of the orders with their lineitems, half are new and half are "
        "deleted: Flink reads them as `debezium-json`, Dovetail as Parquet, both the columns alone that one of the "
        "three queries names. Flink's time is from when the files are there to the last line that its sink prints; "
        "Dovetail's to the collected view. First build: with the start of Flink's process; Dovetail's session is "
        "up, and cold for the first of the queries. CPU: seconds of processors of the engine's JVM until it rests. "
        f"Medians, of {', '.join(map(str, shares.values()))} rounds after one of 0.1 % and one of 1 %. "
        "At the end the rows of both are equal."
    )


def _measure(bench: Bench, name: str, scale: float, shares: dict[float, int]) -> _Found:
    folder = bench.scratch / name
    tables = Changing(scale, folder)
    text = queries("tpch")[NAMES[name]].partition("ORDER BY")[0].strip()
    opt = Optimizer(bench.spark.newSession(), Options(force=False))
    tables.stream(opt.session)
    for table in CHANGING:
        opt.declare_changelog(table, CHANGE)
    jvm: Any = bench.spark._jvm
    pid = jvm.ProcessHandle.current().pid()
    start, before = perf_counter(), processor_seconds(pid)
    view = opt.materialize(text, name, state=folder / "state")
    _ = view.table().collect()
    ours = perf_counter() - start, processor_seconds(pid) - before
    _as_lines(tables, folder / "lines")
    job = _job(tables, folder, text)
    start = perf_counter()
    program = __file__.replace("flink_cascade.py", "flink_views.py")
    with live_query([os.environ[VARIABLE], program], job, JVM_ARGS=f"-Xmx{HEAP}", PYTHONPATH="") as flink:
        took = flink.settled(start)
        found = _Found(ours, (took, processor_seconds(flink.jvm)))
        todo = [(0.001, False), (0.01, False), *((s, True) for s, times in shares.items() for _ in range(times))]
        for number, (share, counted) in enumerate(todo):
            orders = round(tables.orders * share)
            tables.delete(orders - orders // 2)
            tables.insert(orders // 2)
            tables.write()
            mine = _refresh(view, pid) if number % 2 else None
            theirs = _flink(flink, tables, folder)
            mine = mine or _refresh(view, pid)
            if counted:
                found.rounds[share].append((mine, theirs))
        rows = Counter(f"[{', '.join(map(str, row))}]" for row in view.table().collect())
        if rows != flink.result():
            raise AssertionError(f"{name}: the engines differ in their rows: {len(rows)}, {len(flink.result())}")
    return found


def _refresh(view: MaterializedView, pid: int) -> tuple[float, float]:
    start, before = perf_counter(), processor_seconds(pid)
    _ = view.refresh().table().collect()
    return perf_counter() - start, processor_seconds(pid) - before


def _flink(flink: LiveQuery, tables: Changing, folder: Path) -> tuple[float, float]:
    before = processor_seconds(flink.jvm)
    start = _as_lines(tables, folder / "lines")
    took = flink.settled(start)
    return max(took, 0.0), processor_seconds(flink.jvm) - before


def _as_lines(tables: Changing, folder: Path) -> float:
    """Write the newest file of each stream as two of lines, for two subtasks; when they were there."""
    ready = []
    for table in TABLES:
        (folder / table).mkdir(parents=True, exist_ok=True)
        newest = max(tables.streams[table].glob("*.parquet"))
        columns = ", ".join(_columns(tables)[table])
        kind = f"{CHANGE}" if table in CHANGING else f"'insert' AS {CHANGE}"
        for half in range(2):
            to = folder / table / f"{newest.stem}-{half}.json"
            if to.exists():
                continue
            rows = f"SELECT struct_pack({columns}) AS row, {kind} FROM '{newest}' WHERE file_row_number % 2 = {half}"
            rows = rows.replace(f"'{newest}'", f"read_parquet('{newest}', file_row_number = true)")
            hidden = to.with_name(f".{to.name}")
            kinds = f"SELECT {THEN} AS before, {NOW} AS after, if({NOW} IS NULL, 'd', 'c') AS op FROM ({rows})"
            tables.there.execute(f"COPY ({kinds}) TO '{hidden}' (FORMAT json)")
            ready.append((hidden, to))
    for hidden, to in ready:
        hidden.rename(to)
    return perf_counter()


def _columns(tables: Changing) -> dict[str, list[str]]:
    """The columns of each table that one of the queries names."""
    words = {word for query in NAMES.values() for word in re.findall(r"\w+", queries("tpch")[query])}
    return {table: [c for c in _types(tables, table) if c in words] for table in TABLES}


def _types(tables: Changing, table: str) -> dict[str, str]:
    return {str(name): str(type_) for name, type_, *_ in tables.there.execute(f"DESCRIBE {table}").fetchall()}


def _job(tables: Changing, folder: Path, text: str) -> dict[str, Any]:
    """Flink's settings, tables and statement."""
    cores, own = str(harness.cores()), _columns(tables)
    made = []
    for table in TABLES:
        types = _types(tables, table)
        columns = ", ".join(f"{c} {types[c].replace('VARCHAR', 'STRING')}" for c in own[table])
        where = f"'connector' = 'filesystem', 'path' = '{folder / 'lines' / table}', 'format' = 'debezium-json'"
        made.append(f"CREATE TABLE {table} ({columns}) WITH ({where}, 'source.monitor-interval' = '{LOOKED_FOR}')")
    made.append(f"CREATE VIEW answer AS {text}")
    return {
        "settings": {
            **SETTINGS,
            "parallelism.default": cores,
            "taskmanager.numberOfTaskSlots": cores,
            "execution.checkpointing.dir": f"file://{folder / 'checkpoints'}",
        },
        "tables": made,
        "query": "answer",
    }


def _format_ratio(ours: tuple[float, float], theirs: tuple[float, float], which: int) -> str:
    return f"{ours[which]:.1f} ÷ {theirs[which]:.1f} = {ours[which] / theirs[which]:.2f}"


def _cells(bench: Bench, found: _Found, which: int) -> list[str]:
    cells = []
    for share, rounds in found.rounds.items():
        mine, theirs = (median(pair[engine][which] for pair in rounds) for engine in (0, 1))
        ratio = mine / theirs if theirs else float("nan")
        judged = (
            bench.report.judged(f"{ratio:.2f}", ratio <= TARGET) if share == JUDGED and not which else f"{ratio:.2f}"
        )
        cells.append(f"{mine:.2f} ÷ {theirs:.2f} = {judged}")
    return cells
