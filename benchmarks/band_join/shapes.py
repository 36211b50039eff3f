"""Every shape and kind of data ÷ plain Spark, at sizes that plain Spark can finish: nothing may become slower."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from benchmarks import harness
from benchmarks.band_join.cases import BAND, Case, pair, two
from benchmarks.band_join.data import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.band_join.bench import Bench

TITLE = "÷ plain Spark, every shape and kind of data: nothing may become slower"
SHARE, MOMENT = 1.05, 0.05  # so much slower is noise: 5 % and 50 ms
CLEAR = 2.0  # times faster, and one run of plain Spark is enough
PATIENCE = 5.0  # seconds for the rounds of one line, if three take no longer

Tables = tuple[tuple[str, Table], ...]


# Queries, by the tables that they read


POINT = "SELECT count(*), sum(p.v * i.w) FROM points p JOIN intervals i ON p.x BETWEEN i.lo AND i.hi"
ABOUT = f"SELECT count(*), sum(a.v * b.v) FROM a JOIN b ON abs(a.x - b.x) <= {BAND}"
KEYED = f"SELECT count(*), sum(a.v * b.v) FROM a JOIN b ON a.k = b.k AND a.x BETWEEN b.x - {BAND} AND b.x + {BAND}"
OVERLAP = "SELECT count(*), sum(a.w * b.w) FROM a JOIN b ON a.lo <= b.hi AND b.lo <= a.hi"
HALF_OPEN = "SELECT count(*), sum(a.w * b.w) FROM a JOIN b ON a.lo < b.hi AND b.lo < a.hi"
CONTAINED = "SELECT count(*), sum(a.w * b.w) FROM a JOIN b ON b.lo >= a.lo AND b.hi <= a.hi"
THREE = """
    SELECT count(*), sum(a.v * b.v) FROM a JOIN b
    ON abs(a.x - b.x) <= 5000 AND abs(a.y - b.y) <= 50000 AND a.z BETWEEN b.z - 500 AND b.z + 500
"""
LATER = """
    SELECT count(*), sum(a.v * b.v) FROM a JOIN b ON a.ts BETWEEN b.ts AND b.ts + INTERVAL 10 MINUTES
"""
OUTER = "SELECT count(*), sum(p.v * coalesce(i.w, 7)) FROM points p {} JOIN intervals i ON p.x BETWEEN i.lo AND i.hi"
EVERY_INTERVAL = """
    SELECT count(*), sum(coalesce(p.v, 7) * i.w) FROM intervals i LEFT JOIN points p ON p.x BETWEEN i.lo AND i.hi
"""
FULL = """
    SELECT count(*), sum(coalesce(p.v, 7) * coalesce(i.w, 11))
    FROM points p FULL JOIN intervals i ON p.x BETWEEN i.lo AND i.hi
"""
HALF = "SELECT count(*), sum(p.v) FROM points p LEFT {} JOIN intervals i ON p.x BETWEEN i.lo AND i.hi"
EXISTS = "SELECT count(*), sum(p.v) FROM points p WHERE {} (SELECT 1 FROM intervals i WHERE p.x BETWEEN i.lo AND i.hi)"
UNMATCHED = """
    SELECT count(*), sum(p.v) FROM points p LEFT JOIN intervals i ON p.x BETWEEN i.lo AND i.hi WHERE i.lo IS NULL
"""
HOLDING = "SELECT count(*), sum(i.w) FROM intervals i LEFT SEMI JOIN points p ON p.x BETWEEN i.lo AND i.hi"
COUNTED = "SELECT count(*) FROM points p JOIN intervals i ON p.x BETWEEN i.lo AND i.hi"
GROUPED = """
    SELECT count(*), p.k, sum(i.w) FROM points p JOIN intervals i ON p.x BETWEEN i.lo AND i.hi GROUP BY p.k
"""
COUNTED_BAND = f"SELECT count(*) FROM a JOIN b ON abs(a.x - b.x) <= {BAND}"


# Tables


def kinds(left: str, right: str) -> Callable[[int, int], Tables]:
    """Points and intervals of these kinds, as dense as two intervals to a point if their mean length is 1,000."""
    return lambda m, n: two(Table(left, m, 500 * n), Table(right, n, 500 * n))


def both(kind: str, room: int, **more: int) -> Callable[[int, int], Tables]:
    """Two tables of one kind, with so much room for each row."""
    return lambda m, n: pair(Table(kind, m, room * n, 1, **more), Table(kind, n, room * n, 2, **more))


def mixed(m: int, n: int) -> Tables:
    """Short intervals and such of all lengths."""
    return pair(Table("intervals", m, 500 * n), Table("pareto", n, 500 * n))


def distant(m: int, n: int) -> Tables:
    """Points over ten times the domain of the intervals: nine in ten have no partner."""
    return two(Table("points", m, 5_000 * n), Table("intervals", n, 500 * n))


def sole(m: int, n: int) -> Tables:
    """Two rows to a key."""
    return pair(Table("points", m, 100 * n, 1, n // 2), Table("points", n, 100 * n, 2, n // 2))


@dataclass(frozen=True)
class Shape:
    """A line of the table: a query, its tables, and how many rows they have."""

    title: str
    query: str
    tables: Callable[[int, int], Tables]
    rows: tuple[int, int]

    def case(self, rows: tuple[int, int] | None = None) -> Case:
        """The shape at its own size or another."""
        m, n = rows or self.rows
        return Case(f"{self.title}, {m:,} × {n:,}", self.query, self.tables(m, n))


plain_points = kinds("points", "intervals")
plain_pair = both("points", 100)

SHAPES = (
    Shape("point in interval", POINT, plain_points, (40_000, 15_000)),
    Shape("point in interval, Pareto lengths", POINT, kinds("points", "pareto"), (40_000, 15_000)),
    Shape("band of constant width", ABOUT, plain_pair, (25_000, 25_000)),
    Shape("overlap", OVERLAP, both("intervals", 500), (25_000, 25_000)),
    Shape("overlap, half open", HALF_OPEN, both("intervals", 500), (25_000, 25_000)),
    Shape("overlap, Pareto lengths on both sides", OVERLAP, both("pareto", 500), (25_000, 25_000)),
    Shape("overlap, Pareto lengths on one side", OVERLAP, mixed, (25_000, 25_000)),
    Shape("containment", CONTAINED, both("intervals", 100), (25_000, 25_000)),
    Shape("containment, Pareto lengths", CONTAINED, mixed, (25_000, 25_000)),
    Shape("three bands", THREE, both("space", 100), (20_000, 20_000)),
    Shape("equality and band, Zipf keys", KEYED, both("zipf", 1, keys=1_000), (100_000, 100_000)),
    Shape("equality and band, two rows to a key", KEYED, sole, (500_000, 500_000)),
    Shape("equality and band, one giant key", KEYED, both("giant", 10, keys=20_000), (40_000, 40_000)),
    Shape("point in interval, all points in one bin", POINT, kinds("hot", "intervals"), (40_000, 15_000)),
    Shape("band, all rows in one bin", ABOUT, both("hot", 100), (4_000, 4_000)),
    Shape("one interval covers everything", POINT, kinds("points", "covering"), (40_000, 15_000)),
    Shape("point in interval, 95 % NULL", POINT, kinds("sparse_points", "sparse_intervals"), (150_000, 60_000)),
    Shape("point in interval, 95 % NULL", POINT, kinds("sparse_points", "sparse_intervals"), (400_000, 200_000)),
    Shape("band, 95 % NULL", ABOUT, both("sparse_points", 100), (100_000, 100_000)),
    Shape("already sorted", POINT, kinds("ordered_points", "ordered_intervals"), (40_000, 15_000)),
    Shape("timestamps", LATER, both("moments", 100), (10_000, 10_000)),
    Shape("left join", OUTER.format("LEFT"), plain_points, (40_000, 15_000)),
    Shape("left join, 90 % unmatched", OUTER.format("LEFT"), distant, (40_000, 15_000)),
    Shape("left join that keeps the intervals", EVERY_INTERVAL, plain_points, (15_000, 40_000)),
    Shape("full join", FULL, plain_points, (15_000, 5_000)),
    Shape("semi join", HALF.format("SEMI"), distant, (40_000, 15_000)),
    Shape("semi join that keeps intervals", HOLDING, distant, (40_000, 15_000)),
    Shape("anti join", HALF.format("ANTI"), distant, (40_000, 15_000)),
    Shape("EXISTS", EXISTS.format("EXISTS"), distant, (40_000, 15_000)),
    Shape("NOT EXISTS", EXISTS.format("NOT EXISTS"), distant, (40_000, 15_000)),
    Shape("left join where nothing matched", UNMATCHED, distant, (40_000, 15_000)),
    Shape("count(*)", COUNTED, plain_points, (40_000, 15_000)),
    Shape("count(*), 20 intervals to a point", COUNTED, kinds("points", "wide"), (40_000, 15_000)),
    Shape("count(*), band", COUNTED_BAND, plain_pair, (25_000, 25_000)),
    Shape("GROUP BY the point's key", GROUPED, plain_points, (40_000, 15_000)),
    Shape("GROUP BY, 20 intervals to a point", GROUPED, kinds("points", "wide"), (40_000, 15_000)),
)
TINY = (
    "point in interval",
    "band of constant width",
    "overlap",
    "containment",
    "equality and band, Zipf keys",
    "left join",
    "full join",
    "anti join",
    "count(*)",
    "GROUP BY the point's key",
)
TINY_SIZES: tuple[tuple[int, int], ...] = ((1_000, 1_000), (100, 100_000), (100_000, 100))
CROSSING = ("point in interval", "band of constant width", "overlap", "left join")
CROSSING_SIZES = ((2_000, 2_000), (4_000, 4_000), (8_000, 8_000))


# Measuring


def measure(bench: Bench) -> None:
    """Three tables: sizes where plain Spark takes seconds, tiny ones, and those between."""
    by_title = {shape.title: shape for shape in SHAPES}
    shrink = 5 if bench.quick else 1
    some = slice(1) if bench.quick else slice(None)
    whole = [shape.case((shape.rows[0] // shrink, shape.rows[1] // shrink)) for shape in SHAPES]
    tiny = [by_title[title].case(size) for title in TINY for size in TINY_SIZES[some]]
    crossing = [by_title[title].case(size) for title in CROSSING[some] for size in CROSSING_SIZES]
    for title, those in (("Sizes for seconds", whole), ("Tiny", tiny), ("Small", crossing)):
        bench.report.table(
            f"{title} (target ≤ {SHARE:.2f} × plain Spark + {1000 * MOMENT:.0f} ms)",
            ("join", "rows out", "rewritten", "optimizer", "plain Spark", "ratio"),
            [line(bench, case) for case in those],
        )
    bench.report.note(
        f"Medians of three to seven rounds after a warm-up, both in turn; one run of plain Spark "
        f"where the optimizer is more than {CLEAR:.0f}× faster. Where nothing is rewritten both run the same text, and "
        "what the optimizer adds is its planning. Both gave the same answer."
    )


def line(bench: Bench, case: Case) -> tuple[str, ...]:
    """A line of the table."""
    bench.register(case)
    rewritten = bench.rewritten(case)
    bench.ours(case)
    with harness.console.status(case.title):
        ours, plain = timed(lambda: bench.ours(case), lambda: bench.plain(case), 1 if bench.quick else 7)
    figure = bench.report.judged(f"{ours / plain:.3f}", ours <= SHARE * plain + MOMENT)
    harness.console.print(f"{case.title}: {ours:.3f} s ÷ {plain:.3f} s = {figure}", highlight=False)
    rows = f"{bench.rows_out(case):,}"
    return (case.title, rows, "yes" if rewritten else "no", f"{ours:.3f} s", f"{plain:.3f} s", figure)


def timed(ours: Callable[[], None], plain: Callable[[], None], rounds: int) -> tuple[float, float]:
    """Seconds of both; no more rounds than patience allows, and none if the first runs are enough."""
    first_plain, first_ours = harness.seconds(plain), harness.seconds(ours)
    if rounds == 1:
        return first_ours, first_plain
    if first_plain > CLEAR * first_ours and first_plain > 1:
        return min(first_ours, harness.seconds(ours)), first_plain
    rounds = max(3, min(rounds, int(PATIENCE / (first_plain + first_ours))))
    times = harness.in_turn({"ours": ours, "plain": plain}, warm_up=1 if rounds > 3 else 0, rounds=rounds)
    return median(times["ours"]), median(times["plain"])
