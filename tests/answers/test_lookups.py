"""Lookup joins return what the same join over a plain view returns."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from dovetail import Optimizer, Options, QueryError
from dovetail.executor.connectors.memory import MemorySource
from sessions import for_few_rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

KEYED = "SELECT o.id, o.k, c.name, c.n FROM orders o {kind} customers{at} c ON o.k = c.k"


def table(rows: int, seed: int) -> pa.Table:
    """Rows with few keys, so that many meet, some of them NULL."""
    rng = random.Random(seed)
    pick = [None, *range(12)]
    return pa.table(
        {
            "k": pa.array([rng.choice(pick) for _ in range(rows)], pa.int64()),
            "n": pa.array([rng.choice([None, 1, 2, 3]) for _ in range(rows)], pa.int32()),
            "name": pa.array([rng.choice([None, "a", "b", "c", "ä"]) for _ in range(rows)], pa.string()),
        }
    )


@pytest.fixture(scope="module")
def opt(spark: SparkSession) -> Optimizer:
    session = for_few_rows(spark)
    rng = random.Random(1)
    orders = [
        (n, rng.choice([None, *range(16)]), rng.choice([None, "a", "b", "c"]), rng.randrange(5)) for n in range(90)
    ]
    said = ", ".join("(" + ", ".join("NULL" if v is None else repr(v) for v in row) + ")" for row in orders)
    session.sql(f"SELECT * FROM VALUES {said} AS t(id, k, name, total)").createOrReplaceTempView("orders")
    found = Optimizer(session, Options(strict=True, lookup_full_rows=0, lookup_rows_per_key=0))
    for name, rows in (("customers", 40), ("products", 25), ("empty", 0)):
        source = MemorySource(table(rows, len(name)))
        found.register_lookup(name, source)
        session.createDataFrame(source.table.to_pylist(), "k LONG, n INT, name STRING").createOrReplaceTempView(name)
    found.register_lookup("accounts", MemorySource(table(3, 3)))
    return found


def both(opt: Optimizer, text: str, args: Any = None) -> None:
    """Assert that a query returns the same rows and schema with ``{at}`` and without."""
    plan = opt.plan(text.format(at=" FOR SYSTEM_TIME AS OF PROCTIME() AS"), args)
    frame = plan.dataframe()
    plain = opt.session.sql(text.format(at=""), args=args) if args else opt.session.sql(text.format(at=""))
    assert frame.schema == plain.schema
    assert Counter(map(repr, frame.collect())) == Counter(map(repr, plain.collect())), plan.explain()


CONDITIONS = [
    "o.k = c.k",
    "c.name = o.name AND o.k = c.k",
    "o.k = c.k AND c.n = 2",
    "o.k = c.k AND (c.n > o.total OR c.n IS NULL)",
    "o.k = c.k AND o.total > 2",
    "o.k + 1 = c.k AND o.name <=> c.name",
    "upper(o.name) = upper(c.name) AND o.k = c.k",
]
KINDS = ["JOIN", "LEFT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"]
HINTS = ["/*+ SHUFFLE_HASH('c') */", "/*+ LOOKUP('table'='c', 'skew'='true', 'batch'='3', 'async'='true') */"]


@pytest.mark.parametrize(
    ("kind", "hint", "condition"),
    [
        *((kind, "", c) for kind in KINDS[:2] for c in CONDITIONS),
        *((kind, "", c) for kind in KINDS[2:] for c in CONDITIONS[3:5]),
        *((kind, hint, CONDITIONS[3]) for kind in KINDS[1:3] for hint in HINTS),
    ],
)
def test_every_kind(opt: Optimizer, kind: str, hint: str, condition: str) -> None:
    items = "o.id, o.k" if kind in KINDS[2:] else "*"
    hinted = f"SELECT {hint} {items} FROM orders o {kind} customers{{at}} c ON {condition}"
    plan = opt.plan(hinted.format(at=" FOR SYSTEM_TIME AS OF PROCTIME() AS"))
    plain = f"SELECT {items} FROM orders o {kind} customers c ON {condition}"
    frame, wanted = plan.dataframe(), opt.session.sql(plain)
    assert frame.schema == wanted.schema
    assert Counter(map(repr, frame.collect())) == Counter(map(repr, wanted.collect())), plan.explain()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM orders o, customers{at} c WHERE o.k = c.k AND c.n = 1 AND o.total < 3",
        "SELECT * FROM orders o LEFT JOIN customers{at} c ON o.k = c.k WHERE o.total < 3 AND c.n IS NULL",
        "SELECT * FROM orders o JOIN customers{at} c USING (k)",
        "SELECT k, name FROM orders JOIN customers{at} c USING (k, name)",
        "SELECT o.id, c.a, c.b FROM orders o JOIN customers{at} c(a, b, d) ON o.k = c.a",
        "SELECT * FROM orders o JOIN empty{at} c ON o.k = c.k",
        "SELECT * FROM orders o LEFT JOIN empty{at} c ON o.k = c.k",
        "SELECT * FROM orders o JOIN customers{at} c ON o.k = c.k LEFT JOIN products{at} p ON o.total = p.k",
        "SELECT * FROM orders o LEFT JOIN customers{at} c ON o.k = c.k JOIN products{at} p ON c.n = p.k AND o.k = p.n",
        (
            "SELECT * FROM orders o LEFT JOIN customers{at} c ON o.k = c.k LEFT JOIN products{at} p ON c.n = p.k "
            "LEFT JOIN customers{at} d ON o.total = d.k WHERE o.id < 50"
        ),
        (
            "WITH x AS (SELECT o.*, c.n FROM orders o LEFT JOIN customers{at} c ON o.k = c.k), y AS (SELECT * FROM x) "
            "SELECT y.id, y.n, p.name FROM y JOIN products{at} p ON y.n = p.k UNION ALL SELECT id, total, name FROM x"
        ),
        "SELECT * FROM orders o JOIN customers{at} c ON o.k = c.k RIGHT JOIN orders q ON o.id = q.total WHERE c.n = 1",
        "SELECT * FROM orders o JOIN customers{at} c ON o.k = c.k FULL JOIN orders q ON o.id = q.total WHERE o.id > 2",
        "SELECT * FROM orders o JOIN customers{at} c ON o.k = c.k AND c.k = 3",
        "SELECT c.* FROM orders o JOIN customers{at} c ON o.k = c.k WHERE o.total * 2 > 3",
        "SELECT o.* FROM orders o LEFT JOIN customers{at} c ON o.k = c.k AND c.n * 1 = 2",
        "SELECT count(*), sum(c.n) FROM orders o JOIN customers{at} c ON o.k = c.k GROUP BY o.total",
        (
            "SELECT id FROM orders p WHERE EXISTS (SELECT 1 FROM orders o JOIN customers{at} c ON o.k = c.k "
            "WHERE o.id = p.total)"
        ),
        "SELECT id, (SELECT max(c.n) FROM orders q JOIN customers{at} c ON q.k = c.k WHERE q.id = o.id) FROM orders o",
        "SELECT o.id, c.n FROM (orders o JOIN customers{at} c ON o.k = c.k) WHERE o.total = 1",
        "SELECT x.id, c.n FROM (SELECT id, k FROM orders WHERE total > 1) x JOIN customers{at} c ON x.k = c.k",
        (
            "SELECT o.id, c.n FROM orders o JOIN orders q ON o.id = q.total "
            "JOIN customers{at} c ON q.k = c.k AND o.name = c.name"
        ),
        "SELECT o.id, c.n FROM orders o JOIN customers{at} c ON o.k = c.k RIGHT JOIN orders q ON o.id = q.total",
    ],
)
def test_every_place(opt: Optimizer, text: str) -> None:
    both(opt, text)


@pytest.mark.parametrize("kind", KINDS[:2])
def test_tables_that_are_read_whole(opt: Optimizer, kind: str) -> None:
    whole = Optimizer(opt.session, Options(strict=True))
    whole.declarations.tables, whole.declarations.sources = opt.declarations.tables, opt.declarations.sources
    text = f"SELECT o.id, c.name FROM orders o {kind} customers{{at}} c ON o.k = c.k AND c.n < 3"
    assert "FullLookupJoin" in whole.plan(text.format(at=" FOR SYSTEM_TIME AS OF PROCTIME() AS")).explain()
    both(whole, text)


def test_parameters(opt: Optimizer) -> None:
    text = "SELECT o.id, c.n FROM orders o LEFT JOIN customers{at} c ON o.k = c.k AND o.total > :t WHERE o.id < :i"
    both(opt, text, {"t": 1, "i": 50})
    both(opt, text.replace(":t", "?").replace(":i", "?"), [1, 50])


def test_each_key_is_fetched_once(opt: Optimizer) -> None:
    plan = opt.plan(KEYED.format(kind="/*+ */ JOIN", at=" FOR SYSTEM_TIME AS OF PROCTIME() AS").replace("/*+ */ ", ""))
    plan.dataframe().collect()
    wanted = opt.session.sql("SELECT count(DISTINCT k) FROM orders").collect()[0][0]
    counted = plan.metrics()["customers"]
    assert counted is not None
    assert counted.keys == wanted


def test_nothing_is_left_behind(opt: Optimizer) -> None:
    opt.sql(KEYED.format(kind="JOIN", at=" FOR SYSTEM_TIME AS OF PROCTIME() AS")).collect()
    assert opt.session.sql("SHOW TABLES LIKE '__dt*'").count() == 0


def test_rows_go_to_a_table(opt: Optimizer) -> None:
    opt.session.sql("CREATE DATABASE IF NOT EXISTS lookup_db")
    opt.session.sql("DROP TABLE IF EXISTS lookup_db.t")
    at = " FOR SYSTEM_TIME AS OF PROCTIME() AS"
    opt.sql(f"CREATE TABLE lookup_db.t USING parquet AS {KEYED.format(kind='JOIN', at=at)}")
    opt.sql(f"INSERT INTO lookup_db.t {KEYED.format(kind='JOIN', at=at)}")
    wanted = opt.session.sql(KEYED.format(kind="JOIN", at="")).count()
    assert opt.session.table("lookup_db.t").count() == 2 * wanted
    opt.session.sql("DROP DATABASE lookup_db CASCADE")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT * FROM orders o RIGHT JOIN customers{at} c ON o.k = c.k", "RIGHT"),
        ("SELECT * FROM orders o JOIN customers{at} c ON o.name = c.k", "o.name is STRING and customers.k is BIGINT"),
        ("SELECT * FROM orders o JOIN customers{at} c ON o.total * 1.5D = c.k", "DOUBLE and customers.k is BIGINT"),
        ("SELECT * FROM customers{at} c JOIN orders o ON o.k = c.k", "cannot be looked up where it stands"),
        ("SELECT * FROM orders o JOIN accounts c ON o.k = c.k", "accounts is a lookup; write accounts FOR SYSTEM_TIME"),
        ("FROM orders o |> JOIN customers{at} c ON o.k = c.k |> DROP k", "the pipe operator DROP"),
        ("CREATE TEMPORARY VIEW v AS SELECT * FROM orders o JOIN customers{at} c ON o.k = c.k", "view"),
    ],
)
def test_errors_come_before_anything_runs(opt: Optimizer, text: str, said: str) -> None:
    with pytest.raises(QueryError, match=said.replace("*", ".")):
        opt.sql(text.format(at=" FOR SYSTEM_TIME AS OF PROCTIME() AS"))


def test_spark_says_what_is_wrong_elsewhere(opt: Optimizer) -> None:
    from pyspark.errors import AnalysisException

    text = "SELECT c.nothing FROM orders o JOIN customers FOR SYSTEM_TIME AS OF PROCTIME() AS c ON o.k = c.k"
    with pytest.raises(AnalysisException, match="nothing"):
        opt.sql(text)


def test_strict_hints(opt: Optimizer) -> None:
    strict = Optimizer(opt.session, Options(strict_hints=True))
    with pytest.raises(QueryError, match="no relation nobody"):
        strict.sql("SELECT /*+ BROADCAST(nobody) */ * FROM orders o")
    assert strict.sql("SELECT /*+ BROADCAST(o) */ * FROM orders o").count() == 90


# Rows that can be read once


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("condition", ["o.k = c.k AND o.total > 2", "o.k = c.k AND (c.n > o.total OR c.name = o.name)"])
def test_rows_that_go_to_python(opt: Optimizer, kind: str, condition: str) -> None:
    items = "o.id, o.k" if kind in ("LEFT SEMI JOIN", "LEFT ANTI JOIN") else "*"
    text = f"SELECT {items} FROM (SELECT * FROM orders ORDER BY id LIMIT 60) o {kind} customers{{at}} c ON {condition}"
    plan = opt.plan(text.format(at=" FOR SYSTEM_TIME AS OF PROCTIME() AS"))
    assert "RowLookupJoin" in plan.explain()
    found, wanted = plan.dataframe(), opt.session.sql(text.format(at=""))
    assert [(f.name, f.dataType) for f in found.schema] == [(f.name, f.dataType) for f in wanted.schema]
    assert Counter(map(repr, found.collect())) == Counter(map(repr, wanted.collect())), plan.sql()


def test_two_lookups_of_rows_that_go_to_python(opt: Optimizer) -> None:
    both(
        opt,
        "SELECT o.id, c.n, p.name FROM (SELECT * FROM orders ORDER BY id LIMIT 60) o "
        "LEFT JOIN customers{at} c ON o.k = c.k JOIN products{at} p ON c.n = p.k LEFT JOIN orders q ON q.id = p.n",
    )
    both(
        opt,
        "SELECT o.id, c.* FROM (SELECT * FROM orders ORDER BY id LIMIT 60) o "
        "LEFT JOIN customers{at} c(a, b, d) ON o.k = c.a AND c.b > o.total",
    )


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN"])
def test_a_stream_stays_a_stream(opt: Optimizer, kind: str, tmp_path: Path) -> None:
    orders = opt.session.table("orders")
    orders.repartition(3).write.parquet(str(tmp_path / "in"))
    stream = opt.session.readStream.schema(orders.schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    stream.createOrReplaceTempView("arriving")
    at = " FOR SYSTEM_TIME AS OF o.proc_time AS"
    frame = opt.sql(
        f"SELECT o.id, o.k, c.name, c.n FROM arriving o {kind}"
        f" customers{at} c ON o.k = c.k AND (c.n > 1 OR c.name IS NULL) WHERE o.id > 3"
    )
    assert frame.isStreaming
    query = frame.writeStream.format("memory").queryName("looked_up").trigger(availableNow=True).start()
    query.awaitTermination()
    wanted = opt.session.sql(
        f"SELECT o.id, o.k, c.name, c.n FROM orders o {kind}"
        " customers c ON o.k = c.k AND (c.n > 1 OR c.name IS NULL) WHERE o.id > 3"
    )
    assert Counter(map(repr, opt.session.table("looked_up").collect())) == Counter(map(repr, wanted.collect()))


# Versions


VALID = """
SELECT {items} FROM orders o {kind} (
  SELECT *, lead(since) OVER (PARTITION BY k ORDER BY since) AS until FROM rates
) r ON o.k = r.k AND o.at >= r.since AND (o.at < r.until OR r.until IS NULL){more}
"""


@pytest.fixture(scope="module")
def timed(spark: SparkSession) -> SparkSession:
    """Orders at times, and rates with versions; some times are equal, some missing."""
    session = for_few_rows(spark)
    rng = random.Random(3)
    times = [None, *(f"2026-01-{day:02} {hour:02}:00:00" for day in range(1, 15) for hour in (0, 12))]
    orders = [(n, rng.choice([None, *range(5)]), rng.choice(times)) for n in range(120)]
    rates = {(rng.choice([None, *range(4)]), rng.choice(times)): rng.random() for _ in range(60)}
    for name, rows, columns in (
        ("orders", orders, "id INT, k INT, t STRING"),
        ("rates", [(k, t, v) for (k, t), v in rates.items()], "k INT, t STRING, rate DOUBLE"),
    ):
        column = "at" if name == "orders" else "since"
        frame = session.createDataFrame(rows, columns)
        frame.selectExpr("*", f"CAST(t AS TIMESTAMP) AS {column}").drop("t").createOrReplaceTempView(name)
    return session


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("asof", ["false", "true"])
@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN"])
@pytest.mark.parametrize("more", ["", " AND r.rate > 0.5"])
def test_versions(timed: SparkSession, force: bool, asof: str, kind: str, more: str) -> None:
    timed.conf.set("spark.sql.join.asofJoin.enabled", asof)
    opt = Optimizer(timed, Options(strict=True, force=force))
    opt.declare_versions("rates", ["k"], "since")
    plan = opt.plan(f"SELECT o.id, r.* FROM orders o {kind} rates FOR SYSTEM_TIME AS OF o.at AS r ON r.k = o.k{more}")
    wanted = timed.sql(VALID.format(items="o.id, r.k, r.rate, r.since", kind=kind, more=more))
    assert Counter(map(repr, plan.dataframe().collect())) == Counter(map(repr, wanted.collect())), plan.sql()
    assert plan.rewritten
