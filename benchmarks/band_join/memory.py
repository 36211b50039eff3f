"""Large joins in a driver of 2 GiB: they finish, and planning brings no side of a join to the driver.

Each join has a process of its own, which keeps Spark's event log and reads it when the session has ended.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import harness
from benchmarks.band_join import cases
from benchmarks.band_join.bench import NOT_REWRITTEN
from benchmarks.band_join.growth import at, confirm
from dovetail import Optimizer

if TYPE_CHECKING:
    from benchmarks.band_join.bench import Bench

TITLE = "Memory: large joins in a driver of 2 GiB"
MEMORY = "2g"
SIZE, QUICK_SIZE = 10**7, 10**5
PLANNED = 2**20  # bytes that planning may bring to the driver, with what each task reports of itself
JOINS = {join.__name__: join for join in (cases.point_in_interval, cases.left_join, cases.zipf_band)}


@dataclass(frozen=True)
class Run:
    """The measurements of a process that runs a join; sizes in bytes."""

    rewritten: bool
    answer: list[list[Any]]
    seconds: float
    planning: int
    result: int
    spilled: int
    heap: int
    java: int
    python: int


# The process that measures


def measure(bench: Bench) -> None:
    """One table, with a line for each join."""
    size = QUICK_SIZE if bench.quick else SIZE
    bench.report.table(
        f"{size:,} rows, `spark.driver.memory={MEMORY}`; target: it finishes",
        (
            "join",
            "rows in",
            "rows out",
            "time",
            "planning to driver",
            "spilled",
            "heap",
            "JVM",
            "Python",
        ),
        [line(bench, name, size) for name in JOINS],
    )
    bench.report.note(
        f"Planning may bring {in_mib(PLANNED)} to the driver: a few rows of statistics, and what Spark's tasks report "
        "of themselves. Heap is the most that Spark's own metrics saw, JVM and Python the most that the processes had "
        "resident. Both spill and what tasks brought are from Spark's event log. DuckDB gave the same answers."
    )


def line(bench: Bench, name: str, size: int) -> tuple[str, ...]:
    """A line of the table."""
    case = at(JOINS[name], size)
    bench.register(case)
    words = [sys.executable, "-m", "benchmarks.band_join.memory", name, str(size)]
    with harness.console.status(f"{case.title} in a process of its own"):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        harness.console.print(done.stderr[-2_000:], highlight=False, markup=False)
        return (case.title, f"{case.rows_in:,}", "–", bench.report.judged("died", False), *["–"] * 5)
    run = Run(**json.loads(done.stdout.splitlines()[-1]))
    if not run.rewritten:
        return (case.title, f"{case.rows_in:,}", "–", NOT_REWRITTEN, *["–"] * 5)
    bench.check(case, [tuple(row) for row in run.answer])
    with harness.console.status(f"{case.title} in DuckDB"):
        confirm(bench, case)
    time_ = bench.report.judged(f"{run.seconds:.1f} s", True)
    planning = bench.report.judged(f"{run.planning / 2**10:.1f} KiB", run.planning <= PLANNED)
    sizes = (in_mib(run.spilled), in_mib(run.heap), in_mib(run.java), in_mib(run.python))
    found = (case.title, f"{case.rows_in:,}", f"{bench.rows_out(case):,}", time_, planning, *sizes)
    harness.console.print(*found, highlight=False)
    return found


def in_mib(size: int) -> str:
    """A size as the table shows it."""
    return f"{size / 2**20:,.0f} MiB"


# The process that is measured


def run(name: str, size: int) -> Run:
    """Plan and run one join."""
    case = at(JOINS[name], size)
    with tempfile.TemporaryDirectory(prefix="dovetail-") as logs:
        settings = {
            "spark.driver.memory": MEMORY,
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": Path(logs).as_uri(),
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.logStageExecutorMetrics": "true",
            "spark.executor.metrics.pollingInterval": "500ms",
            "spark.executor.heartbeatInterval": "1s",
        }
        with harness.session("band_join-memory", settings) as spark:
            for view, table in case.tables:
                spark.read.parquet(str(table.path)).createOrReplaceTempView(view)
            start = time.time()
            plan = Optimizer(spark).plan(case.query)
            planned = time.time()
            answer = [list(row) for row in plan.dataframe().collect()] if plan.rewritten else []
            seconds = time.time() - start
            java = sum(peak(process) for process in descendants(Path("/proc/self")))
        events = [json.loads(text) for file in Path(logs).iterdir() for text in file.open(encoding="utf-8")]
    tasks = [event for event in events if event["Event"] == "SparkListenerTaskEnd" and event.get("Task Metrics")]
    early = [task for task in tasks if task["Task Info"]["Finish Time"] <= 1_000 * planned]
    return Run(
        rewritten=plan.rewritten,
        answer=answer,
        seconds=seconds,
        planning=sum(task["Task Metrics"]["Result Size"] for task in early),
        result=sum(task["Task Metrics"]["Result Size"] for task in tasks),
        spilled=sum(task["Task Metrics"]["Disk Bytes Spilled"] for task in tasks),
        heap=max(heaps(events), default=0),
        java=java,
        python=peak(Path("/proc/self")),
    )


def heaps(events: list[dict[str, Any]]) -> Iterator[int]:
    """Every size of the heap that the log speaks of."""
    for event in events:
        metrics = event.get("Executor Metrics") or event.get("Task Executor Metrics") or {}
        if "JVMHeapMemory" in metrics:
            yield metrics["JVMHeapMemory"]


def descendants(process: Path) -> Iterator[Path]:
    """The processes that a process has started, and those that they have."""
    for listed in process.glob("task/*/children"):
        for child in listed.read_text().split():
            yield Path("/proc", child)
            yield from descendants(Path("/proc", child))


def peak(process: Path) -> int:
    """The most memory that a process had resident."""
    for text in (process / "status").read_text().splitlines():
        if text.startswith("VmHWM:"):
            return 1024 * int(text.split()[1])
    return 0


if __name__ == "__main__":
    print(json.dumps(asdict(run(sys.argv[1], int(sys.argv[2])))))
