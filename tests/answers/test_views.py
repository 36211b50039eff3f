"""A view that holds a band join is rewritten, returns what it returned before, and stays a view where it might not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from dovetail import Optimizer, Options
from sessions import for_few_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTIONS = Options(force=True, strict=True)
BAND = "SELECT p.k, p.x, i.w FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi"
EXISTS = "SELECT k FROM p WHERE NOT EXISTS (SELECT 1 FROM i WHERE abs(p.x - i.lo) <= 1)"


@pytest.fixture(scope="module")
def database(spark: SparkSession) -> Iterator[SparkSession]:
    """A database with tables p and i."""
    session = spark.newSession()
    session.sql("CREATE DATABASE bands")
    session.sql("USE bands")
    session.sql("CREATE TABLE p USING parquet AS SELECT * FROM VALUES (1, 3), (2, 7), (3, NULL), (3, 20) AS t(k, x)")
    rows = "(1, 5, 'a'), (2, 7, 'b'), (7, 7, 'b'), (NULL, 9, 'c')"
    session.sql(f"CREATE TABLE i USING parquet AS SELECT * FROM VALUES {rows} AS t(lo, hi, w)")
    yield session
    session.sql("USE default")
    session.sql("DROP DATABASE bands CASCADE")


@pytest.fixture
def session(database: SparkSession) -> SparkSession:
    """A session with temporary views and settings of its own, in that database."""
    session = for_few_rows(database)
    session.sql("USE bands")
    return session


def check(session: SparkSession, query: str) -> None:
    """The query is rewritten through its view, with the same rows and schema as plain Spark."""
    plan = Optimizer(session, OPTIONS).plan(query)
    assert plan.rewritten, plan.explain("trace")
    assert "inline_views" in plan.rules
    wanted = session.sql(query)
    assert plan.dataframe().schema == wanted.schema
    assert Counter(plan.dataframe().collect()) == Counter(wanted.collect())
    assert wanted.count()


def refused(session: SparkSession, query: str, reason: str) -> None:
    """The query runs as written, for this reason; nothing is said where the reason is empty."""
    plan = Optimizer(session, OPTIONS).plan(query)
    assert not plan.rewritten
    said = [d.reason for d in plan.declined if d.rule == "inline_views"]
    assert reason in " ".join(said)
    assert bool(said) == bool(reason)


@pytest.mark.parametrize("kind", ["VIEW", "TEMP VIEW"])
@pytest.mark.parametrize(
    ("head", "text", "query"),
    [
        ("v", BAND, "SELECT w, count(*) FROM v GROUP BY w"),
        ("v", BAND, "SELECT v.* FROM v AS v"),
        ("v(a, b, c)", BAND, "SELECT a, v.c FROM v WHERE b > 1"),
        ("v(a, b, c)", BAND, "SELECT x.d FROM v x(d, e, f) JOIN p ON p.k = x.d"),
        ("v", EXISTS, "SELECT * FROM v"),
        (
            "v",
            f"WITH p AS (SELECT * FROM p WHERE k < 3) {BAND}",
            "WITH p AS (SELECT 1 AS k) SELECT v.* FROM v JOIN p USING (k)",
        ),
        ("v", f"{BAND} UNION ALL SELECT k, 1, 'z' FROM p", "INSERT INTO p SELECT k, x FROM v"),
        ("v", f"{BAND} UNION ALL SELECT k, 1, 'z' FROM p", "SELECT k FROM v WHERE k IN (SELECT k FROM v)"),
    ],
)
def test_a_view_with_a_band(session: SparkSession, kind: str, head: str, text: str, query: str) -> None:
    session.sql(f"CREATE OR REPLACE {kind} {head} AS {text}")
    if query.startswith("INSERT"):
        plan = Optimizer(session, OPTIONS).plan(query)
        assert plan.rewritten, plan.explain("trace")
        assert "inline_views" in plan.rules
    else:
        check(session, query)


def test_a_view_of_a_view_from_another_database(session: SparkSession) -> None:
    session.sql(f"CREATE OR REPLACE VIEW v AS {BAND}")
    session.sql("CREATE OR REPLACE VIEW of_v AS SELECT k, w FROM v WHERE x > 1")
    session.sql("USE default")
    check(session, "SELECT * FROM bands.of_v")
    check(session, "SELECT o.w FROM spark_catalog.bands.of_v AS o")


def test_names_inside_mean_what_the_view_means(session: SparkSession) -> None:
    session.sql(f"CREATE OR REPLACE VIEW v AS {BAND}")
    session.sql(f"CREATE TEMP VIEW t AS {BAND}")
    session.sql("CREATE TEMP VIEW p AS SELECT 100 AS k, 4 AS x")
    check(session, "SELECT k FROM v")
    check(session, "SELECT k FROM t")
    check(session, "WITH i AS (SELECT 0 AS lo, 0 AS hi, 'q' AS w) SELECT v.* FROM v, i")
    session.sql(f"CREATE TEMP VIEW of_temporary AS {BAND}")
    check(session, "SELECT k FROM of_temporary")
    refused(session, "WITH p AS (SELECT 1 AS k) SELECT o.k FROM of_temporary o, p", "a CTE of this statement")


def test_a_view_made_under_other_settings(session: SparkSession) -> None:
    for kind, name in (("VIEW", "v"), ("TEMP VIEW", "t")):
        session.conf.set("spark.sql.ansi.enabled", "false")
        session.sql(f"CREATE OR REPLACE {kind} {name} AS {BAND}")
        session.conf.set("spark.sql.ansi.enabled", "true")
        refused(session, f"SELECT * FROM {name}", "spark.sql.ansi.enabled has changed since the view was made")
        session.conf.set("spark.sql.ansi.enabled", "false")
        check(session, f"SELECT * FROM {name}")
    session.conf.set("spark.sql.mapKeyDedupPolicy", "LAST_WIN")
    refused(session, "SELECT * FROM v", "spark.sql.mapKeyDedupPolicy has changed since the view was made")


def test_a_view_whose_table_has_changed(session: SparkSession) -> None:
    session.sql("CREATE TABLE q USING parquet AS SELECT * FROM p")
    session.sql("CREATE OR REPLACE VIEW v AS SELECT q.*, i.w FROM q JOIN i ON q.x BETWEEN i.lo AND i.hi")
    check(session, "SELECT * FROM v")
    session.sql("ALTER TABLE q ADD COLUMN more INT")
    refused(session, "SELECT * FROM v", "no longer returns the columns that it had")


def test_a_view_whose_columns_are_cast(session: SparkSession) -> None:
    session.sql("CREATE TABLE r USING parquet AS SELECT 1 AS k, 3 AS x")
    session.sql("CREATE OR REPLACE VIEW v AS SELECT r.k, r.x FROM r JOIN i ON r.x BETWEEN i.lo AND i.hi")
    session.sql("DROP TABLE r")
    session.sql("CREATE TABLE r USING parquet AS SELECT 1 AS k, 3L AS x")
    refused(session, "SELECT * FROM v", "its column x would be cast")


def test_views_without_a_text(session: SparkSession) -> None:
    session.sql(BAND).createOrReplaceTempView("made_by_a_frame")
    refused(session, "SELECT * FROM made_by_a_frame", "")
    session.sql(f"CREATE OR REPLACE VIEW follows WITH SCHEMA EVOLUTION AS {BAND}")
    refused(session, "SELECT * FROM follows", "")


@pytest.mark.parametrize("temporary", ["", "TEMP "])
@pytest.mark.parametrize(
    ("query", "rule"),
    [
        ("SELECT a.x, b.k FROM u a JOIN v b ON a.id = b.id", "self_join_elimination"),
        ("SELECT a.x, b.k FROM u a LEFT JOIN v b ON a.id = b.id AND b.k > 1", "self_join_elimination"),
        ("SELECT a.x, (SELECT sum(b.v) FROM w b WHERE b.k = a.k) AS s FROM u a", "self_aggregate"),
        ("SELECT a.id, b.n FROM u a JOIN (SELECT k, count(*) AS n FROM w GROUP BY k) b ON a.k = b.k", "self_aggregate"),
    ],
)
def test_a_view_beside_its_own_table(session: SparkSession, temporary: str, query: str, rule: str) -> None:
    rows = "(1, 1, 5, 2), (2, 2, NULL, 3), (3, 2, 7, NULL), (4, NULL, 9, 1), (5, 3, 1, 1)"
    session.sql(f"CREATE TABLE u USING parquet AS SELECT * FROM VALUES {rows} AS t(id, k, x, y)")
    opt = Optimizer(session, OPTIONS)
    try:
        session.sql(f"CREATE OR REPLACE {temporary}VIEW v AS SELECT id, k FROM u WHERE x > 4")
        session.sql(f"CREATE OR REPLACE {temporary}VIEW w (k, v) AS SELECT k, y AS z FROM u")
        opt.declare_key("u", ["id"])
        plan = opt.plan(query)
        assert {"inline_views", rule} <= set(plan.rules), plan.explain("trace")
        assert plan.rewritten
        wanted = session.sql(query)
        assert plan.dataframe().schema == wanted.schema
        assert Counter(plan.dataframe().collect()) == Counter(wanted.collect())
        opt.declare_key("v", ["id"])
        kept = opt.plan("SELECT a.x FROM u a JOIN v b ON a.id = b.id")
        assert "inline_views" not in kept.rules
    finally:
        for view in "v", "w":
            session.sql(f"DROP VIEW IF EXISTS {view}")
        session.sql("DROP TABLE u")
