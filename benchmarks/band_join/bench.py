"""The environment of every part: a session, the optimizer, and checks that all ways return the same rows."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import duckdb

from benchmarks import harness
from dovetail import Optimizer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from benchmarks.band_join.cases import Case
    from benchmarks.band_join.data import Table

Answer = list[tuple[Any, ...]]

DUCK_MEMORY = "6GB"
NOT_REWRITTEN = "not rewritten"


@dataclass
class Bench:
    """Runs cases, and checks that all ways return the same rows."""

    spark: SparkSession
    report: harness.Report
    scratch: Path
    quick: bool = False
    long: bool = False
    _known: dict[Case, Answer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.optimizer = Optimizer(self.spark)
        settings: dict[str, str | bool | int | float | list[str]] = {}
        settings |= {"threads": harness.cores(), "memory_limit": DUCK_MEMORY, "temp_directory": str(self.scratch)}
        self.duck = duckdb.connect(config=settings)

    def register(self, case: Case) -> None:
        """Make the tables of a case unless they are there, and a view of each in Spark and in DuckDB."""
        for name, table in case.tables:
            table.make(self.spark)
            self.spark.read.parquet(str(table.path)).createOrReplaceTempView(name)
            self.duck.execute(f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM read_parquet('{files(table)}')")

    def ours(self, case: Case) -> None:
        """Run a case through an optimizer that has not seen it before, from the text to the answer."""
        self.check(case, Optimizer(self.spark).sql(case.query).collect())

    def again(self, case: Case) -> None:
        """The same by an optimizer that remembers what it has measured before."""
        self.check(case, self.optimizer.sql(case.query).collect())

    def plain(self, case: Case, text: str = "") -> None:
        """Run a case, or another text for it, on plain Spark."""
        self.check(case, self.spark.sql(text or case.query).collect())

    def in_duckdb(self, case: Case, text: str = "") -> None:
        """Run a case, or another text for it, in DuckDB."""
        self.check(case, self.duck.execute(text or case.duck or case.query).fetchall())

    def rewritten(self, case: Case) -> bool:
        """Whether the optimizer makes something of a case."""
        return self.optimizer.plan(case.query).rewritten

    def rows_out(self, case: Case) -> int:
        """What the first column, a `count(*)`, adds up to."""
        return sum(row[0] for row in self._known[case])

    def check(self, case: Case, rows: Iterable[tuple[Any, ...]]) -> None:
        """Compare an answer with the one that came first."""
        answer = sorted((tuple(row) for row in rows), key=repr)
        known = self._known.setdefault(case, answer)
        if answer != known:
            sys.exit(f"two answers\n{case.title}: {case.query}\n{case.tables}\n{known[:5]}\n{answer[:5]}")


def files(table: Table) -> str:
    """The Parquet files of a table, for engines that read a pattern."""
    return str(table.path / "*.parquet").replace("'", "''")
