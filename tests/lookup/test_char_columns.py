"""Columns of CHAR beside lookups and versions: Spark pads the operand that a CHAR is compared with."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from dovetail import Optimizer
from dovetail.executor.connectors.memory import MemorySource
from sessions import for_few_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

CONDITIONS = ("o.code = 'a'", "o.code <> 'a'", "o.code IN ('a', 'abc')", "o.code = o.other", "'ab' < o.code")
SIDES = ("orders", "(SELECT * FROM orders ORDER BY id LIMIT 6)")


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    own = for_few_rows(spark)
    tables = {
        "orders": "id INT COMMENT 'number', k INT, at TIMESTAMP, code CHAR(3) COMMENT 'code', other CHAR(5)",
        "prices": "k INT, since TIMESTAMP, price INT COMMENT 'in cents', note CHAR(4) COMMENT 'free'",
    }
    for name, columns in tables.items():
        own.sql(f"DROP TABLE IF EXISTS {name}")
        own.sql(f"CREATE TABLE {name} ({columns}) USING parquet")
    items = "elt(id % 4 + 1, 'a', 'ab', 'abc', NULL), elt(id % 3 + 1, 'a', 'ab', 'abc')"
    own.sql(f"INSERT INTO orders SELECT id, id % 3, timestamp_seconds(id), {items} FROM range(12)")
    own.sql("INSERT INTO prices SELECT id % 3, timestamp_seconds(id), id, elt(id % 2 + 1, 'a', 'b') FROM range(9)")
    yield own
    for name in tables:
        own.sql(f"DROP TABLE {name}")


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("side", SIDES)
def test_beside_a_lookup(session: SparkSession, side: str, condition: str) -> None:
    rows = {"k": pa.array([0, 1], pa.int32()), "name": pa.array(["a", "b"])}
    optimizer = Optimizer(session)
    optimizer.register_lookup("names", MemorySource(pa.table(rows), [("k",)]))
    session.createDataFrame([(0, "a"), (1, "b")], "k INT, name STRING").createOrReplaceTempView("plain_names")
    text = f"SELECT o.id, o.code, {condition} AS c, n.name FROM {side} o LEFT JOIN {{}} n ON o.k = n.k AND {condition}"
    found = optimizer.sql(text.format("names FOR SYSTEM_TIME AS OF PROCTIME()").replace(" n ON", " AS n ON"))
    wanted = session.sql(text.format("plain_names"))
    assert Counter(found.collect()) == Counter(wanted.collect())
    assert found.schema["code"].metadata == wanted.schema["code"].metadata


@pytest.mark.parametrize("operator", ["EXCEPT", "INTERSECT"])
def test_a_set_operation_over_a_lookup_below_a_limit(session: SparkSession, operator: str) -> None:
    """Spark fails to push one below a struct that a LATERAL VIEW passes on."""
    rows = {"code": pa.array(["a", "ab"]), "name": pa.array(["A", "AB"])}
    optimizer = Optimizer(session)
    optimizer.register_lookup("codes", MemorySource(pa.table(rows), [("code",)]))
    session.createDataFrame([("a", "A"), ("ab", "AB")], "code STRING, name STRING").createOrReplaceTempView(
        "plain_codes"
    )
    side = "(SELECT id, trim(code) AS code, k FROM orders ORDER BY id LIMIT 9)"
    text = f"(SELECT o.code, o.k, n.name FROM {side} o JOIN {{}} AS n ON o.code = n.code) {operator} SELECT 'a', 1, 'A'"
    found = optimizer.sql(text.format("codes FOR SYSTEM_TIME AS OF PROCTIME()"))
    wanted = session.sql(text.format("plain_codes")).collect()
    assert Counter(found.collect()) == Counter(wanted)
    assert wanted


@pytest.mark.parametrize("condition", [*CONDITIONS, "p.note = 'a'", "p.note <> o.code", "p.note IN ('a', 'c')"])
def test_beside_versions(session: SparkSession, condition: str) -> None:
    optimizer = Optimizer(session)
    optimizer.declare_versions("prices", ["k"], "since")
    found = optimizer.sql(
        "SELECT o.id, o.code, p.price, p.note FROM orders o "
        f"JOIN prices FOR SYSTEM_TIME AS OF o.at AS p ON o.k = p.k WHERE {condition}"
    )
    versions = "(SELECT *, lead(since) OVER (PARTITION BY k ORDER BY since) AS until FROM prices)"
    wanted = session.sql(
        f"SELECT o.id, o.code, p.price, p.note FROM orders o JOIN {versions} p ON o.k = p.k AND p.since <= o.at "
        f"AND (o.at < p.until OR p.until IS NULL) WHERE {condition}"
    )
    assert Counter(found.collect()) == Counter(wanted.collect())
    assert found.schema == wanted.schema
