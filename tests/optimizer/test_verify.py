"""What `verify` takes for the same, and what not: rewritings changed on purpose."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

from optimizer import Optimizer, Options
from optimizer.verify import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from optimizer.verification import Verification

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
    assert str(found) == "same: 3 rows both ways"


def test_a_schema_that_differs_is_named(session: SparkSession) -> None:
    assert str(verified(session, "1", "1L")) == "different: column v BIGINT NOT NULL instead of v INT NOT NULL"


def test_rows_that_differ_are_counted(session: SparkSession) -> None:
    plan = Optimizer(session).plan("SELECT id, 1 AS one FROM range(5)")
    found = verify(session, replace(plan, rewriting="SELECT id, 1 AS one FROM range(3) UNION ALL SELECT 2L, 1"))
    assert (found.same, found.rows, found.missing, found.extra) == (False, 5, 2, 1)
