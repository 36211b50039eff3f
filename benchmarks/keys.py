"""Joins by keys: OR, IN, arrays, bands, NULL as any value, boxes, distances; Dovetail, plain Spark and DuckDB.

All read the same Parquet files and return a count and two sums, which are compared: of all three on a few rows, and of
Dovetail and DuckDB at full size.  Plain Spark and DuckDB are stopped after a limit, or when what they are compared for
is known: plain Spark at 60 times the time of Dovetail, DuckDB at ten times.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from threading import Timer
from time import perf_counter
from typing import TYPE_CHECKING, Any

import duckdb

from benchmarks import harness
from benchmarks.plain_spark import seconds_within
from dovetail import Optimizer, Options
from tests.tpc import data

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM, VERSION = "keys", 4  # count up when a table below changes
ROWS, QUICK_ROWS, CHECKED_ROWS = 200_000, 20_000, 2_000
ROUNDS = 3
AT_LEAST = 50  # times plain Spark
ENOUGH, ENOUGH_OF_DUCKDB = 60, 10  # times the time of Dovetail after which they are stopped
KINDS = ("inner", "left", "right", "full", "semi", "anti")


@dataclass(frozen=True)
class Shape:
    """A condition of ``a`` and another table; ``duck`` is its text where DuckDB has another name for a function."""

    condition: str
    other: str = "b"
    duck: str = ""

    def query(self, kind: str, *, duck: bool = False) -> str:
        """The join as one row: a count and sums."""
        on = self.duck or self.condition if duck else self.condition
        if kind in ("semi", "anti"):
            test = "EXISTS" if kind == "semi" else "NOT EXISTS"
            return f"SELECT count(*), sum(a.id), sum(a.x) FROM a WHERE {test} (SELECT 1 FROM {self.other} b WHERE {on})"
        return f"SELECT count(*), sum(a.id), sum(b.id) FROM a {kind.upper()} JOIN {self.other} b ON {on}"


_ANY = "(a.x = b.x OR b.x IS NULL) AND (a.y = b.y OR b.y IS NULL)"
SHAPES = {
    "or": Shape("a.x = b.x OR a.name = b.name"),
    "or3": Shape("a.x = b.x OR a.id > 5 AND a.name = b.name OR a.y = b.y"),
    "in": Shape("a.x IN (b.x, b.y)"),
    "element": Shape("array_contains(b.items, a.x)"),
    "arrays": Shape("arrays_overlap(a.items, b.items)", duck="list_has_any(a.items, b.items)"),
    "any": Shape(_ANY, "rules"),
    "any_few": Shape(_ANY, "few_rules"),
    "text": Shape("contains(a.body, b.word)", "words"),
    "case": Shape("CASE WHEN a.id % 2 = 0 THEN a.x = b.x ELSE a.name = b.name END"),
    "bands": Shape("a.x BETWEEN b.x AND b.until OR abs(a.y - b.y) <= 2"),
    "box": Shape("a.lon BETWEEN b.lon AND b.east AND a.lat BETWEEN b.lat AND b.north"),
    "distance": Shape("sqrt(pow(a.lon - b.lon, 2) + pow(a.lat - b.lat, 2)) < 300"),
}


def tables(rows: int) -> dict[str, str]:
    """The query of each table; a row has a few matches under each condition, whatever the size."""
    side = int(1000 * (rows / 2) ** 0.5)  # of the square that the points lie in

    def draw(number: int, below: int) -> str:
        return f"pmod(xxhash64(id, {number}), {below})"

    def one(seed: int) -> str:
        lon, lat = draw(seed + 6, side), draw(seed + 7, side)
        items = ", ".join(draw(seed + number, 3 * rows) for number in (3, 4, 5))
        return (
            f"SELECT id, {draw(seed, rows)} AS x, {draw(seed, rows)} + {draw(seed + 10, 4)} AS until, "
            f"{draw(seed + 1, 2 * rows)} AS y, "
            f"concat('n', {draw(seed + 2, rows)}) AS name, array({items}) AS items, {lon} AS lon, {lat} AS lat, "
            f"concat_ws(' ', transform(sequence(1, 8), i -> left(sha1(concat_ws(' ', id, i, {seed})), 7))) AS body, "
            f"{lon} + {draw(seed + 8, 1000)} AS east, {lat} + {draw(seed + 9, 1000)} AS north FROM range({rows})"
        )

    x, y = f"if(id % 3 = 0, NULL, {draw(41, rows)})", f"if(id % 3 = 1, NULL, {draw(42, 2 * rows)})"
    rules = f"SELECT id, {x} AS x, {y} AS y FROM range"
    few = max(rows // 100, 20)
    words = f"SELECT id, id AS x, left(sha1(concat(id, 'w')), 6) AS word FROM range({max(rows // 10, 20)})"
    return {"a": one(10), "b": one(20), "rules": f"{rules}({rows})", "few_rules": f"{rules}({few})", "words": words}


class Bench:
    """The tables in Spark and in DuckDB, and the ways to run a query over them."""

    def __init__(self, spark: SparkSession, limit: float) -> None:
        self.spark, self.limit, self.optimizer = spark, limit, Optimizer(spark)
        self.duck = duckdb.connect(config={"threads": harness.cores(), "memory_limit": "6GB"})
        self.folders: dict[str, str] = {}

    def read(self, rows: int) -> None:
        """Make the tables of a size unless they are there, and read them."""
        for name, query in tables(rows).items():
            target = data.home() / "keys" / f"v{VERSION}" / f"{name}-{rows}"
            harness.keep(self.spark.sql(query), target)
            self.spark.read.parquet(str(target)).createOrReplaceTempView(name)
            files = str(target / "*.parquet").replace("'", "''")
            self.duck.execute(f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM read_parquet('{files}')")
            self.folders[name] = str(target)

    def check(self, shape: Shape, kind: str) -> None:
        """Compare the answers of all three over the tables of today."""
        text = shape.query(kind)
        forced = Optimizer(self.spark, Options(force=True))
        ways = (self.spark.sql(text).collect, forced.sql(text).collect, lambda: self.in_duckdb(shape, kind, self.limit))
        self.compare(text, *(way() for way in ways))

    def compare(self, text: str, *answers: list[Any] | None) -> None:
        """End the program unless all answers are the same; None is none."""
        found = {tuple(answer[0]) for answer in answers if answer}
        if len(found) > 1:
            sys.exit(f"different answers: {found}\n{text}")

    def in_duckdb(self, shape: Shape, kind: str, limit: float) -> list[Any] | None:
        """The answer of DuckDB; None where it is stopped after the limit, in seconds."""
        stop = Timer(limit, self.duck.interrupt)
        stop.start()
        try:
            return self.duck.execute(shape.query(kind, duck=True)).fetchall()
        except duckdb.InterruptException:
            return None
        finally:
            stop.cancel()

    def line(self, report: harness.Report, name: str, kind: str) -> tuple[str, ...]:
        """A line of the table."""
        shape = SHAPES[name]
        text = shape.query(kind)
        if not self.optimizer.plan(text).rewritten:
            return (name, kind, "", "not rewritten", "", "", "", "")
        ours, seconds = _timed(lambda: self.optimizer.sql(text).collect(), 1 + (1 if report.quick else ROUNDS))
        took = median(seconds[1:])
        limit, duck_limit = min(self.limit, ENOUGH * took), min(self.limit, ENOUGH_OF_DUCKDB * took)
        theirs, duck = _timed(lambda: self.in_duckdb(shape, kind, duck_limit), 1)
        if theirs and duck[0] < 10 and not report.quick:
            duck += _timed(lambda: self.in_duckdb(shape, kind, duck_limit), ROUNDS)[1]
        self.compare(text, ours, theirs)
        ducks = median(duck)
        with harness.console.status(f"{name}, {kind}: plain Spark"):
            plain = seconds_within(limit, text, self.folders)
        faster = (plain or limit) / took
        times = f"{'> ' if plain is None else ''}{faster:,.{1 if faster < 10 else 0}f} ×"  # open where it was stopped
        figures = (
            f"{took:.2f} s",
            f"{plain:.1f} s" if plain else f"> {limit:,.0f} s",
            times if plain is None and faster < AT_LEAST else report.judged(times, faster >= AT_LEAST),
            f"{ducks:.2f} s" if theirs else f"> {duck_limit:,.0f} s",
            report.judged(f"{'' if theirs else '< '}{took / ducks:.2g}", took <= ducks),
        )
        harness.console.print(name, kind, *figures, highlight=False)
        return (name, kind, f"{ours[0][0]:,}", *figures)


def _timed(work: Callable[[], Any], rounds: int) -> tuple[Any, list[float]]:
    """The last answer, and the seconds of each round."""
    answer, times = None, []
    for _ in range(rounds):
        begun = perf_counter()
        answer = work()
        times.append(perf_counter() - begun)
    return answer, times


def some_of(of: tuple[str, ...]) -> Callable[[str], list[str]]:
    """A reader of names that commas separate."""

    def read(text: str) -> list[str]:
        if unknown := [name for name in text.split(",") if name not in of]:
            raise argparse.ArgumentTypeError(f"there is no {unknown[0]!r}; there are {', '.join(of)}")
        return text.split(",")

    return read


def _options(parser: argparse.ArgumentParser) -> None:
    names = tuple(SHAPES)
    parser.add_argument("--rows", type=int, help=f"rows of each table; {ROWS:,}, or {QUICK_ROWS:,} with --quick")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds of plain Spark and of DuckDB; 240")
    parser.add_argument("--shapes", type=some_of(names), default=names, help=f"some of {','.join(names)}; all")
    parser.add_argument("--kinds", type=some_of(KINDS), default=("inner", "left", "anti"), help=",".join(KINDS))


def main() -> None:
    args = harness.arguments(PROGRAM, __doc__ or "", more=_options)
    rows = args.rows or (QUICK_ROWS if args.quick else ROWS)
    cells = [(shape, kind) for shape in args.shapes for kind in args.kinds]
    report = harness.Report(PROGRAM, "Joins by keys", args.quick, packages=("duckdb",))
    with harness.session(PROGRAM) as spark:
        bench = Bench(spark, args.limit)
        bench.read(CHECKED_ROWS)
        for shape, kind in cells:
            bench.check(SHAPES[shape], kind)
        bench.read(rows)
        columns = ("condition", "join", "rows out", "Dovetail", "plain Spark", "faster", "DuckDB", "÷ DuckDB")
        report.table(
            f"{rows:,} × {rows:,} rows (targets: ≥ {AT_LEAST} ×, ≤ 1)",
            columns,
            [bench.line(report, shape, kind) for shape, kind in cells],
        )
        for shape in args.shapes:
            report.note(f"{shape}: `{SHAPES[shape].condition}`")
        report.note(
            f"{harness.medians(1 if args.quick else ROUNDS)} of Dovetail after one to warm up, with parsing and "
            f"planning; plain Spark is stopped after {args.limit:g} s or at {ENOUGH} times the time of Dovetail, "
            f"DuckDB at {ENOUGH_OF_DUCKDB} times. two thirds of the rules of `any` "
            "and `any_few` have a NULL; the latter has one rule to 100 rows, and `text` one "
            "word to ten. semi and anti are EXISTS and NOT EXISTS."
        )
        report.write(spark)


if __name__ == "__main__":
    main()
