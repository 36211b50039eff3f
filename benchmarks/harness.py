"""The harness of all benchmarks: a session, alternating runs, medians, the machine, and tables.

Only ratios within one run are worth keeping: machines differ, and one machine differs from hour to hour. So what is
compared runs in turn, round by round, after a warm-up (a JVM takes a few runs to get to speed), and the order within
a pair changes from round to round.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import platform
import shutil
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from dovetail.executor.session.session import local_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

RESULTS = Path(__file__).parent / "results"
DRIVER_MEMORY = "8g"

console = Console()


def arguments(
    program: str,
    purpose: str,
    parts: Sequence[str] = (),
    more: Callable[[argparse.ArgumentParser], object] = lambda parser: None,
) -> argparse.Namespace:
    """Read the command line that all benchmarks share, with the parts to choose among, and more arguments."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{program}", description=purpose)
    parser.add_argument("--quick", action="store_true", help="small data, few rounds: does the program work?")
    if parts:
        parser.add_argument("parts", nargs="*", metavar="part", help=f"{', '.join(parts)}; all if none is named")
        parser.add_argument("--long", action="store_true", help="also what others take minutes for")
    more(parser)
    args = parser.parse_args()
    if unknown := [part for part in getattr(args, "parts", ()) if part not in parts]:
        parser.error(f"there is no part {unknown[0]!r}; the parts are {', '.join(parts)}")
    return args


# Sessions


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def session(
    program: str, more: Mapping[str, str] | None = None, master: str = f"local[{cores()}]"
) -> Iterator[SparkSession]:
    """Start a quiet session, with as many shuffle partitions as small data can use; by default on all cores here."""
    settings = {
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.log.level": "OFF",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(2 * cores()),
        **(more or {}),
    }
    with local_session(f"dovetail-{program}", master, settings=settings) as spark:
        yield spark


def run(frame: DataFrame) -> None:
    """Compute every row and column of a result, and keep none."""
    frame.write.format("noop").mode("overwrite").save()


def keep(frame: DataFrame, target: Path) -> None:
    """Write a result as Parquet under a name that only a complete one has; made already, it is left as it is."""
    if target.is_dir():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        frame.write.parquet(str(partial / "data"))
        (partial / "data").rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


# Times


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one run."""
    gc.collect()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_turn(ways: Mapping[str, Callable[[], object]], *, warm_up: int, rounds: int) -> dict[str, list[float]]:
    """Run several ways to do the same in turn, and time all but the first rounds; who begins changes each round."""
    names = list(ways)
    for _ in range(warm_up):
        for name in names:
            ways[name]()
    times: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            times[name].append(seconds(ways[name]))
    return times


def percentile(values: Iterable[float], percent: int) -> float:
    """The smallest value that at least so many percent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[math.ceil(len(ordered) * percent / 100) - 1]


def milliseconds(time_: float) -> str:
    """A time as a table shows it."""
    return f"{1000 * time_:.1f} ms"


def medians(rounds: int) -> str:
    """Say how many rounds the figures come from."""
    return f"Medians of {rounds} rounds" if rounds > 1 else "One round"


# Tables


@dataclass
class Report:
    """The report of a benchmark: on the terminal and in `results/<program>.md`, or `<program>_<part>.md` for a part."""

    program: str
    title: str
    quick: bool
    part: str = ""
    packages: Sequence[str] = ()  # whose versions matter, beside Spark's
    tables: list[tuple[str, Sequence[str], list[Sequence[str]]]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def judged(self, figure: str, met: bool) -> str:
        """Mark a figure by whether it meets its target; a quick run has no verdict."""
        return figure if self.quick else f"{figure}, {'met' if met else 'MISSED'}"

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Add a table and print it at once."""
        kept = list(rows)
        self.tables.append((title, columns, kept))
        shown = Table(title=title, title_justify="left")
        for number, column in enumerate(columns):
            shown.add_column(column, justify="left" if number == 0 else "right")
        for row in kept:
            shown.add_row(*row)
        console.print(shown)

    def note(self, text: str) -> None:
        """Add a sentence below the tables."""
        self.notes.append(text)
        console.print(text, highlight=False)

    def write(self, spark: SparkSession) -> Path:
        """Write the report down; a quick run does not overwrite the figures of a full one."""
        lines = [f"# {self.title}", ""]
        if self.quick:
            lines += ["A quick run on small data. It shows that the program works, and no more.", ""]
        lines += [f"- {name}: {value}" for name, value in machine(spark)]
        lines += [f"- {package}: {version(package)}" for package in self.packages]
        words = [f"python -m benchmarks.{self.program}", self.part, "--quick" if self.quick else ""]
        lines += [f"- written by: `{' '.join(filter(None, words))}`", ""]
        for title, columns, rows in self.tables:
            ruler = [":--", *["--:"] * (len(columns) - 1)]
            lines += [f"## {title}", "", _row(columns), _row(ruler), *map(_row, rows), ""]
        for text in self.notes:
            lines += [text, ""]
        RESULTS.mkdir(exist_ok=True)
        name = "_".join(filter(None, (self.program, self.part)))
        target = RESULTS / f"{name}{'-quick' if self.quick else ''}.md"
        target.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
        console.print(f"written: benchmarks/results/{target.name}", highlight=False)
        return target


def machine(spark: SparkSession) -> list[tuple[str, str]]:
    """What the figures were measured on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    java = spark.sql("SELECT java_method('java.lang.System', 'getProperty', 'java.version')").collect()[0][0]
    return [
        ("date", datetime.now(UTC).date().isoformat()),
        ("cores", str(cores())),
        ("memory", f"{memory:.0f} GiB, {DRIVER_MEMORY} of them for Spark"),
        ("Spark", spark.version),
        ("Java", java),
        ("Python", platform.python_version()),
    ]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
