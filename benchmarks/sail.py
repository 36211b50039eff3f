"""Bands on Sail: Dovetail, Sail as it comes, Dovetail on Spark, and DuckDB, over the same Parquet files.

Sail runs in a process of its own Python, which has the client of PySpark that Sail supports (``tests/versions.py``
makes it).  Results are a count and a sum, so that nothing is fetched.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).parents[1]
PROGRAM = "sail"
LIMIT = 60.0  # seconds that plain Sail may take
SLOW = 5.0  # seconds; DuckDB runs once where it takes longer
WARM_UP, ROUNDS = 2, 5

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.band_join.cases import Case

    Answer = tuple[int, ...]


def main() -> None:
    import duckdb

    from benchmarks import harness
    from benchmarks.band_join import cases
    from dovetail import Optimizer

    args = harness.arguments(PROGRAM, __doc__ or "")
    rows = 20_000 if args.quick else 2_000_000
    contests = [
        cases.point_in_interval(rows),
        cases.band(rows // 2),
        cases.left_join(rows),
        cases.overlap(rows // 10),
        cases.zipf_band(rows // 10),
    ]
    python = _sail_python()
    report = harness.Report(PROGRAM, "Bands on Sail", args.quick, packages=("duckdb",))
    cells = []
    with (
        harness.session(PROGRAM) as spark,
        duckdb.connect(config={"threads": harness.cores(), "memory_limit": "4GB"}) as duck,
        engine(python, PROGRAM) as sail,
    ):
        optimizer = Optimizer(spark)
        for case in contests:
            for name, table in case.tables:
                table.make(spark)
                spark.read.parquet(str(table.path)).createOrReplaceTempView(name)
            duck_query = over_files(case)
            answers: dict[str, Answer] = {}

            def keep(way: str, run: Callable[[], Any], answers: dict[str, Answer] = answers) -> Callable[[], object]:
                return lambda: answers.update({way: tuple(map(int, run()))})

            ways = {
                "sail": keep("sail", lambda case=case: sail.ask(job_of(case, plain=False))),  # type: ignore[misc]
                "spark": keep("spark", lambda case=case: optimizer.sql(case.query).collect()[0]),  # type: ignore[misc]
                "duck": keep("duck", lambda text=duck_query: duck.sql(text).fetchone()),  # type: ignore[misc]
            }
            once = harness.seconds(ways["duck"])
            slow = {"duck": [once]} if once > SLOW else {}
            in_turn = {way: run for way, run in ways.items() if way not in slow}
            times = harness.in_turn(in_turn, warm_up=WARM_UP, rounds=1 if args.quick else ROUNDS) | slow
            ours, on_spark, in_duck = (median(times[way]) for way in ways)
            if plain := _plain(python, case):
                answers["plain"] = plain[1]
            if len(set(answers.values())) > 1:
                raise SystemExit(f"{case.title}: other answers: {answers}")
            cells.append(
                (
                    case.title,
                    f"{plain[0]:.1f} s" if plain else f"> {LIMIT:.0f} s",
                    f"{ours:.2f} s",
                    f"{on_spark:.2f} s",
                    report.judged(f"{ours / on_spark:.2f}", ours <= on_spark),
                    f"{in_duck:.2f} s",
                    report.judged(f"{ours / in_duck:.2f}", ours <= in_duck),
                )
            )
            harness.console.print(*cells[-1], highlight=False)
        columns = ("", "Sail", "Dovetail on Sail", "Dovetail on Spark", "Sail / Spark", "DuckDB", "Sail / DuckDB")
        report.table(f"{rows:,} points, {rows // 10:,} intervals", columns, cells)
        report.note(
            f"{harness.medians(1 if args.quick else ROUNDS)}, the engines in turn, after {WARM_UP} rounds that do not "
            f"count. Plain Sail runs once and is stopped after {LIMIT:.0f} s; DuckDB runs once if it takes more than "
            f"{SLOW:.0f} s. Times include parsing and planning. Both ratios are of Dovetail on Sail. The distance has "
            f"{rows // 2:,} rows on each side; the overlap and the last row have {rows // 10:,}. The keys of the last "
            "row have a Zipf distribution."
        )
        report.write(spark)


def over_files(case: Case) -> str:
    """The query for DuckDB, with the files as the relations of WITH."""
    views = (f"{name} AS (FROM read_parquet('{table.path}/*.parquet'))" for name, table in case.tables)
    return f"WITH {', '.join(views)} {case.duck or case.query}"


def job_of(case: Case, *, plain: bool) -> dict[str, Any]:
    return {"query": case.query, "tables": {name: str(table.path) for name, table in case.tables}, "plain": plain}


# An engine in a process of its own


class Server:
    """A process of an engine's Python that runs queries."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def ask(self, job: dict[str, Any], limit: float | None = None) -> list[int] | None:
        """Run a query and return its row; None where it takes longer than the limit.  Raises ``RuntimeError``."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        with selectors.DefaultSelector() as waiting:
            waiting.register(self.process.stdout, selectors.EVENT_READ)
            if not waiting.select(limit):
                return None
        answer = json.loads(self.process.stdout.readline() or '{"error": "The engine has ended"}')
        if "error" in answer:
            raise RuntimeError(f"{job['query']}: {answer['error']}")
        return list(answer["row"])


@contextmanager
def engine(python: Path, name: str, jars: Sequence[Path] = ()) -> Iterator[Server]:
    """Start a process of an engine, and end it."""
    settings = os.environ | {"PYSPARK_PYTHON": str(python), "PYTHONPATH": str(ROOT), "RUST_LOG": "off"}
    command = [str(python), "-m", "benchmarks.engine_process", name, ",".join(map(str, jars))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=ROOT, env=settings, text=True, start_new_session=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            yield Server(process)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _plain(python: Path, case: Case) -> tuple[float, Answer] | None:
    """Seconds of plain Sail and its answer; None where it is ended at the limit."""
    with engine(python, PROGRAM) as sail:
        sail.ask({"query": "SELECT 1", "tables": {}, "plain": True})
        begun = perf_counter()
        row = sail.ask(job_of(case, plain=True), LIMIT)
        return row and (perf_counter() - begun, tuple(row))


def _sail_python() -> Path:
    """The Python of Sail's environment, which is made unless it is there."""
    sys.path.insert(0, str(ROOT / "tests"))
    from versions import SAIL, environment

    return environment(SAIL)


if __name__ == "__main__":
    main()
