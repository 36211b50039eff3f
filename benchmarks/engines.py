"""Bands, as-of joins and running sums by Dovetail on Spark, Comet, Gluten and Sail, and by DuckDB.

All read the same Parquet files, in turn.  Each engine runs in a process of its own Python, which ``make test-engines``
makes as well; one that PyPI and Maven do not serve is left out.  Results are one row, so that nothing is fetched.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import duckdb

from benchmarks import harness
from benchmarks.band_join.cases import Case, pair, two
from benchmarks.band_join.data import Table
from benchmarks.sail import engine, job_of, over_files

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "engines"))

from engines_main import ENGINES, Missing, jars_of, python_of

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAM, SPARK = "engines", "spark"
WARM_UP, ROUNDS = 2, 5
ON_SPARK = {"point in interval": 2.5, "as-of": 3.0}  # times DuckDB
ON_AN_ENGINE = 1.3
_INSIDE = "FROM points p {} JOIN intervals i ON p.x BETWEEN i.lo AND i.hi"
_AS_OF = "SELECT count(*), sum(a.v * b.v) FROM a ASOF JOIN b {} a.k = b.k"


def cases(rows: int) -> dict[str, Case]:
    """The shapes; half of the points are in the middle of the line."""
    tables = two(Table("clustered", rows, 50 * rows), Table("intervals", rows // 10, 50 * rows))
    asof = rows * 4 // 15
    keyed = pair(*(Table("ticks", asof, 100 * asof, seed=seed, keys=1000) for seed in (1, 2)))
    sums = f"(SELECT i.lo, i.hi, i.w, count(*) AS n, sum(p.v) AS s {_INSIDE.format('')} GROUP BY i.lo, i.hi, i.w)"
    running = "SELECT x, (SELECT sum(b.v) FROM a b WHERE b.k = a.k AND b.x <= a.x) AS s FROM a"
    found = (
        Case("point in interval", f"SELECT count(*), sum(p.v * i.w) {_INSIDE.format('')}", tables),
        Case("left", f"SELECT count(*), sum(p.v * coalesce(i.w, 7)) {_INSIDE.format('LEFT')}", tables),
        Case(
            "as-of",
            _AS_OF.format("MATCH_CONDITION (a.x >= b.x) ON"),
            keyed,
            _AS_OF.format("ON a.x >= b.x AND"),
        ),
        Case("sums by interval", f"SELECT count(*), sum(n), sum(s * w) FROM {sums} AS t", tables),
        Case(
            "running sums",
            f"SELECT count(*), sum(s) FROM ({running}) AS t",
            keyed,
            "SELECT count(*), sum(s) FROM (SELECT x, sum(v) OVER (PARTITION BY k ORDER BY x) AS s FROM a) AS t",
        ),
    )
    return {case.title: case for case in found}


def main() -> None:
    args = harness.arguments(PROGRAM, __doc__ or "", (SPARK, *ENGINES))
    rows = 30_000 if args.quick else 1_500_000
    report = harness.Report(PROGRAM, "Engines below Spark", args.quick, packages=("duckdb",))
    with ExitStack() as stack:
        spark = stack.enter_context(harness.session(PROGRAM, master="local[1]"))
        for case in cases(rows).values():
            for _, table in case.tables:
                table.make(spark)
        duck = stack.enter_context(duckdb.connect(config={"threads": harness.cores(), "memory_limit": "4GB"}))
        servers = {}
        for name in args.parts or (SPARK, *ENGINES):
            try:
                jars = () if name == SPARK else jars_of(ENGINES[name])
                python = Path(sys.executable) if name == SPARK else python_of(ENGINES[name])
            except Missing as missing:
                report.note(f"{name}: {missing}")
                continue
            servers[name] = stack.enter_context(engine(python, name, jars))
        cells = [_line(report, case, servers, duck) for case in cases(rows).values()]
        columns = ("", "DuckDB", *(name for name in servers))
        report.table(f"{rows:,} points, {rows // 10:,} intervals: seconds, and ÷ DuckDB", columns, cells)
        report.write(spark)


def _line(report: harness.Report, case: Case, servers: dict[str, Any], duck: Any) -> tuple[str, ...]:
    """A line of the table: seconds of DuckDB, and of each engine with their ratio."""
    answers: dict[str, Any] = {}

    def keep(name: str, run: Callable[[], Any]) -> Callable[[], object]:
        return lambda: answers.update({name: tuple(map(int, run()))})

    ways = {
        name: keep(name, lambda server=server: server.ask(job_of(case, plain=False)))
        for name, server in servers.items()
    }
    text = over_files(case)
    ways["duck"] = keep("duck", lambda: duck.sql(text).fetchone())
    times = harness.in_turn(ways, warm_up=WARM_UP, rounds=1 if report.quick else ROUNDS)
    if len(set(answers.values())) > 1:
        raise SystemExit(f"{case.title}: other answers: {answers}")
    base = median(times["duck"])
    shown = []
    for name in servers:
        ratio = median(times[name]) / base
        limit = ON_SPARK.get(case.title) if name == SPARK else ON_AN_ENGINE
        figure = f"{ratio:.2f}" if limit is None else report.judged(f"{ratio:.2f}", ratio <= limit)
        shown.append(f"{median(times[name]):.2f} s: {figure}")
    harness.console.print(case.title, f"{base:.2f} s", *shown, highlight=False)
    return (case.title, f"{base:.2f} s", *shown)


if __name__ == "__main__":
    main()
