"""Band joins: the optimizer ÷ plain Spark where plain Spark can finish, and ÷ the same join binned by hand.

Four joins at full size, each ending in `count(*), sum(v * w)`: a point in an interval; the same with lengths up to 10⁷
from a Pareto distribution; a band of constant width; such a band beside an equality on keys with a Zipf distribution.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from benchmarks import harness
from optimizer import Optimizer
from tests.tpc import data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

VERSION = 1  # count up when a table below changes
HAND_TARGET = 1.1
PLAIN_TARGET = 200.0  # times faster
THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"
BAND = 250
KEYS = 10_000
DOMAIN, KEYED_DOMAIN = 10**8, 10**6
LONGEST = 10**7
SLICES = (1_000, 10_000, 50_000, 100_000)  # of a and b: to warm up, for a quick run, what plain Spark can finish


@dataclass(frozen=True)
class Case:
    """One join: as a user writes it, binned by hand as one would first, and by hand after more trials, and how."""

    title: str
    query: str
    by_hand: str = ""
    tuned: str = ""
    how: str = ""


# Data


def tables(shrink: int) -> dict[str, str]:
    """The query that makes each table, from seeded random numbers; `shrink` divides rows and domain alike.

    Spark seeds the n-th task with seed + n, so seeds lie far apart: else two tables would hold the same numbers.
    """
    seeds = iter(range(1_000, 1_000_000, 1_000))
    domain, keyed_domain, rows = DOMAIN // shrink, KEYED_DOMAIN // shrink, 1_000_000 // shrink

    def draw(below: int | str) -> str:
        return f"CAST(rand({next(seeds)}) * {below} AS BIGINT)"

    def ids(count: int) -> str:
        return f"range(0, {count}, 1, 8)"

    def keyed(position: str, value: str) -> str:
        times = f"CAST(round({rows} / {harmonic} / (id + 1)) AS INT)"  # Zipf: the n-th key is 1/n as frequent
        return (
            f"SELECT k, {draw(keyed_domain)} AS {position}, {draw(100)} AS {value} FROM "
            f"(SELECT id AS k, explode(sequence(1, {times})) FROM {ids(KEYS // shrink)}) ORDER BY rand({next(seeds)})"
        )

    harmonic = sum(1 / n for n in range(1, KEYS // shrink + 1))
    intervals, points = rows // 5, rows * 2
    return {
        "points": f"SELECT {draw(domain)} AS x, {draw(100)} AS v FROM {ids(points)}",
        "intervals": f"SELECT lo, lo + {draw(2001)} AS hi, w FROM "
        f"(SELECT {draw(domain)} AS lo, {draw(100)} AS w FROM {ids(intervals)})",
        "pareto": f"SELECT lo, lo + CAST(least(100 / (1 - rand({next(seeds)})), {LONGEST}) AS BIGINT) AS hi, w FROM "
        f"(SELECT {draw(domain)} AS lo, {draw(100)} AS w FROM {ids(intervals)})",
        "a": f"SELECT {draw(domain)} AS x, {draw(100)} AS v FROM {ids(rows)}",
        "b": f"SELECT {draw(domain)} AS y, {draw(100)} AS w FROM {ids(rows)}",
        "keyed_a": keyed("x", "v"),
        "keyed_b": keyed("y", "w"),
    }


def register(spark: SparkSession, shrink: int) -> None:
    """Make the tables unless they are there, and a temporary view of each."""
    home = data.home() / "band_join" / f"{VERSION}-{1_000_000 // shrink}"
    for name, query in tables(shrink).items():
        with harness.console.status(f"making {name}"):
            harness.keep(spark.sql(query), home / name)
        spark.read.parquet(str(home / name)).createOrReplaceTempView(name)
    for name in ("a", "b"):
        for rows in SLICES:
            harness.keep(spark.table(name).limit(rows), home / f"{name}_{rows}")
            spark.read.parquet(str(home / f"{name}_{rows}")).createOrReplaceTempView(f"{name}_{rows}")


# Queries


def point_in_interval() -> Case:
    """Each interval is copied to the bins it touches, one or two of them mostly."""
    return Case(
        "point in interval",
        "SELECT count(*), sum(p.v * i.w) FROM points p JOIN intervals i ON p.x BETWEEN i.lo AND i.hi",
        """
        SELECT count(*), sum(p.v * i.w)
        FROM (SELECT *, x DIV 2000 AS bin FROM points) p
        JOIN (SELECT *, explode(sequence(lo DIV 2000, hi DIV 2000)) AS bin FROM intervals) i
          ON p.bin = i.bin AND p.x BETWEEN i.lo AND i.hi
        """,
    )


def pareto() -> Case:
    """An interval lives on the level whose bins suit its length; a point is looked up on every level."""

    def by_levels(narrowest: int, factor: int, reach: int) -> str:
        widths = [narrowest]
        while widths[-1] * reach < LONGEST:
            widths.append(widths[-1] * factor)
        level = " ".join(f"WHEN hi - lo <= {width * reach} THEN {width}L" for width in widths)
        every = ", ".join(f"{width}L" for width in widths)
        return f"""
        SELECT count(*), sum(p.v * i.w)
        FROM (SELECT *, x DIV width AS bin FROM (SELECT *, explode(array({every})) AS width FROM points)) p
        JOIN (
            SELECT *, explode(sequence(lo DIV width, hi DIV width)) AS bin
            FROM (SELECT *, CASE {level} END AS width FROM pareto)
        ) i
          ON p.width = i.width AND p.bin = i.bin AND p.x BETWEEN i.lo AND i.hi
        """

    return Case(
        "point in interval, Pareto lengths",
        "SELECT count(*), sum(p.v * i.w) FROM points p JOIN pareto i ON p.x BETWEEN i.lo AND i.hi",
        by_levels(narrowest=500, factor=8, reach=1),
        by_levels(narrowest=500, factor=64, reach=16),
        "levels 64× apart, ≤ 17 bins",
    )


def hinted(text: str) -> str:
    """The join of tables that are too large to broadcast, without the sort that Spark would choose."""
    return text.replace("SELECT", "SELECT /*+ SHUFFLE_HASH(b) */", 1)


def band(width: int = 500) -> Case:
    """Each row of one side is copied to the bins that its band touches, two of them mostly."""
    by_hand = f"""
        SELECT count(*), sum(a.v * b.w)
        FROM (SELECT *, x DIV {width} AS bin FROM a) a
        JOIN (
            SELECT *, explode(sequence((y - {BAND}) DIV {width}, (y + {BAND}) DIV {width})) AS bin FROM b
        ) b
          ON a.bin = b.bin AND abs(a.x - b.y) <= {BAND}
        """
    return Case(
        f"|a.x − b.y| ≤ {BAND}",
        f"SELECT count(*), sum(a.v * b.w) FROM a JOIN b ON abs(a.x - b.y) <= {BAND}",
        by_hand,
        hinted(by_hand),
        "hint SHUFFLE_HASH",
    )


def keyed_band(width: int = 500) -> Case:
    """The same, and the bin stands beside the key in the equality."""
    by_hand = f"""
        SELECT count(*), sum(a.v * b.w)
        FROM (SELECT *, x DIV {width} AS bin FROM keyed_a) a
        JOIN (
            SELECT *, explode(sequence((y - {BAND}) DIV {width}, (y + {BAND}) DIV {width})) AS bin FROM keyed_b
        ) b
          ON a.k = b.k AND a.bin = b.bin AND a.x BETWEEN b.y - {BAND} AND b.y + {BAND}
        """
    return Case(
        f"a.k = b.k and |a.x − b.y| ≤ {BAND}",
        "SELECT count(*), sum(a.v * b.w) FROM keyed_a a JOIN keyed_b b "
        f"ON a.k = b.k AND a.x BETWEEN b.y - {BAND} AND b.y + {BAND}",
        by_hand,
        hinted(by_hand),
        "hint SHUFFLE_HASH",
    )


# Measuring


class Answers:
    """Runs queries, and insists that all ways to ask one thing get one answer."""

    def __init__(self, spark: SparkSession):
        self.spark = spark
        self.optimizer = Optimizer(spark)
        self._known: dict[str, tuple[int, int]] = {}

    def ours(self, case: Case) -> None:
        """Run it through the optimizer."""
        self._check(case.title, tuple(self.optimizer.sql(case.query).collect()[0]))

    def theirs(self, case: Case, text: str) -> None:
        """Run a text for a case on plain Spark."""
        self._check(case.title, tuple(self.spark.sql(text).collect()[0]))

    def rows(self, case: Case) -> int:
        """How many rows the join of a case has."""
        return self._known[case.title][0]

    def rewritten(self, case: Case) -> str:
        """Whether the optimizer made something of a case."""
        return "yes" if self.optimizer.plan(case.query).rewritten else "no"

    def _check(self, title: str, answer: tuple[int, int]) -> None:
        known = self._known.setdefault(title, answer)
        if answer != known:
            sys.exit(f"{title}: two answers, {known} and {answer}")


def against_hand(answers: Answers, report: harness.Report, shrink: int, rounds: int) -> None:
    """The optimizer ÷ hand-binned Spark SQL."""
    count = 1_000_000 // shrink
    sizes = f"{2 * count:,} points, {count // 5:,} intervals; {count:,} rows on each side of the others"
    rows, tuned = [], []
    for case in (point_in_interval(), pareto(), band(), keyed_band()):
        ways = {
            "ours": lambda case=case: answers.ours(case),
            "by hand": lambda case=case: answers.theirs(case, case.by_hand),
        }
        if case.tuned:
            ways["tuned"] = lambda case=case: answers.theirs(case, case.tuned)
        with harness.console.status(case.title):
            found = harness.in_turn(ways, warm_up=2, rounds=rounds)
        times = {name: median(all_) for name, all_ in found.items()}
        ratio = times["ours"] / times["by hand"]
        cells = (
            f"{answers.rows(case):,}",
            answers.rewritten(case),
            f"{times['ours']:.2f} s",
            f"{times['by hand']:.2f} s",
        )
        rows.append((case.title, *cells, report.judged(f"{ratio:.2f}", ratio <= HAND_TARGET)))
        if case.tuned:
            tuned.append((case.title, case.how, f"{times['tuned']:.2f} s", f"{times['ours'] / times['tuned']:.2f}"))
        harness.console.print(case.title, *(f"{name} {time_:.2f} s" for name, time_ in times.items()), highlight=False)
    report.table(
        f"÷ Spark SQL binned by hand (target ≤ {HAND_TARGET}); {sizes}",
        ("join", "rows out", "rewritten", "optimizer", "by hand", "ratio"),
        rows,
    )
    report.table(
        "÷ the best that more trials by hand found, with the data known", ("join", "how", "by hand", "ratio"), tuned
    )


def against_plain(answers: Answers, report: harness.Report, sizes: Sequence[int], rounds: int) -> None:
    """The optimizer ÷ plain Spark, which runs once: it takes minutes, and a nested loop needs no long warm-up."""
    rows = [one_against_plain(answers, report, size, rounds) for size in sizes]
    answers.spark.conf.set(THRESHOLD, "-1")
    title, *cells = one_against_plain(answers, report, sizes[0], rounds)
    answers.spark.conf.unset(THRESHOLD)
    rows.append((f"{title}, no broadcast", *cells))
    report.table(
        f"|a.x − b.y| ≤ {BAND}: ÷ plain Spark, at sizes that it can finish (target ≥ {PLAIN_TARGET:.0f}×)",
        ("rows", "rows out", "rewritten", "optimizer", "plain Spark", "faster"),
        rows,
    )


def one_against_plain(answers: Answers, report: harness.Report, size: int, rounds: int) -> tuple[str, ...]:
    """Time both on the first rows of both tables, and give a line of the table."""

    def at(count: int) -> Case:
        query = f"SELECT count(*), sum(a.v * b.w) FROM a_{count} a JOIN b_{count} b ON abs(a.x - b.y) <= {BAND}"
        return Case(f"{count:,} × {count:,}", query)

    small, case = at(SLICES[0]), at(size)
    for _ in range(3):
        answers.theirs(small, small.query)
    with harness.console.status(f"{case.title} on plain Spark, once"):
        plain = harness.seconds(lambda: answers.theirs(case, case.query))
    ours = median(harness.in_turn({"ours": lambda: answers.ours(case)}, warm_up=2, rounds=rounds)["ours"])
    faster = report.judged(f"{plain / ours:,.0f}×", plain / ours >= PLAIN_TARGET)
    harness.console.print(f"{case.title} ours {ours:.2f} s plain Spark {plain:.1f} s", highlight=False)
    return (case.title, f"{answers.rows(case):,}", answers.rewritten(case), f"{ours:.2f} s", f"{plain:.1f} s", faster)


def main() -> None:
    args = harness.arguments("band_join", __doc__ or "")
    rounds = 1 if args.quick else 7
    report = harness.Report("band_join", "Band joins: the optimizer, plain Spark, and bins by hand", args.quick)
    with harness.session("band_join") as spark:
        shrink = 10 if args.quick else 1
        register(spark, shrink)
        answers = Answers(spark)
        against_hand(answers, report, shrink, rounds)
        against_plain(answers, report, [10_000] if args.quick else [50_000, 100_000], rounds)
        report.note(
            f"{harness.medians(rounds)} after two rounds of warm-up, all ways in turn; plain Spark ran once. Times "
            "go from SQL text to the answer, so they include parsing, planning, and what the optimizer asks about "
            "the tables. All ways gave the same answer."
        )
        report.note(
            "By hand: bins as wide as the longest interval or the band; for Pareto lengths one level of bins for "
            "each 8× of length. Join hints are tried on the last two only, since Spark broadcasts the intervals "
            "unasked."
        )
        report.note(
            "Tables for plain Spark are one Parquet file each, which Spark knows to be small: it broadcasts one and "
            f"loops in one task of generated code. “No broadcast” sets `{THRESHOLD}` to -1 for both, as if the tables "
            "were larger than it or of unknown size: then Spark takes a CartesianProduct."
        )
        report.write(spark)


if __name__ == "__main__":
    main()
