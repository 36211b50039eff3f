"""Joins that plain Spark plans well, or nearly so, with and without the optimizer.

None should take longer with it.  Every shape runs both ways in turn, in one session, with a new optimizer each time, so
that nothing planned or measured is reused.  A shape that is left to Spark costs its planning, and nothing else.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks import harness
from dovetail import Optimizer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM = "small_gains"
SIZES = (100_000, 1_000_000)
LEAST_RATIO = 0.9  # plain Spark ÷ optimizer, without planning
ROUNDS = 3

_SPANS = "SELECT e.id, d.g FROM ev e JOIN spans d ON e.x BETWEEN d.lo AND d.hi"
_DAY = "q.ts BETWEEN e.ts - INTERVAL 1 DAY AND e.ts"
_BY_K = f"FROM ev e JOIN qt q ON q.k = e.k AND {_DAY}"
_OVERLAP = "a.id < b.id AND a.lo <= b.hi AND b.lo <= a.hi"
_LAST = "SELECT e.id, max_by(q.v, q.ts) AS v FROM ev e LEFT JOIN qt q ON q.{0} = e.{0} AND q.ts <= e.ts GROUP BY e.id"
_RUNNING = "SELECT a.id, sum(b.v) AS s FROM ev a JOIN ev b ON a.{0} = b.{0} AND b.ts <= a.ts GROUP BY a.id"
_EXISTS = "SELECT e.id FROM ev e WHERE EXISTS (SELECT 1 FROM {})"
SHAPES = {
    # filters that leave few rows
    "point filter": f"{_SPANS} WHERE e.id = 77",
    "few points by IN": f"{_SPANS} WHERE e.g IN ('g7', 'g8') AND e.id % 1000 = 5",
    "few spans": f"{_SPANS} AND d.id < 20",
    "filter, three tables": f"{_SPANS} JOIN scd c ON c.k = e.k AND c.current WHERE e.id = 77",
    # sides of few rows
    "five ranges": "SELECT e.id, d.name FROM ev e LEFT JOIN dims d ON e.x BETWEEN d.lo AND d.hi",
    "300 ranges": "SELECT e.id, d.id AS d FROM ev e JOIN spans300 d ON e.x BETWEEN d.lo AND d.hi",
    # keys that few rows share
    "unique key": f"SELECT count(*), sum(q.v) FROM ev e JOIN qt q ON q.u = e.u AND {_DAY}",
    "10 rows a key": f"SELECT count(*), sum(q.v) {_BY_K}",
    "10 rows a key, sorted": f"SELECT count(*), sum(q.v) FROM ev_by_k e JOIN qt_by_k q ON q.k = e.k AND {_DAY}",
    "SCD2": "SELECT e.id, c.tier FROM ev e LEFT JOIN scd c ON c.k = e.k AND e.ts >= c.since "
    "AND (e.ts < c.until OR c.until IS NULL)",
    "overlap, 10 rows a key": f"SELECT count(*) FROM spans a JOIN spans b ON a.k = b.k AND {_OVERLAP}",
    "running sums, unique key": _RUNNING.format("u"),
    "running sums, 10 rows a key": _RUNNING.format("k"),
    "the last quote, 10 rows a key": _LAST.format("k"),
    # semi and anti joins
    "EXISTS another of the key": _EXISTS.format("ev f WHERE f.k = e.k AND f.g <> e.g"),
    "NOT EXISTS a later one": _EXISTS.replace("EXISTS", "NOT EXISTS").format("ev f WHERE f.k = e.k AND f.ts > e.ts"),
    "EXISTS by one bound": _EXISTS.format("qt q WHERE q.k = e.k AND q.ts <= e.ts"),
    "EXISTS in long spans, keys": _EXISTS.format("long d WHERE d.g = e.g AND e.x BETWEEN d.lo AND d.hi"),
    "EXISTS in long spans": _EXISTS.format("long d WHERE e.x BETWEEN d.lo AND d.hi"),
    "EXISTS, 10 rows a key": _EXISTS.format(f"qt q WHERE q.k = e.k AND {_DAY}"),
    # clauses above
    "LIMIT, 1,000 rows a key": f"SELECT e.id, q.v FROM ev e JOIN qt q ON q.g = e.g AND {_DAY} LIMIT 10",
    "LIMIT": f"{_SPANS} LIMIT 10",
    "EXISTS, LIMIT": f"{_EXISTS.format('spans d WHERE e.x BETWEEN d.lo AND d.hi')} LIMIT 10",
    "TOP 10, 10 rows a key": f"SELECT e.id, q.v {_BY_K} ORDER BY q.v DESC LIMIT 10",
    "sums by group, 10 rows a key": f"SELECT e.g, sum(q.v) AS s {_BY_K} GROUP BY e.g",
    # gains that have to stay
    "1,000 rows a key": f"SELECT count(*), sum(q.v) FROM ev e JOIN qt q ON q.g = e.g AND {_DAY}",
    "overlap, 1,000 rows a key": f"SELECT count(*) FROM spans a JOIN spans b ON a.g = b.g AND {_OVERLAP}",
    "the last quote, 1,000 rows a key": _LAST.format("g"),
}
"""Statements over events ``ev``, quotes ``qt``, ``spans``, ``long`` spans, versions ``scd`` and small dimensions.

Keys: ``u`` is unique, ``k`` has 10 rows, ``g`` 1,000.
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{PROGRAM}", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small data, one round: does the program work?")
    parser.add_argument("--rows", type=int, nargs="*", help=f"rows of each table; {SIZES} if none are given")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="runs of each shape, after a first one")
    parser.add_argument("--only", default="", help="shapes whose names contain this")
    parser.add_argument("--check", action="store_true", help="also compare the rows of both ways")
    args = parser.parse_args()
    report = harness.Report(PROGRAM, "Joins that plain Spark plans well", args.quick)
    shapes = {name: text for name, text in SHAPES.items() if any(word in name for word in args.only.split("|"))}
    with harness.session(PROGRAM) as spark, tempfile.TemporaryDirectory(prefix="dovetail-") as scratch:
        for rows in args.rows or ([5_000] if args.quick else SIZES):
            make_tables(spark, Path(scratch) / str(rows), rows)
            warm_up(spark)
            lines, slower = [], []
            for name, text in shapes.items():
                plain, ours, planning, rules = measure(spark, text, 1 if args.quick else args.rounds, check=args.check)
                line = (name, rules, *(f"{t:.2f} s" for t in (plain, ours, planning)))
                ratios = plain / ours, plain / (ours + planning)
                lines.append((*line, *(f"{ratio:.2f}" for ratio in ratios)))
                harness.console.print(*lines[-1], sep=" | ", highlight=False, soft_wrap=True)
                if rules and ratios[0] < LEAST_RATIO:
                    slower.append(name)
            columns = ("shape", "rule", "plain Spark", "Dovetail", "planning", "ratio", "with planning")
            report.table(f"{rows:,} rows", columns, lines)
            found = f"{len(slower)} of {len(shapes)} shapes with {rows:,} rows are rewritten and slower"
            report.note(report.judged(f"{found}{': ' if slower else ''}{', '.join(slower)}", not slower))
        report.note(
            f"{harness.medians(args.rounds)} in turn, after one run of each. “Dovetail” is without planning, which "
            "each run does anew; “rule” names the last rule that replaced a part of the plan, if any."
        )
        if not (args.only or args.rows):
            report.write(spark)


def make_tables(spark: SparkSession, folder: Path, rows: int) -> None:
    """Write the tables as Parquet, in no order of their keys but two that are sorted, and name them."""

    def draw(seed: int, below: float, type_: str = "BIGINT") -> str:
        return f"CAST(pmod(xxhash64(id, {seed}), 1000000007) / 1000000007D * {int(below)} AS {type_})"

    ts = f"timestamp_seconds(1700000000 + {draw(4, 8_640_000)}) AS ts"
    keys = f"id * 7 % 1000003 AS u, {draw(2, rows / 10)} AS k, concat('g', {draw(3, rows / 1000)}) AS g"

    def events(seed: int) -> str:
        values = f"{draw(5, 10 * rows)} AS x, {draw(6, 1000, 'INT')} AS v, concat('payload ', id) AS s"
        return f"SELECT id, {keys}, {ts}, {values} FROM range({rows})".replace("xxhash64(id,", f"xxhash64(id, {seed},")

    def spans(count: int, length: float) -> str:
        lo = draw(7, 10 * rows)
        return f"SELECT id, {keys}, {lo} AS lo, {lo} + {draw(8, length)} AS hi FROM range({count})"

    tables = {
        "ev": events(1),
        "qt": events(2),
        "spans": spans(rows, 20),
        "long": spans(rows, 5 * rows),
        "spans300": spans(300, rows / 20),
        "dims": f"SELECT concat('d', id) AS name, id * {2 * rows} AS lo, (id + 1) * {2 * rows} - 1 AS hi FROM range(5)",
        "scd": f"SELECT k, tier, timestamp_seconds(1700000000 + n * 2880000) AS since, CASE WHEN n < 2 THEN "
        "timestamp_seconds(1700000000 + (n + 1) * 2880000) END AS until, n = 2 AS current FROM "
        f"(SELECT id AS k, id % 7 AS tier, explode(sequence(0, 2)) AS n FROM range({rows // 10}))",
    }
    for name, text in tables.items():
        _write(spark, text, folder / name)
    for name in ("ev", "qt"):
        _write(spark, f"SELECT * FROM {name} ORDER BY k", folder / f"{name}_by_k")


def _write(spark: SparkSession, text: str, target: Path) -> None:
    with harness.console.status(f"making {target.name}"):
        harness.keep(spark.sql(text), target)
    spark.read.parquet(str(target)).createOrReplaceTempView(target.name)


def warm_up(spark: SparkSession) -> None:
    """Run some shapes over the first rows, both ways."""
    for text in list(SHAPES.values())[::5]:
        harness.run(spark.sql(text))
        harness.run(Optimizer(spark).sql(text))


def measure(spark: SparkSession, text: str, rounds: int, *, check: bool) -> tuple[float, float, float, str]:
    """Median seconds of plain Spark, of the optimizer without planning, and of planning; and the rule that fired."""
    times: dict[str, list[float]] = {"plain": [], "ours": [], "planning": []}
    plans = []

    def ours() -> None:
        opt = Optimizer(spark)
        times["planning"].append(harness.seconds(lambda: plans.append(opt.plan(text))))
        times["ours"].append(harness.seconds(lambda: harness.run(plans[-1].dataframe())))

    def plain() -> None:
        times["plain"].append(harness.seconds(lambda: harness.run(spark.sql(text))))

    for number in range(rounds + 1):
        for way in (plain, ours) if number % 2 else (ours, plain):
            way()
    plan = plans[-1]
    if check and "LIMIT" not in text:
        first, second = (sorted(map(str, frame.collect())) for frame in (spark.sql(text), plan.dataframe()))
        if first != second:
            raise AssertionError(f"Other rows than plain Spark: {text}")
    found = {name: median(values[1:]) for name, values in times.items()}
    return found["plain"], found["ours"], found["planning"], plan.rules[-1] if plan.rewritten else ""


if __name__ == "__main__":
    main()
