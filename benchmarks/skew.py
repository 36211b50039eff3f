"""Joins by keys and bands over skewed data: how much longer they take than over even data, and the longest task.

Each condition runs over two variants of its tables, in turn.  Tables are not broadcast, as larger ones are not, and
Spark's limits for a skewed partition (256 MB) are divided by the same as the rows, so that adaptive execution splits
partitions here as it does there.  Tasks are compared by the rows that they read from shuffles, which no other process
on the machine changes, and by their time.  Spark splits by bytes, and equal values have fewer: so a task of many equal
rows may have more rows than others, and no more time.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING
from zlib import crc32

from benchmarks import harness
from benchmarks.keys import KINDS, Shape, some_of
from benchmarks.plain_spark import seconds_within
from benchmarks.stage_tasks import StageTasks
from dovetail import Optimizer
from tests.tpc import data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

PROGRAM, VERSION = "skew", 1  # count up when a table below changes
ROWS, QUICK_ROWS, ROUNDS = 3_000_000, 300_000, 3
PER_INTERVAL = 15  # rows of the left side to one of the right side
SLOWER, LONGEST = 1.3, 3  # targets: time ÷ that of even data, longest task ÷ median
SPREAD, LIMIT = "spark.sql.shuffle.spreadNullJoinKeys.enabled", 60.0  # Spark's setting; seconds of plain Spark
CLUSTER = "local-cluster[2,1,1024]"
SETTINGS = {
    "spark.sql.shuffle.partitions": "32",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "1m",
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "2m",
    "spark.sql.files.maxPartitionBytes": "1m",  # a partition is split into the outputs of tasks before it
}


@dataclass(frozen=True)
class Case:
    """A condition, and columns of the sides that replace those of even data."""

    shape: Shape
    left: tuple[str, ...] = ()
    right: tuple[str, ...] = ()


def _draw(number: int, below: int) -> str:
    return f"pmod(xxhash64(id, {number}), {below})"


_BAND = "a.x BETWEEN b.x AND b.until"
_OPEN = "a.k = b.k AND a.x >= b.x AND (a.x < b.until OR b.until IS NULL)"
_OR = "a.y = b.y OR a.name = b.name"
_ANY = "(a.y = b.y OR b.y IS NULL) AND (a.name = b.name OR b.name IS NULL)"
CASES = {
    "half of the points at one value": Case(Shape(_BAND), left=("if(id % 2 = 0, 1000, x) AS x",)),
    "points of one key, 90 %": Case(Shape(f"a.k = b.k AND {_BAND}"), left=("if(id % 10 > 0, 7, k) AS k",)),
    "points without a key, 90 %": Case(Shape(f"a.k = b.k AND {_BAND}"), left=("if(id % 10 > 0, NULL, k) AS k",)),
    "one interval in 1,000 is open": Case(Shape(_OPEN), right=("if(id % 1000 = 0, NULL, until) AS until",)),
    "OR, one value in 90 %": Case(Shape(_OR), left=("if(id % 10 > 0, 7, y) AS y",)),
    "OR, NULL in 90 %": Case(Shape(_OR), left=("if(id % 10 > 0, NULL, y) AS y",)),
    "one mask in 90 % of the rules": Case(
        Shape(_ANY, "rules"), right=("if(id % 10 > 0, NULL, y) AS y", "coalesce(name, 'n0') AS name")
    ),
}


def tables(rows: int) -> dict[str, str]:
    """The query of each table, over even data."""
    few = rows // PER_INTERVAL
    long_ = 100 * few
    side = f"{_draw(2, 200)} AS k, {_draw(3, rows)} AS y, concat('n', {_draw(4, rows)}) AS name"
    interval = f"{_draw(5, long_)} AS x, {_draw(5, long_)} + {_draw(6, 300)} AS until"
    y, name = f"if(id % 3 = 0, NULL, {_draw(7, rows)})", f"if(id % 3 = 1, NULL, concat('n', {_draw(8, rows)}))"
    return {
        "a": f"SELECT id, {_draw(1, long_)} AS x, {side} FROM range({rows})",
        "b": f"SELECT id, {interval}, {side} FROM range({few})",
        "rules": f"SELECT id, {y} AS y, {name} AS name FROM range({max(few // 100, 20)})",
    }


KEYED = ("points of one key, 90 %", "points without a key, 90 %")  # plain Spark joins them by the key
FEWER = 10  # times fewer rows, where plain Spark compares all rows of a key


class Bench:
    """The tables, and the measurements."""

    def __init__(self, spark: SparkSession, rows: int) -> None:
        self.spark, self.optimizer, self.folder = spark, Optimizer(spark), data.home() / PROGRAM / f"v{VERSION}"
        self.rows = rows
        self.tasks = StageTasks(spark)

    def read(self, case: Case, *, skewed: bool) -> dict[str, str]:
        """Make the tables of a case unless they are there, and read them; return their folders."""
        changes = {"a": case.left, case.shape.other: case.right} if skewed else {"a": (), case.shape.other: ()}
        queries, folders = tables(self.rows), {}
        for name, items in changes.items():
            names = [item.rpartition(" AS ")[2] for item in items]
            query = f"SELECT * EXCEPT ({', '.join(names)}), {', '.join(items)} FROM ({queries[name]})"
            target = self.folder / "-".join((name, str(self.rows), *(("even",) if not items else names), _hash(items)))
            harness.keep(self.spark.sql(query if items else queries[name]), target)
            self.spark.read.parquet(str(target)).createOrReplaceTempView(name)
            folders[name] = str(target)
        return folders

    def line(self, name: str, kind: str, rounds: int) -> tuple[str, ...]:
        """A line of the table."""
        case, found = CASES[name], []
        text = case.shape.query(kind)
        for skewed in (False, True):
            self.read(case, skewed=skewed)
            plan = self.optimizer.plan(text)
            if not plan.rewritten:
                return name, kind, "left to Spark" + (", as is even data" if not skewed else ""), "", "", "", ""
            self.optimizer.sql(text).collect()
            before = self.tasks.last_stage()
            times = [harness.seconds(lambda: self.optimizer.sql(text).collect()) for _ in range(rounds)]
            found.append((median(times), self.tasks.longest(before)))
        (even, _), (time, (by_rows, by_time)) = found
        figures = (f"{even:.2f} s", f"{time:.2f} s", f"{time / even:.2f}", f"{by_rows:.1f}", f"{by_time:.1f}")
        harness.console.print(name, kind, *figures, highlight=False)
        return name, kind, *figures

    def against_plain(self, name: str, kind: str, rounds: int) -> tuple[str, ...]:
        """A line of the part `plain`: plain Spark, as it is and with the setting that spreads rows without a key."""
        case = CASES[name]
        text = case.shape.query(kind)
        folders = self.read(case, skewed=True)
        self.optimizer.sql(text).collect()
        ours = median(harness.seconds(lambda: self.optimizer.sql(text).collect()) for _ in range(rounds))
        plain = [seconds_within(LIMIT, text, {**folders, **SETTINGS, SPREAD: on}) for on in ("false", "true")]
        best = min(LIMIT if took is None else took for took in plain)
        shown = (f"> {LIMIT:.0f} s" if took is None else f"{took:.1f} s" for took in plain)
        return name, kind, f"{ours:.2f} s", *shown, f"{'> ' if plain == [None, None] else ''}{best / ours:.1f} ×"


def _hash(items: tuple[str, ...]) -> str:
    return f"{crc32(repr(items).encode()) % 10_000}" if items else "0"


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, help=f"rows of the left side; {ROWS:,}, or {QUICK_ROWS:,} with --quick")
    help_ = f"cluster: on {CLUSTER}; plain: compared with plain Spark"
    parser.add_argument("part", nargs="?", choices=("", "cluster", "plain"), default="", help=help_)
    parser.add_argument("--kinds", type=some_of(KINDS), default=KINDS[:4] + KINDS[5:], help=",".join(KINDS))


def _against_even(spark: SparkSession, report: harness.Report, rows: int, rounds: int, kinds: Sequence[str]) -> None:
    bench, master = Bench(spark, rows), spark.sparkContext.master
    report.table(
        f"{rows:,} × {rows // PER_INTERVAL:,} rows on {master} (targets: ≤ {SLOWER}, ≤ {LONGEST})",
        ("what is skewed", "join", "even", "skewed", "ratio", "longest task ÷ median, rows", "time"),
        [bench.line(name, kind, rounds) for name in CASES for kind in kinds],
    )


def _against_plain(spark: SparkSession, report: harness.Report, rows: int, rounds: int, kinds: Sequence[str]) -> None:
    bench = Bench(spark, rows // FEWER)
    report.table(
        f"Compared with plain Spark, {bench.rows:,} × {bench.rows // PER_INTERVAL:,} rows",
        ("what is skewed", "join", "Dovetail", "plain Spark", "with NULL spread", "faster than the better"),
        [bench.against_plain(name, kind, rounds) for name in KEYED for kind in kinds],
    )
    report.note(f"NULL spread: `{SPREAD}`. Plain Spark runs once, in a process of its own, after a warm-up.")


def main() -> None:
    args = harness.arguments(PROGRAM, __doc__ or "", more=_options)
    rows, rounds = args.rows or (QUICK_ROWS if args.quick else ROWS), 1 if args.quick else ROUNDS
    report = harness.Report(PROGRAM, "Skewed data", args.quick, args.part)
    master = CLUSTER if args.part == "cluster" else f"local[{harness.cores()}]"
    with harness.session(PROGRAM, SETTINGS, master) as spark:
        (_against_plain if args.part == "plain" else _against_even)(spark, report, rows, rounds, args.kinds)
        report.note(f"{harness.medians(rounds)} after one to warm up, with parsing and planning.")
        for name, case in CASES.items():
            report.note(f"{name}: `{case.shape.condition}`")
        report.write(spark)


if __name__ == "__main__":
    main()
