"""The same joins over the same Parquet files in Spark through the optimizer, in DuckDB, and in Polars."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

import polars

from benchmarks import harness
from benchmarks.band_join import cases
from benchmarks.band_join.bench import NOT_REWRITTEN

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.band_join.bench import Answer, Bench
    from benchmarks.band_join.cases import Case

TITLE = "÷ DuckDB and Polars on one machine"
ZIPF, LONG_ZIPF = 200_000, 1_000_000  # rows; DuckDB takes minutes for the second
MOST_POLARS_PAIRS = 30_000_000  # Polars makes the pairs before it adds them up
LARGER = 5  # times a million: what Spark costs whatever the size counts for less there
ROUNDS, LARGE_ROUNDS = 5, 3

Frame = polars.LazyFrame


@dataclass(frozen=True)
class Contest:
    """A case, its target against DuckDB (seconds ÷ seconds), its form in Polars, and its target against Polars."""

    case: Case
    target: float | None
    polars: Callable[[dict[str, Frame]], Frame] | None = None
    polars_target: float | None = None


# Polars


def p_in_i(t: dict[str, Frame]) -> Frame:
    """A point in an interval."""
    x = polars.col("x")
    return t["points"].join_where(t["intervals"], x >= polars.col("lo"), x <= polars.col("hi"))


def about(t: dict[str, Frame]) -> Frame:
    """A band of constant width."""
    x, y = polars.col("x"), polars.col("y")
    right = t["b"].select(y=x, w="v")
    return t["a"].join_where(right, x >= y - cases.BAND, x <= y + cases.BAND)


def overlapping(t: dict[str, Frame]) -> Frame:
    """Two intervals with a point in common."""
    left = t["a"].select("lo", "hi", v="w")
    right = t["b"].select("w", lo2="lo", hi2="hi")
    return left.join_where(right, polars.col("lo") <= polars.col("hi2"), polars.col("hi") >= polars.col("lo2"))


def summed(pairs: Callable[[dict[str, Frame]], Frame]) -> Callable[[dict[str, Frame]], Frame]:
    """`count(*), sum(v * w)`."""
    return lambda t: pairs(t).select(polars.len(), (polars.col("v") * polars.col("w")).sum())


def counted(pairs: Callable[[dict[str, Frame]], Frame]) -> Callable[[dict[str, Frame]], Frame]:
    """`count(*)`."""
    return lambda t: pairs(t).select(polars.len())


def grouped(t: dict[str, Frame]) -> Frame:
    """By the point's key."""
    return p_in_i(t).group_by("k").agg(polars.len(), polars.col("w").sum()).select("len", "k", "w")


def in_polars(contest: Contest) -> Answer:
    """Run a contest in Polars."""
    assert contest.polars is not None
    scanned = {name: polars.scan_parquet(str(table.path / "*.parquet")) for name, table in contest.case.tables}
    return contest.polars(scanned).collect().rows()


# What is compared


def contests(million: int, zipf: int) -> list[Contest]:
    """All of them; `million` and `zipf` are rows."""
    inside = "points p JOIN intervals i ON p.x BETWEEN i.lo AND i.hi"
    wide = cases.points_and("wide", 2 * million)
    pareto = cases.pareto(2 * million)
    count_all, group = f"SELECT count(*) FROM {inside}", f"SELECT count(*), p.k, sum(i.w) FROM {inside} GROUP BY p.k"
    count_band = cases.band(million)
    return [
        Contest(cases.zipf_band(zipf), 1 / 50 if zipf == LONG_ZIPF else None),
        Contest(pareto, 1, summed(p_in_i)),
        Contest(cases.overlap(million // 5, "pareto"), 1, summed(overlapping)),
        Contest(replace(pareto, title="count(*), Pareto lengths", query=count_all), 1, counted(p_in_i)),
        Contest(cases.Case("count(*), 20 intervals to a point", count_all, wide), 1, counted(p_in_i)),
        Contest(
            replace(
                count_band,
                title=f"count(*), {count_band.title}",
                query=count_band.query.replace(", sum(a.v * b.v)", ""),
                duck=count_band.duck.replace(", sum(a.v * b.v)", ""),
            ),
            1,
            counted(about),
        ),
        Contest(cases.Case("GROUP BY the point's key, 20 intervals to a point", group, wide), 1, grouped),
        Contest(cases.point_in_interval(2 * million), 2, summed(p_in_i), 2),
        Contest(cases.band(million), 2, summed(about), 2),
        Contest(cases.overlap(million // 5), 2, summed(overlapping), 2),
        Contest(cases.point_in_interval(LARGER * 2 * million), 2, summed(p_in_i), 2),
        Contest(cases.band(LARGER * million), 2, summed(about), 2),
        Contest(cases.overlap(LARGER * million), 2, summed(overlapping), 2),
    ]


# Measuring


def measure(bench: Bench) -> None:
    """One table."""
    zipf = 50_000 if bench.quick else LONG_ZIPF if bench.long else ZIPF
    rows = [line(bench, contest) for contest in contests(100_000 if bench.quick else 1_000_000, zipf)]
    bench.report.table(
        "Seconds, and the optimizer's ÷ each (with the target where there is one)",
        ("join", "rows in", "rows out", "optimizer", "first time", "DuckDB", "Polars", "÷ DuckDB", "÷ Polars"),
        rows,
    )
    rounds = 1 if bench.quick else ROUNDS
    bench.report.note(
        f"{harness.medians(rounds)} after three rounds of warm-up ({LARGE_ROUNDS} after one for the last three joins), "
        f"all in turn; DuckDB ran once where that took more than 20 s. All read the same Parquet files with "
        f"{harness.cores()} threads, and gave the same "
        "answer. Spark's times include the optimizer's planning and Spark's own, some 0.2 s whatever the size. The "
        "first time an optimizer measures the tables, too; it remembers what it found while the files stay the same."
    )
    if not bench.long:
        bench.report.note(f"With `--long` there are {LONG_ZIPF:,} rows with Zipf keys, where the target is ≤ 0.02.")
    bench.report.note(
        "Polars has no join on an equality and a band that does not first make all pairs of a key; nor did it run "
        f"where the pairs are more than {MOST_POLARS_PAIRS:,}, since it keeps them all in memory."
    )


def line(bench: Bench, contest: Contest) -> tuple[str, ...]:
    """A line of the table."""
    case = contest.case
    bench.register(case)
    large = case.rows_in > LARGER * 1_000_000
    warm_up, rounds = (1, 1) if bench.quick else (1, LARGE_ROUNDS) if large else (3, ROUNDS)
    times: dict[str, float] = {}
    with harness.console.status(case.title):
        first = harness.seconds(lambda: bench.in_duckdb(case))
        ways = {"DuckDB": lambda: bench.in_duckdb(case)}
        if first > 20:
            times["DuckDB"] = first
            del ways["DuckDB"]
        if contest.polars is not None and bench.rows_out(case) <= MOST_POLARS_PAIRS:
            ways["Polars"] = lambda: bench.check(case, in_polars(contest))
        if bench.rewritten(case):
            ways["optimizer"] = lambda: bench.again(case)
            ways["first time"] = lambda: bench.ours(case)
        found = harness.in_turn(ways, warm_up=warm_up, rounds=rounds)
    times |= {name: median(all_) for name, all_ in found.items()}
    harness.console.print(case.title, *(f"{name} {time_:.2f} s" for name, time_ in times.items()), highlight=False)

    def time_of(name: str) -> str:
        return f"{times[name]:.2f} s" if name in times else NOT_REWRITTEN if name == "optimizer" else "–"

    def ratio(name: str, target: float | None) -> str:
        if "optimizer" not in times or name not in times:
            return "–"
        found = times["optimizer"] / times[name]
        figure = f"{found:.2f}" if found >= 0.1 else f"{found:.4f}"
        return figure if target is None else bench.report.judged(f"{figure} (≤ {target:g})", found <= target)

    ratios = (ratio("DuckDB", contest.target), ratio("Polars", contest.polars_target))
    shown = (*map(time_of, ("optimizer", "first time", "DuckDB", "Polars")), *ratios)
    return (case.title, f"{case.rows_in:,}", f"{bench.rows_out(case):,}", *shown)
