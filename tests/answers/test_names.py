"""Names of tables: whether two mean one table, and whether one still means what it did."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from comparing import assert_same
from dovetail import Optimizer, Options
from dovetail.executor.catalog.declared_tables import DeclaredTables
from dovetail.executor.catalog.spark_catalog import SparkCatalog
from dovetail.planner.catalog import UniqueKey
from dovetail.planner.physical.nearest_join import NearestJoin
from sessions import for_few_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORCE = Options(force=True, strict=True)


@pytest.fixture
def own(spark: SparkSession) -> SparkSession:
    return for_few_rows(spark)


TWO_NAMES = (
    "SELECT (SELECT count(*) FROM {0} WHERE id < 3) a, (SELECT count(*) FROM {1} WHERE id < 4) b",
    "SELECT a.id FROM (SELECT id, v, k FROM {0}) a JOIN (SELECT id, v FROM {1}) b ON a.id = b.id WHERE b.v > 1",
    "SELECT a.id FROM {0} a WHERE EXISTS (SELECT 1 FROM {0} x, {1} y WHERE x.k = y.k AND x.v <> y.v AND x.k = a.k)",
    "SELECT a.id, (SELECT sum(b.v) FROM {1} b WHERE b.k = a.k) s FROM {0} a",
    """SELECT x.k, x.n, y.n m FROM (SELECT k, count(*) n FROM {0} GROUP BY k) x
    JOIN (SELECT k, count(*) n FROM {1} GROUP BY k) y ON x.k = y.k""",
)


@pytest.mark.parametrize("query", TWO_NAMES)
def test_paths_that_differ_in_case_are_two_tables(own: SparkSession, tmp_path: Path, query: str) -> None:
    names = []
    for n, folder in enumerate(("Dir", "dir")):
        rows = f"SELECT id, id % 2 AS k, id * {n + 1} AS v FROM range({8 - n})"
        own.sql(rows).write.parquet(str(tmp_path / folder))
        names.append(f"parquet.`{tmp_path / folder}`")
    text = query.format(*names)
    assert_same(own, text, Optimizer(own, FORCE).plan(text))


def test_two_tables_of_a_catalog_that_tells_letters_apart(own: SparkSession) -> None:
    prefix = "spark.sql.catalog.letters"
    own.conf.set(prefix, "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog")
    own.conf.set(f"{prefix}.url", "jdbc:derby:memory:letters;create=true")
    own.conf.set(f"{prefix}.driver", "org.apache.derby.jdbc.EmbeddedDriver")
    own.sql("CREATE NAMESPACE IF NOT EXISTS letters.n")
    for n, name in enumerate(("T", "t")):
        own.sql(f"DROP TABLE IF EXISTS letters.n.{name}")
        own.sql(f"CREATE TABLE letters.n.{name} AS SELECT id, id % 2 AS k, id * {n + 1} AS v FROM range({8 - n})")
    opt = Optimizer(own, FORCE)
    opt.declare_key("letters.n.T", ["id"])
    assert list(opt.declarations.keys) == [("letters", "n", "T")]
    for query in TWO_NAMES:
        text = query.format("letters.n.t", "letters.n.T")
        assert_same(own, text, opt.plan(text))


def test_a_table_of_the_current_catalog_whose_columns_change(own: SparkSession) -> None:
    """A copy of the session, in which the table is analyzed again, would look for it in Spark's own catalog."""
    prefix = "spark.sql.catalog.current"
    own.conf.set(prefix, "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog")
    own.conf.set(f"{prefix}.url", "jdbc:derby:memory:current;create=true")
    own.conf.set(f"{prefix}.driver", "org.apache.derby.jdbc.EmbeddedDriver")
    own.sql("CREATE NAMESPACE IF NOT EXISTS current.n")
    own.sql("USE current.n")
    try:
        own.sql("CREATE TABLE kk AS SELECT id, id AS v FROM range(4)")
        opt = Optimizer(own, FORCE)
        opt.declare_key("kk", ["id"])
        check(opt, counts=True)
        own.sql("ALTER TABLE kk ADD COLUMN w INT")
        check(opt, counts=False)
    finally:
        own.sql("USE spark_catalog.default")


def test_names_of_with_in_a_session_that_tells_letters_apart(own: SparkSession) -> None:
    own.sql("SELECT id, id % 2 AS k, id AS v FROM range(8)").createOrReplaceTempView("x")
    text = (
        "WITH X AS (SELECT id, k, -v AS v FROM x) SELECT a.v, b.v AS w FROM x a JOIN X b ON a.v - b.v BETWEEN 0 AND 3"
    )
    own.conf.set("spark.sql.caseSensitive", "true")
    opt = Optimizer(own, FORCE)
    opt.declare_key("x", ["id"])
    plan = opt.plan(text)
    assert plan.rewritten
    assert_same(own, text, plan)


# What a name meant.

SELF_JOIN = "SELECT a.id, b.v FROM kk a JOIN kk b ON a.id = b.id"
UNIQUE, TWICE = "SELECT id, id AS v FROM range(4)", "SELECT id % 2 AS id, id AS v FROM range(4)"


def check(opt: Optimizer, *, counts: bool, text: str = SELF_JOIN) -> None:
    """Whether the declared key counts, and that the rows are right in any case."""
    plan = opt.plan(text)
    assert ("self_join_elimination" in plan.rules) == counts, plan.declined
    assert any("is ignored" in d.reason for d in plan.declined) != counts
    assert_same(opt.session, text, plan)


def replace_view(session: SparkSession, query: str) -> None:
    session.sql(query).createOrReplaceTempView("kk")


def test_a_key_is_not_one_of_the_view_that_takes_the_name(own: SparkSession) -> None:
    replace_view(own, UNIQUE)
    opt = Optimizer(own, FORCE)
    opt.declare_key("kk", ["id"])
    check(opt, counts=True)
    replace_view(own, UNIQUE)  # means the same
    check(opt, counts=True)
    replace_view(own, TWICE)
    check(opt, counts=False)
    rows = "SELECT * FROM VALUES (1, 1), ({}, 2) AS t(id, v)"
    replace_view(own, rows.format(2))
    check(opt, counts=False)
    opt.declare_key("kk", ["id"])
    check(opt, counts=True)
    replace_view(own, rows.format(1))
    check(opt, counts=False)


@pytest.mark.parametrize("over", ["", "view", "temporary view"])
def test_a_key_is_not_one_of_the_table_that_takes_the_name(own: SparkSession, over: str) -> None:
    base = "kk_base" if over else "kk"
    own.sql(f"DROP TABLE IF EXISTS {base}")
    try:
        own.sql(f"CREATE TABLE {base} USING parquet AS {UNIQUE}")
        if over:
            own.sql(f"CREATE OR REPLACE {over} kk AS SELECT * FROM kk_base")
        opt = Optimizer(own, FORCE)
        opt.declare_key("kk", ["id"])
        check(opt, counts=True)
        own.sql(f"INSERT INTO {base} VALUES (7, 7)")  # whoever writes it keeps the key
        check(opt, counts=True)
        own.sql(f"DROP TABLE {base}")
        own.sql(f"CREATE TABLE {base} USING parquet AS {TWICE}")
        check(opt, counts=False)
        if not over:
            own.sql("DROP TABLE kk")
            replace_view(own, UNIQUE)
            assert not any("is ignored" in d.reason for d in opt.plan(SELF_JOIN).declined)
    finally:
        own.sql("DROP VIEW IF EXISTS kk" if over else "DROP TABLE IF EXISTS spark_catalog.default.kk")
        own.catalog.dropTempView("kk")
        own.sql(f"DROP TABLE IF EXISTS spark_catalog.default.{base}")


def test_a_key_of_what_cannot_be_told_apart_does_not_count(own: SparkSession) -> None:
    replace_view(own, UNIQUE)
    key = UniqueKey(("id",))
    unknown = SparkCatalog(own, declared=DeclaredTables({("kk",): (key,)}, identities={(("kk",), key): None}))
    assert unknown.keys(("kk",)) == ()
    assert unknown.expired_key_reason(("kk",)) == (
        "the key (id) of kk is ignored, since Spark Connect does not expose the tables that it reads"
    )
    assert SparkCatalog(own, declared=DeclaredTables({("kk",): (key,)})).keys(("kk",)) == (key,)


def test_a_global_view_is_not_a_local_one(own: SparkSession) -> None:
    own.sql(UNIQUE).createOrReplaceGlobalTempView("kk")
    replace_view(own, TWICE)
    opt = Optimizer(own, FORCE)
    opt.declare_key("global_temp.kk", ["id"])
    assert list(opt.declarations.keys) == [("global_temp", "kk")]
    assert not opt.plan(SELF_JOIN).rewritten
    check(opt, counts=True, text=SELF_JOIN.replace("kk", "global_temp.kk"))
    own.catalog.dropGlobalTempView("kk")


def test_versions_are_those_of_the_table_they_were_declared_of(own: SparkSession) -> None:
    from dovetail.planner.errors import QueryError

    rows = "SELECT 1 AS k, TIMESTAMP '2026-01-01 00:00:00' AS since, {0} AS rate"
    own.sql(rows.format(1)).createOrReplaceTempView("kk")
    own.sql("SELECT 1 AS k, TIMESTAMP '2026-01-02 00:00:00' AS at").createOrReplaceTempView("orders")
    opt = Optimizer(own, FORCE)
    opt.declare_versions("kk", ["k"], "since")
    text = "SELECT o.at, r.rate FROM orders o JOIN kk FOR SYSTEM_TIME AS OF o.at AS r ON r.k = o.k"
    assert opt.sql(text).count() == 1
    own.sql(rows.format(2)).createOrReplaceTempView("kk")
    with pytest.raises(QueryError, match="kk changed after declare_versions"):
        opt.sql(text)
    opt.declare_versions("kk", ["k"], "since")
    assert opt.sql(text).count() == 1


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN"])
def test_versions_where_intervals_have_no_order(own: SparkSession, kind: str) -> None:
    own.sql("SELECT 1 AS k, timestamp_seconds(id * 100) AS since, id AS rate FROM range(5)").createOrReplaceTempView(
        "kk"
    )
    own.sql("SELECT 1 AS k, timestamp_seconds(id * 70) AS at FROM range(9)").createOrReplaceTempView("orders")
    text = f"SELECT o.at, r.rate FROM orders o {kind} kk FOR SYSTEM_TIME AS OF o.at AS r ON r.k = o.k"
    found = []
    for old in ("false", "true"):
        own.conf.set("spark.sql.join.asofJoin.enabled", "true")
        own.conf.set("spark.sql.legacy.interval.enabled", old)
        opt = Optimizer(own, FORCE)
        opt.declare_versions("kk", ["k"], "since")
        plan = opt.plan(text)
        assert plan.physical is not None
        assert any(isinstance(n, NearestJoin) for n in plan.physical.walk()) == (old == "false")
        found.append(Counter(map(repr, plan.dataframe().collect())))
    assert found[0] == found[1]
