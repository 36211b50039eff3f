"""Nearest rows: Dovetail, the as-of join of Spark 4.3, the idioms as written, a union by hand, DuckDB and Polars.

Rows are trades and quotes of some symbols.  Every way reads Parquet files, and makes all columns of the result.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import duckdb
import polars

from benchmarks import harness
from benchmarks.plain_spark import ASOF_JOIN, seconds_within
from dovetail import Optimizer

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

PROGRAM = "nearest"
PARTS = ("hot", "own", "exists", "keys", "idioms", "small", "distance", "nearest_by")
COLUMNS = "t.id, t.qty, q.price, q.ts AS at"
ASOF = f"SELECT {COLUMNS} FROM trades t ASOF JOIN quotes q MATCH_CONDITION (t.ts >= q.ts) ON t.k = q.k"
EARLIER = "FROM trades t JOIN quotes q ON q.k = t.k AND q.ts <= t.ts"
PICKED = "SELECT q.price, q.ts AS at FROM quotes q WHERE q.k = t.k AND q.ts <= t.ts"
LAST = "row_number() OVER (PARTITION BY t.id ORDER BY q.ts DESC)"
IDIOMS = {
    "row_number() = 1": f"SELECT * FROM (SELECT {COLUMNS}, {LAST} AS n {EARLIER}) WHERE n = 1",
    "max_by": f"SELECT t.id, max(t.qty) AS qty, max_by(q.price, q.ts) AS p, max(q.ts) AS at {EARLIER} GROUP BY t.id",
    "max(struct)": f"SELECT t.id, max(t.qty) AS qty, max(struct(q.ts, q.price)) AS at {EARLIER} GROUP BY t.id",
    "LATERAL … LIMIT 1": f"SELECT t.id, t.qty, x.* FROM trades t, LATERAL ({PICKED} ORDER BY q.ts DESC LIMIT 1) x",
    "rank() = 1": f"SELECT * FROM (SELECT {COLUMNS}, {LAST.replace('row_number', 'rank')} AS n {EARLIER}) WHERE n = 1",
    "q.ts = (SELECT max(…))": (
        f"SELECT {COLUMNS} FROM trades t JOIN quotes q ON q.k = t.k WHERE q.ts = "
        "(SELECT max(x.ts) FROM quotes x WHERE x.k = t.k AND x.ts <= t.ts)"
    ),
}
BY_HAND = (
    "SELECT id, qty, q.price, q.ts AS at FROM (SELECT side, id, qty, last_value(q, TRUE) OVER (PARTITION BY k "
    "ORDER BY ts, side ROWS UNBOUNDED PRECEDING) AS q FROM (SELECT 1 AS side, k, ts, id, qty, NULL AS q FROM trades "
    "UNION ALL SELECT 0, k, ts, NULL, NULL, struct(ts, price) FROM quotes)) WHERE side = 1 AND q IS NOT NULL"
)
NEAR = "row_number() OVER (PARTITION BY t.id ORDER BY abs(unix_micros(t.ts) - unix_micros(q.ts)){})"
EXISTS = {
    "an earlier row": f"SELECT t.id FROM trades t WHERE EXISTS ({PICKED})",
    "no later row, of which there is none": (
        "SELECT t.id FROM trades t WHERE NOT EXISTS "
        "(SELECT 1 FROM quotes q WHERE q.k = t.k AND q.ts - INTERVAL 1000 DAYS > t.ts)"
    ),
}
LIMIT = 120.0  # seconds that a way to run may take


class Bench:
    """Two tables, and the ways to run a query over them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.optimizer = spark, folder, Optimizer(spark)
        self.trades = self.quotes = ""

    def tables(self, rows: int, key: str) -> None:
        """Write trades and quotes; ``key`` is an expression over the numbers ``{seed}`` and ``id``."""
        for number, (name, columns) in enumerate((("trades", "id % 100 AS qty"), ("quotes", "id / 7 AS price"))):
            random = f"(xxhash64(id, {number + 2}) & 9223372036854775807)"
            query = (
                f"SELECT id, CAST({key.format(seed=number)} AS INT) AS k, "
                f"timestamp_micros({random} % 1000000000000) AS ts, {columns} FROM range({rows})"
            )
            target = self.folder / f"{name}-{rows}-{abs(hash(key))}"
            harness.keep(self.spark.sql(query), target)
            self.spark.read.parquet(str(target)).createOrReplaceTempView(name)
            setattr(self, name, str(target / "*.parquet"))

    def ours(self, text: str) -> Callable[[], object]:
        """Run by Dovetail."""
        return lambda: harness.run(self.optimizer.sql(text))

    def plain(self, text: str) -> Callable[[], object]:
        """Run by Spark as written."""
        return lambda: harness.run(self.spark.sql(text))

    def duck(self) -> None:
        """DuckDB's as-of join, to Arrow."""
        with duckdb.connect(config={"threads": harness.cores(), "memory_limit": "6GB"}) as connection:
            connection.sql(
                f"SELECT t.id, t.qty, q.price, q.ts AS at FROM '{self.trades}' t "
                f"ASOF JOIN '{self.quotes}' q ON t.k = q.k AND t.ts >= q.ts"
            ).to_arrow_table()

    def polars(self) -> None:
        """Polars' as-of join, which needs sorted sides."""
        trades, quotes = (polars.scan_parquet(path).sort("ts") for path in (self.trades, self.quotes))
        right = quotes.select("k", "ts", "price", polars.col("ts").alias("at"))
        trades.join_asof(right, on="ts", by="k").drop_nulls("at").select("id", "qty", "price", "at").collect()

    def within(self, text: str) -> float | None:
        """Seconds of plain Spark, in a process of its own; None where it has not ended after the time limit."""
        folders = {"trades": self.trades, "quotes": self.quotes}
        return seconds_within(LIMIT, text, {name: str(Path(files).parent) for name, files in folders.items()})


def main() -> None:
    args = harness.arguments(PROGRAM, __doc__ or "", PARTS)
    chosen = [part for part in PARTS if part in args.parts] or list(PARTS)
    with harness.session(PROGRAM, ASOF_JOIN) as spark, tempfile.TemporaryDirectory(prefix="dovetail-") as scratch:
        report = harness.Report(PROGRAM, "Nearest rows", args.quick, packages=("duckdb", "polars"))
        bench = Bench(spark, Path(scratch))
        for part in chosen:
            globals()[f"_{part}"](bench, report, args.quick)
        report.note(
            f"A way that takes more than {LIMIT:,.0f} s is stopped. Times include parsing and planning. DuckDB and "
            "Polars make a table in memory; Spark computes every row and keeps none."
        )
        report.write(spark)


def _hot(bench: Bench, report: harness.Report, quick: bool) -> None:
    """One key for all rows: everything is compared with everything before it."""
    rows = 5_000 if quick else 200_000
    bench.tables(rows, "1")
    cells = []
    for name, text in {"ASOF JOIN": ASOF, **IDIOMS}.items():
        ours, shown, least, faster = _against_plain(bench, text)
        cells.append((name, ours, shown, report.judged(faster, least >= 100)))
    report.table(f"One key, {rows:,} × {rows:,} rows", ("", "Dovetail", "plain Spark", "faster"), cells)


def _own(bench: Bench, report: harness.Report, quick: bool) -> None:
    """The operator of Spark 4.3 for ASOF JOIN, which compares the rows of a key: from one key to two rows a key."""
    rows, cells = 20_000 if quick else 400_000, []
    for keys in (1, rows // 400, rows // 20, rows // 2):
        bench.tables(rows, f"abs(xxhash64(id, {{seed}})) % {keys}")
        if keys == 1:
            ours, shown, least, faster = _against_plain(bench, ASOF)
            cells.append(("1", ours, shown, report.judged(faster, least >= 1)))
            continue
        ways = {"ours": bench.ours(ASOF), "plain": bench.plain(ASOF)}
        times = {k: median(v) for k, v in harness.in_turn(ways, warm_up=2, rounds=1 if quick else 5).items()}
        faster = times["plain"] / times["ours"]
        shown = f"{faster:,.{1 if faster >= 10 else 2}f} ×"
        cells.append(
            (f"{keys:,}", f"{times['ours']:.2f} s", f"{times['plain']:.2f} s", report.judged(shown, faster >= 0.95))
        )
    columns = ("keys", "Dovetail", "Spark's ASOF JOIN", "faster")
    report.table(f"ASOF JOIN by Spark's own operator, {rows:,} × {rows:,} rows", columns, cells)
    report.note(f"Spark's own operator needs `{'` and `'.join(ASOF_JOIN)}`, which are off by default.")


def _against_plain(bench: Bench, text: str) -> tuple[str, str, float, str]:
    """Seconds of Dovetail and of plain Spark, how many times faster, and that as text."""
    bench.ours(text)()
    ours = median(harness.seconds(bench.ours(text)) for _ in range(3))
    plain = bench.within(text)
    least = (LIMIT if plain is None else plain) / ours
    shown = f"> {LIMIT:,.0f} s" if plain is None else f"{plain:.1f} s"
    return f"{ours:.2f} s", shown, least, f"{'> ' if plain is None else ''}{least:,.{1 if least < 10 else 0}f} ×"


def _exists(bench: Bench, report: harness.Report, quick: bool) -> None:
    """Whether there is an earlier row: one key or many, where a row has matches, and where it has none."""
    rows, cells = 5_000 if quick else 200_000, []
    for keys in (1, 1000, 100_000):
        bench.tables(rows, f"abs(xxhash64(id, {{seed}})) % {keys}")
        for what, test in EXISTS.items():
            ours, shown, least, faster = _against_plain(bench, test)
            cells.append((f"{keys:,}", what, ours, shown, report.judged(faster, least >= 0.95)))
    columns = ("keys", "", "Dovetail", "plain Spark", "faster")
    report.table(f"EXISTS by one bound, {rows:,} × {rows:,} rows", columns, cells)


def _keys(bench: Bench, report: harness.Report, quick: bool) -> None:
    """Many keys, as many rows each, or a few of them with most of the rows."""
    rows = 20_000 if quick else 2_000_000
    unit = "((xxhash64(id, {seed}) & 9223372036854775807) / 9223372036854775807D)"
    cells = []
    for name, key in (("uniform", f"{unit} * 1000"), ("skewed", f"pow({unit}, 3) * 1000")):
        bench.tables(rows, key)
        ways = {"ours": bench.ours(ASOF), "hand": bench.plain(BY_HAND), "duck": bench.duck, "polars": bench.polars}
        times = {
            way: median(found) for way, found in harness.in_turn(ways, warm_up=1, rounds=1 if quick else 3).items()
        }
        ours = times["ours"]
        cells.append(
            (
                name,
                f"{ours:.2f} s",
                f"{times['hand']:.2f} s",
                report.judged(f"{ours / times['hand']:.2f}", ours <= 1.1 * times["hand"]),
                f"{times['duck']:.2f} s",
                report.judged(f"{ours / times['duck']:.1f}", ours <= 5 * times["duck"]),
                f"{times['polars']:.2f} s",
                report.judged(f"{ours / times['polars']:.1f}", ours <= 6 * times["polars"]),
            )
        )
    columns = ("keys", "Dovetail", "union by hand", "ratio", "DuckDB", "ratio", "Polars", "ratio")
    report.table(f"1,000 keys, {rows:,} × {rows:,} rows", columns, cells)


def _idioms(bench: Bench, report: harness.Report, quick: bool) -> None:
    """Every idiom against the syntax, by Dovetail."""
    rows = 20_000 if quick else 500_000
    bench.tables(rows, "xxhash64(id, {seed}) % 1000")
    texts = {"ASOF JOIN": ASOF, **IDIOMS}
    ways = {name: bench.ours(text) for name, text in texts.items()}
    times = {name: median(found) for name, found in harness.in_turn(ways, warm_up=1, rounds=1 if quick else 5).items()}
    syntax = times["ASOF JOIN"]
    cells = [
        (name, f"{took:.2f} s", report.judged(f"{took / syntax:.2f}", took <= 1.15 * syntax))
        for name, took in times.items()
    ]
    report.table(f"The idioms, {rows:,} × {rows:,} rows, 2,000 keys", ("", "Dovetail", "÷ ASOF JOIN"), cells)


def _small(bench: Bench, report: harness.Report, quick: bool) -> None:
    """A few rows: what is left to Spark, or is as fast."""
    cells = []
    for rows, keys in ((1_000, 10), (20_000, 20_000), (20_000, 1_000), (300_000, 100_000)):
        bench.tables(rows // (10 if quick else 1), f"xxhash64(id, {{seed}}) % {keys}")
        for name, text in IDIOMS.items():
            if "LATERAL" in name:  # Spark compares all times with all rows: minutes for 20,000 rows
                continue
            ways = {"ours": bench.ours(text), "plain": bench.plain(text)}
            times = {k: median(v) for k, v in harness.in_turn(ways, warm_up=2, rounds=1 if quick else 5).items()}
            taken = "yes" if bench.optimizer.plan(text).rewritten else "no"
            met = times["ours"] <= 1.05 * times["plain"] + 0.05
            ratio = report.judged(f"{times['ours'] / times['plain']:.2f}", met)
            shown = f"{rows:,} rows, {keys:,} keys, {name}"
            cells.append((shown, taken, f"{times['ours']:.2f} s", f"{times['plain']:.2f} s", ratio))
    report.table("Few pairs", ("", "rewritten", "Dovetail", "plain Spark", "ratio"), cells)


def _distance(bench: Bench, report: harness.Report, quick: bool) -> None:
    """The least distant rows on either side, with equal keys and without."""
    rows, cells = 20_000 if quick else 1_000_000, []
    for keys, from_ in ((1000, "trades t JOIN quotes q ON q.k = t.k"), (1, "trades t CROSS JOIN quotes q")):
        bench.tables(rows, f"xxhash64(id, {{seed}}) % {keys}")
        texts = {
            (k, nulls): f"SELECT {COLUMNS} FROM {from_} QUALIFY {NEAR.format(nulls)} <= {k}"
            for k, nulls in ((1, " NULLS LAST"), (1, ""), (5, " NULLS LAST"))
        }
        ways = {way: bench.ours(text) for way, text in texts.items()}
        times = {w: median(v) for w, v in harness.in_turn(ways, warm_up=1, rounds=1 if quick else 3).items()}
        one, many = times[1, " NULLS LAST"], times[5, " NULLS LAST"]
        cells.append(
            (
                f"{2 * keys - 1:,}",  # a remainder may be negative
                report.judged(f"{one:.1f} s", one <= 10),
                f"{times[1, '']:.1f} s",
                f"{many:.1f} s",
                report.judged(f"{many / one:.1f}", many <= 3 * one),
            )
        )
    columns = ("keys", "nearest", "NULL first", "nearest 5", "ratio")
    report.table(f"By a distance, {rows:,} × {rows:,} rows", columns, cells)


def _nearest_by(bench: Bench, report: harness.Report, quick: bool) -> None:
    """NEAREST BY, which has no equality: all rows are sorted in one task."""
    rows = 20_000 if quick else 1_000_000
    bench.tables(rows, "1")
    distance = "abs(unix_micros(t.ts) - unix_micros(q.ts))"
    texts = {
        k: f"SELECT {COLUMNS} FROM trades t JOIN quotes q EXACT NEAREST {k} BY DISTANCE {distance}" for k in (1, 5)
    }
    ways = {k: bench.ours(text) for k, text in texts.items()}
    times = {k: median(v) for k, v in harness.in_turn(ways, warm_up=1, rounds=1 if quick else 3).items()}
    plain = bench.within(texts[1])
    cells = (
        report.judged(f"{times[1]:.1f} s", times[1] <= 10),
        f"{times[5]:.1f} s",
        report.judged(f"{times[5] / times[1]:.1f}", times[5] <= 3 * times[1]),
        f"> {LIMIT:,.0f} s" if plain is None else f"{plain:.1f} s",
    )
    columns = ("NEAREST 1", "NEAREST 5", "ratio", "NEAREST 1 in plain Spark")
    report.table(f"NEAREST BY, {rows:,} × {rows:,} rows", columns, [cells])


if __name__ == "__main__":
    main()
