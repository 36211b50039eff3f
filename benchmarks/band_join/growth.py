"""Measures how time grows from 10⁵ to 10⁷ rows, with a domain and an output that grow with the rows."""

from __future__ import annotations

from math import log
from statistics import median
from typing import TYPE_CHECKING

from benchmarks import harness
from benchmarks.band_join import cases
from benchmarks.band_join.bench import NOT_REWRITTEN

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.band_join.bench import Bench
    from benchmarks.band_join.cases import Case

TITLE = "How time grows with rows"
TARGET = 1.1
SIZES, QUICK_SIZES = (10**5, 10**6, 10**7), (10**4, 10**5)
JOINS: tuple[Callable[[int], Case], ...] = (
    cases.point_in_interval,
    cases.left_join,
    cases.band,
    cases.overlap,
    cases.zipf_band,
)

BINNED = f"""
    SELECT count(*), sum(a.v * b.v)
    FROM (SELECT *, x // {cases.BAND} AS bin FROM a) a
    JOIN (SELECT *, x // {cases.BAND} + unnest([-1, 0, 1]) AS bin FROM b) b
      ON a.k = b.k AND a.bin = b.bin AND a.x BETWEEN b.x - {cases.BAND} AND b.x + {cases.BAND}
"""


def measure(bench: Bench) -> None:
    """One table, with a line for each join and size."""
    sizes = QUICK_SIZES if bench.quick else SIZES
    rows: list[tuple[str, ...]] = []
    for join in JOINS:
        rows += lines(bench, join, sizes)
    bench.report.table(
        f"Exponent: log of the times' ratio ÷ log of the ratio of input + output (target ≤ {TARGET})",
        ("join", "rows in", "rows out", "optimizer", "exponent since the size before"),
        rows,
    )
    bench.report.note(
        "The smaller sizes have medians of three rounds after two of warm-up, the largest has two rounds. Times go "
        "from SQL text to the answer, so at the smallest size they are mostly planning. DuckDB gave the same answers, "
        "for Zipf keys over bins by hand, since it would make all pairs of a key."
    )


def at(join: Callable[[int], Case], size: int) -> Case:
    """A join of so many rows in all, or of so many points and a tenth as many intervals."""
    return join(size // 2 if join(size).rows_in == 2 * size else size)


def lines(bench: Bench, join: Callable[[int], Case], sizes: tuple[int, ...]) -> list[tuple[str, ...]]:
    """The lines of one join."""
    found: list[tuple[str, ...]] = []
    before: tuple[int, float] | None = None
    for size in sizes:
        case = at(join, size)
        bench.register(case)
        if not bench.rewritten(case):
            found.append((case.title, f"{case.rows_in:,}", "–", NOT_REWRITTEN, "–"))
            continue
        largest = size == SIZES[-1]
        with harness.console.status(f"{case.title}, {size:,} rows"):
            ways = {"ours": lambda case=case: bench.ours(case)}
            rounds = 1 if bench.quick else 2 if largest else 3
            time = median(harness.in_turn(ways, warm_up=0 if largest else 2, rounds=rounds)["ours"])
        with harness.console.status(f"{case.title}, {size:,} rows in DuckDB"):
            confirm(bench, case)
        work = case.rows_in + bench.rows_out(case)
        exponent = "–"
        if before is not None:
            grown = log(time / before[1]) / log(work / before[0])
            exponent = bench.report.judged(f"{grown:.2f}", grown <= TARGET)
        before = (work, time)
        cells = (f"{case.rows_in:,}", f"{bench.rows_out(case):,}", f"{time:.2f} s", exponent)
        found.append((case.title, *cells))
        harness.console.print(*found[-1], highlight=False)
    return found


def confirm(bench: Bench, case: Case) -> None:
    """Ask DuckDB as well."""
    keyed = any(table.kind == "zipf" for _, table in case.tables)
    bench.in_duckdb(case, BINNED if keyed else "")
