"""What `verify` takes for the same, and what not: rewritings changed on purpose."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException

from dovetail import Optimizer, OptionError, Options
from dovetail.optimizer.verify.batch import Checks, verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dovetail.optimizer.verification import Verification


@pytest.mark.parametrize(
    ("checks", "message"),
    [
        ({"timeout": -1}, "timeout=-1 is no time limit; give seconds above 0, up to 315,360,000"),
        ({"timeout": 0}, "timeout=0 is no time limit"),
        ({"timeout": float("nan")}, "timeout=nan is no time limit"),
        ({"timeout": float("inf")}, "timeout=inf is no time limit"),
        ({"sample": 1.5}, "sample=1.5 is no part of the rows"),
        ({"limit": 0}, "limit=0 leaves no row"),
        ({"sample": 0.5, "limit": 1}, "give one of them"),
    ],
)
def test_checks_that_cannot_be(checks: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        Checks(**checks)


# Each a value and another one that Spark's grouping, or its implicit casts, would take for the same.
APART = [
    ("0.0D", "-0.0D"),
    ("CAST(0 AS FLOAT)", "CAST('-0.0' AS FLOAT)"),
    ("1", "1L"),
    ("CAST(1 AS DECIMAL(5, 2))", "CAST(1 AS DECIMAL(6, 2))"),
    ("1.5D", "CAST(1.5 AS FLOAT)"),
    ("'a'", "CAST(NULL AS STRING)"),
    ("'a' COLLATE UTF8_LCASE", "'A' COLLATE UTF8_LCASE"),
    ("'a'", "'a' COLLATE UTF8_LCASE"),
    ("array(1D, 0D)", "array(1D, -0D)"),
    ("array('a' COLLATE UTF8_LCASE)", "array('A' COLLATE UTF8_LCASE)"),
    ("named_struct('a', 0D, 'A', 1)", "named_struct('a', -0D, 'A', 1)"),
    ("named_struct('a', 1)", "named_struct('b', 1)"),
    ("map('k', 0D)", "map('k', -0D)"),
    ("map(1, 'x')", "map(1, 'y')"),
    ("map(1, TIMESTAMP '2020-01-01 00:00:00.000001')", "map(1, TIMESTAMP '2020-01-01 00:00:00.000002')"),
    ("map('k', array(named_struct('a', 0D)))", "map('k', array(named_struct('a', -0D)))"),
    ("parse_json('1')", "parse_json('\"1\"')"),
    ("parse_json('{\"a\": 1}')", "parse_json('{\"a\": 1.0}')"),
    ("make_interval(0, 1)", "make_interval(0, 0, 0, 30)"),
    ("TIMESTAMP '2020-01-01'", "TIMESTAMP_NTZ '2020-01-01'"),
    ("X'00'", "X'01'"),
    ("coalesce(1, 2)", "if(rand() < 2, 1, NULL)"),  # may be NULL, and never is
]
SAME = [
    ("double('NaN')", "-double('NaN') + 1"),
    ("named_struct('f', float('NaN'), 'm', map(1, 2, 3, 4))", "named_struct('f', float('NaN'), 'm', map(3, 4, 1, 2))"),
    ("CAST(NULL AS STRUCT<a: DOUBLE>)", "CAST(NULL AS STRUCT<a: DOUBLE>)"),
    ("map('a', CAST(NULL AS DOUBLE))", "map('a', CAST(NULL AS DOUBLE))"),
    ('parse_json(\'{"a": 1, "b": [2]}\')', 'parse_json(\'{"b": [2], "a": 1}\')'),
    ("'ü'", "'ü'"),
    ("0.1D + 0.2D", "0.30000000000000004D"),
]


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    own = spark.newSession()
    own.conf.set("spark.sql.ansi.enabled", "false")
    return own


def verified(session: SparkSession, one: str, other: str) -> Verification:
    """What is said of a query, and of the same with another value in it, as though that were its rewriting."""
    text = "SELECT p.id, {} AS v FROM range(3) p"
    plan = Optimizer(session, Options(strict=True)).plan(text.format(one))
    return verify(session, replace(plan, rewriting=text.format(other)))


def test_what_is_not_rewritten_is_analysed(session: SparkSession) -> None:
    opt = Optimizer(session, Options(strict=True))
    assert str(opt.verify("SELECT id FROM range(3)")) == "not rewritten: Spark runs the statement as written"
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        opt.verify("SELECT id FROM nowhere")
    session.sql("CREATE TEMPORARY VIEW kept AS SELECT 1 AS id")
    opt.verify("DROP VIEW kept")  # no query: nothing is done
    assert session.table("kept").count() == 1


@pytest.mark.parametrize(("one", "other"), APART)
def test_values_that_differ(session: SparkSession, one: str, other: str) -> None:
    for found in (verified(session, one, other), verified(session, other, one)):
        assert not found.same
        assert found.schema or (found.rows, found.missing, found.extra) == (3, 3, 3)
        assert str(found).startswith("different: ")
    assert verified(session, one, one).same or "rand" in one
    assert verified(session, other, other).same


@pytest.mark.parametrize(("one", "other"), SAME)
def test_values_that_are_the_same(session: SparkSession, one: str, other: str) -> None:
    found = verified(session, one, other)
    assert found.same, found
    assert str(found).startswith("same: 3 rows both ways")


def test_a_schema_that_differs_is_named(session: SparkSession) -> None:
    assert str(verified(session, "1", "1L")) == "different: column v BIGINT NOT NULL instead of v INT NOT NULL"


def test_rows_that_differ_are_counted(session: SparkSession) -> None:
    plan = Optimizer(session).plan("SELECT id, 1 AS one FROM range(5)")
    found = verify(session, replace(plan, rewriting="SELECT id, 1 AS one FROM range(3) UNION ALL SELECT 2L, 1"))
    assert (found.same, found.rows, found.missing, found.extra) == (False, 5, 2, 1)


def test_rows_that_differ_are_shown_side_by_side(session: SparkSession) -> None:
    columns = "id, nullif(id * 2, {}) AS twice, 'x' AS s"
    plan = Optimizer(session).plan(f"SELECT {columns.format(-1)} FROM range(9)")
    changed = f"SELECT {columns.format(6)} FROM range(9) WHERE id <> 5 UNION ALL SELECT 8L, 1L, 'y'"
    found = verify(session, replace(plan, rewriting=changed))
    assert (found.missing, found.extra) == (2, 2)
    assert [row.show(found.columns) for row in found.differences] == [
        "id: 3; twice: 6 as written, NULL rewritten; s: x",
        "only as written: id: 5; twice: 10; s: x",
        "only rewritten: id: 8; twice: 1; s: y",
    ]
    assert str(found).splitlines()[1:] == [f"  {row.show(found.columns)}" for row in found.differences]


def test_what_explains_a_difference(session: SparkSession) -> None:
    sums = "SELECT p.id, {} AS v FROM range(3) p"
    plan = Optimizer(session).plan(sums.format("0.1D + 0.2D"))
    found = verify(session, replace(plan, rewriting=sums.format("0.3D")))
    assert not found.same
    assert found.explanations == (
        "the values are sums of floating-point numbers, which depend on the order in which Spark adds them",
    )
    plan = Optimizer(session).plan("SELECT p.id, uuid() AS v FROM range(3) p")
    found = verify(session, replace(plan, rewriting=plan.text))
    assert found.explanations == ("uuid() may have another value each time",)


def test_only_rows_that_tie_are_said_to_tie(session: SparkSession) -> None:
    session.range(40).selectExpr("id", "id % 4 AS k", "id AS ts").createOrReplaceTempView("t")
    query = "SELECT t.id, max_by(q.price, q.ts) AS price FROM t JOIN q ON q.k = t.k AND q.ts <= t.ts GROUP BY t.id"
    in_several = "24 values of q.ts are in several rows, any of which may be the nearest"
    for times, tied in (("id", ()), ("id DIV 8", (in_several,))):
        session.range(50).selectExpr("id % 4 AS k", f"{times} AS ts", "id AS price").createOrReplaceTempView("q")
        plan = Optimizer(session, Options(force=True)).plan(query)
        assert "nearest_groups" in plan.rules
        found = verify(session, replace(plan, rewriting=f"SELECT id, price + 1 AS price FROM ({plan.rewriting})"))
        assert not found.same
        assert found.explanations == tied


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN", "FULL JOIN", "LEFT ANTI JOIN"])
def test_both_ways_read_the_same_sample(session: SparkSession, kind: str) -> None:
    session.range(3000).selectExpr("id", "id % 7 AS k", "id * 7 % 3000 AS ts").createOrReplaceTempView("p")
    session.range(400).selectExpr("id % 7 AS k", "id * 8 AS lo", "id * 8 + 20 AS hi").createOrReplaceTempView("i")
    shown = "p.id" if "ANTI" in kind else "p.id, i.lo"
    query = f"SELECT {shown} FROM p {kind} i ON p.k = i.k AND p.ts BETWEEN i.lo AND i.hi"
    opt = Optimizer(session, Options(force=True))
    whole = opt.verify(query)
    assert whole.same
    for found in (opt.verify(query, sample=0.4), opt.verify(query, limit=1000)):
        assert found.same, found
        assert found.rows < whole.rows
        assert found.sample.endswith(" of p")
    assert opt.verify(query, sample=1.0).rows == whole.rows
    assert [t.name for t in session.catalog.listTables() if "__dt" in t.name] == []


def test_a_time_limit_cancels_what_runs(session: SparkSession) -> None:
    session.range(200_000).selectExpr("id", "id AS ts").createOrReplaceTempView("many")
    query = "SELECT count(*) AS n FROM many a JOIN many b ON a.ts > b.ts AND a.id + b.id > 0"
    plan = replace(Optimizer(session).plan(query), rewriting=query)
    texts: list[str] = []
    found = verify(session, plan, Checks(timeout=2, progress=texts.append))
    assert (found.same, found.rewritten) == (False, True)
    assert str(found) == "not compared: stopped after 2 s; give a longer timeout, or a sample of the rows"
    assert texts == ["running the statement as written"]
    assert session.sparkContext.statusTracker().getActiveJobsIds() == []


def test_an_order_that_spark_loses_is_judged_by_a_third_way(session: SparkSession) -> None:
    """The rewriting is right, whatever Spark returns as written: here in the place of its wrong rows others."""
    session.range(60).selectExpr("id", "id % 4 AS k", "id AS ts").createOrReplaceTempView("t")
    session.range(50).selectExpr("id % 4 AS k", "id AS ts", "id * 3 AS price").createOrReplaceTempView("q")
    latest = "SELECT q.price FROM q WHERE q.k = t.k AND q.ts <= t.ts ORDER BY q.ts DESC"
    query = f"SELECT t.id, ({latest} LIMIT 1) AS price FROM t"
    plan = Optimizer(session, Options(force=True)).plan(query)
    assert "nearest_subquery" in plan.rules
    assert [w.rule for w in plan.warnings] == ["spark"]
    by_chance = query.replace("SELECT t.id, (", "SELECT t.id, 1 + (")
    found = verify(session, replace(plan, text=by_chance))
    assert found.same
    assert "it loses the ORDER BY of a subquery with LIMIT" in found.explanations[0]
    assert not verify(session, replace(plan, rewriting=f"SELECT id, price + 1 AS price FROM ({plan.rewriting})")).same
