"""Runs the demo: events and sessions as Parquet, one band join through the optimizer and on plain Spark.

    SELECT s.device, e.kind, count(*) AS events, sum(e.amount) AS amount
    FROM events e JOIN sessions s ON e.ts BETWEEN s.start AND s.end
    GROUP BY s.device, e.kind

No key is equal on both sides, so plain Spark compares every event with every session.  All data follows from a seed and
the number of rows, whatever the machine.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from dovetail.optimizer.api import Optimizer
from dovetail.optimizer.planning.plan import Plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY = """\
SELECT s.device, e.kind, count(*) AS events, sum(e.amount) AS amount
FROM events e JOIN sessions s ON e.ts BETWEEN s.start AND s.end
GROUP BY s.device, e.kind
ORDER BY s.device, e.kind"""

_SEED = 20240101

Row = tuple[Any, ...]
Progress = Callable[[str], AbstractContextManager[object]]


@dataclass(frozen=True)
class Size:
    """Rows of each table, and of the slices that plain Spark is given."""

    events: int = 2_000_000
    sessions: int = 200_000
    slice_events: int = 80_000
    slice_sessions: int = 50_000

    @property
    def pairs(self) -> int:
        """How many pairs a nested loop compares for the whole query."""
        return self.events * self.sessions

    @property
    def slice_pairs(self) -> int:
        """How many pairs a nested loop compares for the slice."""
        return self.slice_events * self.slice_sessions


FULL = Size()
QUICK = Size(200_000, 20_000, 20_000, 10_000)


@dataclass(frozen=True)
class Run:
    """An answer and the seconds it took, planning included."""

    rows: tuple[Row, ...]
    seconds: float


@dataclass(frozen=True)
class Demo:
    """What the demo did: the plan and the answer over all rows, and both ways over the slice."""

    size: Size
    columns: tuple[tuple[str, str], ...]
    plan: Plan
    whole: Run
    plain: Run
    dovetail: Run
    data: Path
    made: float | None

    @property
    def agree(self) -> bool:
        """Whether plain Spark and Dovetail gave the same rows for the slice."""
        return self.plain.rows == self.dovetail.rows

    @property
    def plain_estimate(self) -> float:
        """Seconds for all pairs at the pace of plain Spark over the slice: an estimate, not a measurement."""
        return self.plain.seconds * self.size.pairs / self.size.slice_pairs


def run_demo(
    session: SparkSession, data: Path, size: Size = FULL, progress: Progress = lambda _: nullcontext()
) -> Demo:
    """Make the data unless it is there, and run the query over all of it and, both ways, over the slice."""
    start = perf_counter()
    with progress(f"making {size.events:,} events and {size.sessions:,} sessions"):
        folder, made = make_data(session, data, size)
    seconds = perf_counter() - start if made else None
    opt = Optimizer(session)
    with progress("running the query through the optimizer"):
        _tables(session, folder, "events", "sessions")
        start = perf_counter()
        plan = opt.plan(QUERY)
        frame = plan.dataframe()
        columns = tuple((f.name, f.dataType.simpleString()) for f in frame.schema.fields)
        whole = Run(tuple(tuple(row) for row in frame.collect()), perf_counter() - start)
    with progress("warming up"):
        _tables(session, folder, "events_few", "sessions_slice")
        _run(lambda: session.sql(QUERY))
        _tables(session, folder, "events_slice", "sessions_slice")
        _run(lambda: opt.sql(QUERY))
    with progress("running the slice through the optimizer"):
        dovetail = _run(lambda: opt.sql(QUERY))
    with progress("running the slice on plain Spark"):
        plain = _run(lambda: session.sql(QUERY))
    return Demo(size, columns, plan, whole, plain, dovetail, folder, seconds)


def _run(query: Callable[[], Any]) -> Run:
    start = perf_counter()
    rows = tuple(tuple(row) for row in query().collect())
    return Run(rows, perf_counter() - start)


def _tables(session: SparkSession, folder: Path, events: str, sessions: str) -> None:
    session.read.parquet(str(folder / events)).createOrReplaceTempView("events")
    session.read.parquet(str(folder / sessions)).createOrReplaceTempView("sessions")


def make_data(session: SparkSession, data: Path, size: Size) -> tuple[Path, bool]:
    """The folder with the tables, and whether they had to be made.

    They are made in a folder next to it, which takes its name when all is written: a folder of that name is complete.
    The name contains the numbers of rows and the recipe, so that no other data is taken for these.
    """
    rows = "-".join(str(n) for n in vars(size).values())
    recipe = hashlib.sha256(f"{EVENTS}{SESSIONS}".encode()).hexdigest()[:8]
    folder = data / f"{rows}-{recipe}"
    if folder.is_dir():
        return folder, False
    data.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(prefix=".making-", dir=data))
    try:
        _write(session, making, size)
        making.chmod(0o755)
        try:
            making.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another demo was faster
                raise
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return folder, True


def _write(session: SparkSession, folder: Path, size: Size) -> None:
    files = max(2, os.cpu_count() or 2)

    def save(name: str, select: str, rows: int) -> None:
        frame = session.range(0, rows, 1, files).selectExpr(*(line.strip() for line in select.strip().split("\n")))
        frame.write.parquet(str((folder / name).absolute()))

    def slice_of(name: str, key: str, every: int, rows: int, into: int) -> None:
        whole = session.read.parquet(str((folder / name).absolute()))
        some = whole.where(f"{key} % {every} = 0 AND {key} < {every * rows}")
        some.repartition(into, key).write.parquet(str((folder / f"{name}_slice").absolute()))

    save("events", EVENTS, size.events)
    save("sessions", SESSIONS, size.sessions)
    # As many files as cores, so that plain Spark's nested loop has work for each of them.
    slice_of("events", "event_id", size.events // size.slice_events, size.slice_events, files)
    slice_of("sessions", "session_id", size.sessions // size.slice_sessions, size.slice_sessions, 1)
    few = session.read.parquet(str((folder / "events_slice").absolute())).limit(max(1, size.slice_events // 20))
    few.write.parquet(str((folder / "events_few").absolute()))


def _uniform(salt: int) -> str:
    """SQL for a number in [0, 1) that follows from ``id``."""
    return f"(pmod(xxhash64(id, {_SEED}, {salt}), 1000000007) / 1000000007D)"


def _moment(salt: int) -> str:
    """SQL for a moment in 2024, more often in the evening than at night, in microseconds since the epoch."""
    day = f"floor({_uniform(salt)} * 365) * 86400"
    hour = f"pmod(({_uniform(salt + 1)} + {_uniform(salt + 2)}) / 2 + 0.3D, 1D) * 86400"
    return f"CAST((1704067200 + {day} + {hour}) * 1e6D AS BIGINT)"


def _pick(salt: int, *shares: tuple[int, str]) -> str:
    """SQL for one of some words, by percent."""
    cases, upto = [], 0
    for share, word in shares[:-1]:
        upto += share
        cases.append(f"WHEN {_uniform(salt)} * 100 < {upto} THEN '{word}'")
    return f"CASE {' '.join(cases)} ELSE '{shares[-1][1]}' END"


EVENTS = f"""
id AS event_id
timestamp_micros({_moment(1)}) AS ts
{_pick(4, (60, "view"), (25, "search"), (10, "basket"), (5, "order"))} AS kind
CAST(CASE WHEN {_uniform(4)} * 100 < 85 THEN 0 ELSE 5 + 95 * pow({_uniform(5)}, 3) END AS DECIMAL(10, 2)) AS amount
"""

# Lengths spread evenly over the orders of magnitude between 5 seconds and 2 hours.
_LENGTH = f"CAST(5e6D * pow(1440D, {_uniform(14)}) AS BIGINT)"
SESSIONS = f"""
id AS session_id
CAST(floor(pow({_uniform(15)}, 2) * 50000) AS INT) AS user_id
{_pick(16, (55, "phone"), (35, "desktop"), (10, "tablet"))} AS device
timestamp_micros({_moment(11)}) AS start
timestamp_micros({_moment(11)} + {_LENGTH}) AS end
"""
