"""Compares the self interval join with Apache Flink: the same events and rows, in processes of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks import harness
from benchmarks.streams.bench import SCHEMA, TIME_FORMAT
from benchmarks.streams.children import Answer, child
from benchmarks.streams.self_join import QUERY

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.streams.bench import Bench

TITLE = "Self interval join of a stream beside Apache Flink"
VARIABLE = "DOVETAIL_FLINK_PYTHON"
MISSING = (
    f"{VARIABLE} does not name a Python that has PyFlink. Make an environment of its own "
    f"(python -m venv flink; flink/bin/pip install apache-flink==2.3.0) and set {VARIABLE}=flink/bin/python"
)
FLINK_QUERY = QUERY.replace("INTERVAL 1 SECOND", "INTERVAL '1' SECOND")
COLUMNS = "id BIGINT, k BIGINT, ts TIMESTAMP(3), v DOUBLE, WATERMARK FOR ts AS ts - INTERVAL '10' SECOND"
SETTINGS = {
    "execution.runtime-mode": "streaming",
    "state.backend.type": "hashmap",
    "execution.checkpointing.interval": "10 s",
    "pipeline.object-reuse": "true",
    "rest.bind-port": "0",
}
EPOCHS = 5
TARGET = 1
JOBS = {"files, first": "csv", "nowhere": "noop", "files": "csv"}  # in this order, in one process


def missing() -> str:
    """What to do where there is no Flink; nothing where there is one."""
    return "" if version(os.environ.get(VARIABLE, "")) else MISSING


def measure(bench: Bench) -> None:
    """Rounds of both engines in turn, each in a new process that does all jobs."""
    python = os.environ[VARIABLE]
    rows, rounds = (5_000, 1) if bench.quick else (1_000_000, 3 if bench.long else 2)
    ours, theirs = _events(bench, rows)
    found: dict[tuple[str, str], list[Answer]] = {}
    counts: dict[str, set[int]] = {"Dovetail": set(), "Flink": set()}
    for number in range(rounds):
        for engine in ("Dovetail", "Flink") if number % 2 == 0 else ("Flink", "Dovetail"):
            with _dovetail() if engine == "Dovetail" else _flink(python) as process:
                for what, sink in JOBS.items():
                    folder = bench.scratch / f"{engine}-{number}-{what}"
                    job = _ours(ours, folder, sink) if engine == "Dovetail" else _theirs(theirs, folder, sink)
                    found.setdefault((what, engine), []).append(process.run_job(job))
                    if sink != "noop":
                        counts[engine].add(_lines(folder / "out"))
                    shutil.rmtree(folder, ignore_errors=True)
    if len(counts["Dovetail"] | counts["Flink"]) != 1:
        raise AssertionError(f"the engines differ in their rows: {counts}")
    (out,) = counts["Flink"]
    cells = []
    for what in JOBS:
        mine = [_medians(found[what, engine]) for engine in ("Dovetail", "Flink")]
        for engine, took in zip(("Dovetail", "Flink"), mine, strict=True):
            ratio = mine[1].ran / took.ran
            cpu = mine[1].cpu / took.cpu
            whole = mine[1].whole / took.whole
            figures = [f"{took.whole:.1f}", f"{took.ran:.1f}", f"{EPOCHS * rows / took.ran:,.0f}", f"{took.cpu:.1f}"]
            judged = bench.report.judged(f"{ratio:.2f}×", ratio >= TARGET)
            than = [f"{whole:.2f}×", judged, f"{cpu:.2f}×"] if engine == "Dovetail" else ["", "", ""]
            cells.append((f"{what}: {engine}", *figures, *than))
    bench.report.table(
        f"{EPOCHS * rows:,} events, 20,000 keys, {out:,} rows out; target: ≥ {TARGET} × Flink's throughput",
        ("rows to, engine", "seconds", "of the job", "events a second", "CPU", "÷ Flink", "of the job", "of CPU"),
        cells,
    )
    bench.report.note(_how(version(python), rounds))


def _how(version: str, rounds: int) -> str:
    return (
        f"Apache Flink {version}, SQL, {harness.cores()} parallel subtasks, state on the heap, checkpoints to files "
        "every 10 seconds, objects reused; Dovetail on as many cores, five epochs. Both read CSV files in the order of "
        "time and write CSV files; nowhere: Flink's `blackhole`, Spark's `noop`. Flink reads the same lines as two "
        "files, one a subtask, since it takes files in no order. Both wait ten seconds for late rows, and return as "
        "many rows. "
        f"{harness.medians(rounds)}, each engine in a new process with a heap of {harness.DRIVER_MEMORY}, in turn. "
        "Seconds: all of it, for the first job from the start of the process. Of the job: Flink's own net runtime, and "
        "for Dovetail from `opt.stream` to the end of the query. The jobs follow each other in one JVM, so the later "
        "ones are warm. CPU: seconds of both cores that the engine's JVM used, which are more exact than the clock "
        "where a machine has other work. Each ratio is Flink's figure by Dovetail's."
    )


def _events(bench: Bench, rows: int) -> tuple[Path, Path]:
    """Folders of the same lines: two files for each epoch, and two files of all epochs."""
    ours, theirs = bench.scratch / "ours", bench.scratch / "theirs"
    ours.mkdir()
    theirs.mkdir()
    for number in range(EPOCHS):
        start, kept = number * 57.4, bench.scratch / ".made"
        position = f"timestamp_millis(CAST(1704067200e3 + ({start} + rand({number}) * 57.4) * 1e3 AS BIGINT))"
        made = bench.spark.range(number * rows, (number + 1) * rows, 1, 2)
        made = made.selectExpr(
            "id", f"CAST(floor(rand({1000 + number}) * 20000) AS BIGINT) AS k", f"{position} AS ts", "id / 7 AS v"
        )
        made.sortWithinPartitions("ts").write.option("timestampFormat", TIME_FORMAT).csv(str(kept))
        for half, part in enumerate(sorted(kept.glob("part-*.csv"))):
            with (theirs / f"{half}.csv").open("ab") as all_epochs, part.open("rb") as lines:
                shutil.copyfileobj(lines, all_epochs)
            part.rename(ours / f"{number:06}-{half}.csv")
        shutil.rmtree(kept)
    return ours, theirs


def _dovetail() -> Any:
    return child([sys.executable, "-m", "benchmarks.streams.dovetail_jobs"])


def _flink(python: str) -> Any:
    from benchmarks.streams import __file__ as here

    program = here.replace("__init__.py", "flink_jobs.py")
    return child([python, program], JVM_ARGS=f"-Xmx{harness.DRIVER_MEMORY}", PYTHONPATH="")


def _ours(events: Path, folder: Path, sink: str) -> dict[str, Any]:
    return {
        "streams": {"s": str(events)},
        "schema": SCHEMA,
        "delay": "10 seconds",
        "per_epoch": 2,
        "query": QUERY,
        "folder": str(folder),
        "sink": sink,
    }


def _theirs(events: Path, folder: Path, sink: str) -> dict[str, Any]:
    files = f"'connector' = 'filesystem', 'path' = '{folder / 'out'}', 'format' = 'csv'"
    to = "'connector' = 'blackhole'" if sink == "noop" else files
    cores = str(harness.cores())
    return {
        "settings": {
            **SETTINGS,
            "parallelism.default": cores,
            "taskmanager.numberOfTaskSlots": cores,
            "execution.checkpointing.dir": f"file://{folder / 'checkpoints'}",
        },
        "tables": [
            f"CREATE TABLE s ({COLUMNS}) WITH ('connector' = 'filesystem', 'path' = '{events}', 'format' = 'csv')",
            f"CREATE TABLE o (id BIGINT, bid BIGINT, k BIGINT, ts TIMESTAMP(3)) WITH ({to})",
        ],
        "insert": f"INSERT INTO o {FLINK_QUERY}",
    }


def _medians(found: list[Answer]) -> Answer:
    return Answer(median(a.whole for a in found), median(a.ran for a in found), median(a.cpu for a in found))


def _lines(folder: Path) -> int:
    """How many lines the files of a folder have; those that Flink hides are not committed."""
    total = 0
    for file in folder.rglob("*"):
        if file.is_file() and not file.name.startswith((".", "_")):
            with file.open("rb") as lines:
                total += sum(chunk.count(b"\n") for chunk in iter(lambda: lines.read(1 << 20), b""))
    return total


def version(python: str) -> str:
    """The version of the Flink that a Python has; nothing where it has none."""
    if not shutil.which(python):
        return ""
    text = "import importlib.metadata as m; print(m.version('apache-flink'))"
    return subprocess.run([python, "-c", text], capture_output=True, text=True, check=False).stdout.strip()
