"""The environment of every part: a session, tables for Spark and DuckDB, and one query run in all ways in turn.

``table`` makes a table from a query, ``compare`` measures a query, and ``COLUMNS`` are the heads of its ``cells``.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import duckdb

from benchmarks import harness
from benchmarks.metrics import Metrics, measured, mebibytes
from dovetail import Optimizer
from dovetail.executor.session.compare import compare
from tests.tpc import data
from tests.tpc.compare import without_partner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

DUCK_MEMORY = "6GB"
MOST_ROWS = 200_000  # that come to Python, where floating sums may differ in their last digits
COLUMNS = (
    "optimizer",
    "plain Spark",
    "faster",
    "DuckDB",
    "MiB read",
    "MiB shuffled",
    "scans",
    "exchanges",
    "broadcasts",
    "same rows",
)

_LIMIT = re.compile(r"\bLIMIT\s+\d+\s*;?\s*\Z", re.IGNORECASE)


@dataclass(frozen=True)
class Result:
    """One query: medians in seconds, what Spark counted, and whether the rows are the same.

    ``duck`` is None where DuckDB did not run.
    """

    ours: float
    plain: float
    duck: float | None
    after: Metrics
    before: Metrics
    same: bool

    @property
    def faster(self) -> float:
        """How many times."""
        return self.plain / self.ours

    @property
    def cells(self) -> tuple[str, ...]:
        """What ``COLUMNS`` are the heads of; before → after where there are two."""
        a, b = self.before, self.after
        return (
            f"{self.ours:.2f} s",
            f"{self.plain:.2f} s",
            f"{self.faster:.2f}×",
            "–" if self.duck is None else f"{self.duck:.2f} s",
            f"{mebibytes(a.read)} → {mebibytes(b.read)}",
            f"{mebibytes(a.shuffled)} → {mebibytes(b.shuffled)}",
            f"{a.scans} → {b.scans}",
            f"{a.exchanges} → {b.exchanges}",
            f"{a.broadcasts} → {b.broadcasts}",
            "yes" if self.same else "NO",
        )


@dataclass
class Bench:
    """Runs queries, and checks that all ways return the same rows."""

    spark: SparkSession
    report: harness.Report
    scratch: Path
    quick: bool = False
    long: bool = False

    def __post_init__(self) -> None:
        self.optimizer = Optimizer(self.spark)
        settings: dict[str, str | bool | int | float | list[str]] = {}
        settings |= {"threads": harness.cores(), "memory_limit": DUCK_MEMORY, "temp_directory": str(self.scratch)}
        self.duck = duckdb.connect(config=settings)

    @property
    def rounds(self) -> int:
        """How often everything is timed."""
        return 1 if self.quick else 3

    def table(self, name: str, query: str, files: int = 4) -> None:
        """Keep the rows of a query as Parquet, unless they are kept, and give them a name in Spark and DuckDB."""
        target = data.home() / "self_join" / f"{name}-{zlib.crc32(f'{query} {files}'.encode()):08x}"
        harness.keep(self.spark.sql(query).repartition(files), target)
        self.view(name, target)

    def view(self, name: str, path: Path) -> None:
        """Give the Parquet of a path a name in Spark and DuckDB."""
        self.spark.read.parquet(str(path)).createOrReplaceTempView(name)
        files = str(path / "*.parquet" if path.is_dir() else path).replace("'", "''")
        self.duck.execute(f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM read_parquet('{files}')")

    def compare(self, text: str, *, duck: bool | str = False, rounds: int = 0) -> Result:
        """Run a query through the optimizer and on plain Spark in turn, and look at what Spark counted.

        ``duck``: in DuckDB as well, or another text for it.  Times go from the text to the last row.
        """
        ways: dict[str, Callable[[], object]] = {
            "plain": lambda: harness.run(self.spark.sql(text)),
            "ours": lambda: harness.run(self.optimizer.sql(text)),
        }
        if duck:
            ways["duck"] = lambda: self.duck.execute(duck if isinstance(duck, str) else text).fetch_arrow_table()
        times = harness.in_turn(ways, warm_up=1, rounds=rounds or self.rounds)
        middle = {name: median(found) for name, found in times.items()}
        before = measured(self.spark, ways["plain"])
        after = measured(self.spark, ways["ours"])
        return Result(middle["ours"], middle["plain"], middle.get("duck"), after, before, self.same(text))

    def same(self, text: str) -> bool:
        """Whether both ways give the same rows; a LIMIT at the end, which leaves open who ties, is taken off first."""
        text = _LIMIT.sub("", text)
        ours, plain = self.optimizer.sql(text), self.spark.sql(text)
        if ours.schema != plain.schema:
            return False
        rows, missing, extra = compare(plain, ours)
        if not missing and not extra:
            return True
        if rows > MOST_ROWS:
            return False
        left, right = plain.collect(), ours.collect()
        return not without_partner(left, right) and not without_partner(right, left)
