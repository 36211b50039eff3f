"""The tables of the benchmarks, from seeded random numbers, kept as Parquet.

A table is named by its kind, its rows and the domain of its positions, so that a larger one with a domain larger in
proportion gives every row as many partners as before.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from benchmarks import harness
from tests.tpc import data

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

VERSION = 2  # count up when a recipe below changes
LONGEST = 10**7  # of the Pareto lengths
ONE_FILE = 100_000  # rows; larger tables are written as eight files
NOON = 1_700_000_000  # where the moments begin, in seconds


@dataclass(frozen=True)
class Table:
    """The parameters of a table; `seed` distinguishes two tables of one kind, `keys` is the number of keys."""

    kind: str
    rows: int
    domain: int
    seed: int = 0
    keys: int = 1_000

    @property
    def name(self) -> str:
        """The folder that it is kept in."""
        return f"{self.kind}-{self.rows}-{self.domain}-{self.keys}-{self.seed}"

    @property
    def path(self) -> Path:
        """Where it is kept."""
        return data.home() / "band_join" / f"v{VERSION}" / self.name

    @property
    def query(self) -> str:
        """The query that makes it.

        Spark seeds the n-th task with seed + n, so seeds lie far apart: else two columns would hold the same numbers.
        """
        seeds = count(zlib.crc32(self.name.encode()) * 1_000_000, 1_000)

        def draw(below: int, type_: str = "BIGINT") -> str:
            return f"CAST(rand({next(seeds)}) * {below} AS {type_})"

        return _RECIPES[self.kind](self, draw)

    def make(self, spark: SparkSession) -> None:
        """Make it unless it is there."""
        with harness.console.status(f"making {self.name}"):
            harness.keep(spark.sql(self.query), self.path)


def _ids(rows: int) -> str:
    return f"range(0, {rows}, 1, {1 if rows <= ONE_FILE else 8})"


# Points: x, v, and a key k


def _points(t: Table, draw: Callable[..., str]) -> str:
    return f"SELECT {draw(t.domain)} AS x, {draw(100)} AS v, {draw(t.keys)} AS k FROM {_ids(t.rows)}"


def _ticks(t: Table, draw: Callable[..., str]) -> str:
    """No two have the same position."""
    x = f"{t.domain // t.rows} * id + {draw(t.domain // t.rows)}"
    return f"SELECT {x} AS x, {draw(100)} AS v, {draw(t.keys)} AS k FROM {_ids(t.rows)} ORDER BY {draw(10**15)}"


def _zipf(t: Table, draw: Callable[..., str]) -> str:
    """The n-th key is 1/n as frequent as the first."""
    harmonic = sum(1 / n for n in range(1, t.keys + 1))
    times = f"CAST(round({t.rows} / {harmonic} / (id + 1)) AS INT)"
    every = f"SELECT id AS k, explode(sequence(1, {times})) FROM range({t.keys}) WHERE {times} > 0"
    return f"SELECT {draw(t.domain)} AS x, {draw(100)} AS v, k FROM ({every}) ORDER BY {draw(10**15)}"


def _giant(t: Table, draw: Callable[..., str]) -> str:
    """Half of the rows have one key."""
    key = f"if({draw(2)} = 0, -1, {draw(t.keys)})"
    return f"SELECT {draw(t.domain)} AS x, {draw(100)} AS v, {key} AS k FROM {_ids(t.rows)}"


def _hot(t: Table, draw: Callable[..., str]) -> str:
    """All within 100 of each other."""
    return f"SELECT {t.domain // 2} + {draw(100)} AS x, {draw(100)} AS v, {draw(t.keys)} AS k FROM {_ids(t.rows)}"


def _clustered(t: Table, draw: Callable[..., str]) -> str:
    """Half of the points lie in a narrow bell in the middle."""
    bell = f"{t.domain // 2} + ({draw(t.domain // 100)} + {draw(t.domain // 100)} - {t.domain // 100})"
    return f"SELECT if({draw(2)} = 0, {bell}, {draw(t.domain)}) AS x, {draw(100)} AS v FROM {_ids(t.rows)}"


def _sparse_points(t: Table, draw: Callable[..., str]) -> str:
    return f"SELECT if({draw(20)} = 0, x, NULL) AS x, v, k FROM ({_points(t, draw)})"


def _ordered_points(t: Table, draw: Callable[..., str]) -> str:
    return f"{_points(t, draw)} ORDER BY x"


def _space(t: Table, draw: Callable[..., str]) -> str:
    """Points with three positions."""
    x, y, z = (f"{draw(t.domain)} AS {name}" for name in "xyz")
    return f"SELECT {x}, {y}, {z}, {draw(100)} AS v FROM {_ids(t.rows)}"


def _moments(t: Table, draw: Callable[..., str]) -> str:
    """Points in time; positions are seconds."""
    return f"SELECT timestamp_micros(1000000 * ({NOON} + x) + 7 * v) AS ts, v FROM ({_points(t, draw)})"


# Intervals: lo, hi, w


def _between(t: Table, draw: Callable[..., str], length: str) -> str:
    begun = f"SELECT {draw(t.domain)} AS lo, {draw(100)} AS w FROM {_ids(t.rows)}"
    return f"SELECT lo, lo + {length} AS hi, w FROM ({begun})"


def _intervals(t: Table, draw: Callable[..., str]) -> str:
    return _between(t, draw, draw(2_001))


def _wide(t: Table, draw: Callable[..., str]) -> str:
    return _between(t, draw, draw(20_001))


def _pareto(t: Table, draw: Callable[..., str]) -> str:
    """Many short ones and a few very long ones."""
    return _between(t, draw, f"CAST(least(100 / (1 - {draw(1, 'DOUBLE')}), {LONGEST}) AS BIGINT)")


def _covering(t: Table, draw: Callable[..., str]) -> str:
    """One covers everything."""
    return f"{_intervals(t, draw)} UNION ALL SELECT 0L, {t.domain}L, 1L"


def _sparse_intervals(t: Table, draw: Callable[..., str]) -> str:
    return f"SELECT if({draw(20)} = 0, lo, NULL) AS lo, hi, w FROM ({_intervals(t, draw)})"


def _ordered_intervals(t: Table, draw: Callable[..., str]) -> str:
    return f"{_intervals(t, draw)} ORDER BY lo"


_RECIPES = {
    "points": _points,
    "ticks": _ticks,
    "zipf": _zipf,
    "giant": _giant,
    "hot": _hot,
    "clustered": _clustered,
    "sparse_points": _sparse_points,
    "ordered_points": _ordered_points,
    "space": _space,
    "moments": _moments,
    "intervals": _intervals,
    "wide": _wide,
    "pareto": _pareto,
    "covering": _covering,
    "sparse_intervals": _sparse_intervals,
    "ordered_intervals": _ordered_intervals,
}
