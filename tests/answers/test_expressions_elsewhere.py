"""Expressions that are put elsewhere, compared or copied mean what they mean to Spark, under its own settings."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from comparing import rows
from dovetail import Optimizer, Options
from sessions import for_few_rows

FLAGS = "(1, false, true, 3, 4), (2, true, false, 5, 6)"
MARKS = """
(1, 1, 10, array(named_struct('v', 1), named_struct('v', 100)), map('a', 1, 'A', 2), 'its'),
(2, 1, 20, array(named_struct('v', 5), named_struct('v', 30)), map('a', 3, 'A', 0), 'it''s'),
(3, 2, 30, array(named_struct('v', 25), named_struct('v', 50)), map('a', 0, 'A', 9), 'its')
"""
SPANS = "(1, 5, 25, struct(1 AS a, 2 AS b)), (2, 100, 300, struct(3 AS a, 4 AS b))"
TABLES = {"flags(id, p, q, x, y)": FLAGS, "marks(id, k, v, a, m, w)": MARKS, "spans(id, lo, hi, s)": SPANS}
OF_FLAGS = """
SELECT x.id, z.e FROM flags x {join} JOIN (SELECT id, {outer} AS e FROM (SELECT id, {inner} AS c FROM flags)) z
ON x.id = z.id
"""
PAIRS = [("NOT c", "p OR q"), ("c IS NULL", "p AND q"), ("c AND id > 0", "p OR q")]
SUMS = [("10 - c", "x - y"), ("-c", "x - y"), ("c * 2", "x + y"), ("c BETWEEN 1 AND 9", "x + y"), ("c IN (7)", "x + y")]
QUERIES = """
SELECT x.id FROM marks x
WHERE EXISTS (SELECT 1 FROM marks y WHERE y.k = x.k AND y.v <> x.v AND exists(y.a, x -> x.v > y.v));

SELECT x.id, y.v FROM marks x LEFT JOIN marks y ON x.id = y.id AND exists(y.a, x -> x.v > y.v);

SELECT x.k, x.n, y.n AS m
FROM (SELECT k, count(*) AS n FROM marks WHERE m.a > 0 GROUP BY k) x
JOIN (SELECT k, count(*) AS n FROM marks WHERE m.A > 0 GROUP BY k) y ON x.k = y.k;

SELECT (SELECT count(*) FROM marks WHERE to_char(v, '000999') = '000020') a,
  (SELECT count(*) FROM marks WHERE to_char(v, '999999') = '000020') b;

SELECT (SELECT count(*) FROM marks WHERE w = 'it''s' AND id > 0) x,
  (SELECT count(*) FROM marks WHERE w = 'it' 's') y;

SELECT t.id, i.id AS j FROM marks t JOIN spans i ON safe_divide(t.v, 2) BETWEEN i.lo AND i.hi;

SELECT t.id, i.id AS j FROM marks t JOIN spans i ON abs(t.v) BETWEEN i.lo AND i.hi;

SELECT x.id, y.s FROM marks x JOIN (SELECT id, (named_struct('a', v)).a AS s FROM marks) y ON x.id = y.id;

SELECT x.id, y.s FROM marks x JOIN (SELECT id, v >>> 1 AS s FROM marks) y ON x.id = y.id;

SELECT i.s.a, i.s.b, count(*) AS n FROM marks t JOIN spans i ON t.v BETWEEN i.lo AND i.hi GROUP BY i.s.a, i.s.b;

SELECT t.id, i.id AS j FROM marks t JOIN spans i ON t.v + t.k % 5 BETWEEN i.lo AND i.hi;

SELECT t.id, i.id AS j FROM marks t JOIN spans i ON t.v BETWEEN i.lo AND i.hi WHERE t.v >> 1 > 1 AND t.v >>> 1 > 1;

SELECT x.id FROM marks x WHERE NOT EXISTS (SELECT 1 FROM marks y WHERE y.k = x.k AND y.v > x.v
  AND NOT forall(array(y.v, y.id), x -> x % y.v = y.id))
""".split(";")


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Any:
    found = for_few_rows(spark)
    for name, values in TABLES.items():
        found.sql(f"CREATE TEMPORARY VIEW {name} AS SELECT * FROM VALUES {values}")
    found.udf.register("safe_divide", lambda a, b: a * b, "int")
    found.udf.register("abs", lambda a: a * 10, "int")
    return found


def same(session: Any, query: str, args: Any = None) -> Any:
    optimizer = Optimizer(session, Options(force=True))
    optimizer.declare_key("flags", ["id"])
    optimizer.declare_key("marks", ["id"])
    plan = optimizer.plan(query, args)
    assert rows(plan.dataframe) == rows(lambda: session.sql(query, args=args) if args else session.sql(query))
    assert not [d for d in plan.declined if "Error" in d.reason or "failed" in d.reason or "not take" in d.reason]
    return plan


@pytest.mark.parametrize("join", ["LEFT", "INNER"])
@pytest.mark.parametrize(("outer", "inner"), [*PAIRS, *SUMS])
def test_an_expression_over_an_expression(session: SparkSession, join: Any, outer: Any, inner: Any) -> None:
    plan = same(session, OF_FLAGS.format(join=join, outer=outer, inner=inner))
    assert plan.rewritten or (outer, inner) in SUMS or join == "INNER"


@pytest.mark.parametrize("query", QUERIES)
def test_what_was_wrong_once(session: SparkSession, query: Any) -> None:
    same(session, query)


def test_the_case_of_parameters_counts(session: SparkSession) -> None:
    query = (
        "SELECT x.k, x.n, y.n AS m FROM (SELECT k, count(*) AS n FROM marks WHERE v > :a GROUP BY k) x "
        "JOIN (SELECT k, count(*) AS n FROM marks WHERE v > :A GROUP BY k) y ON x.k = y.k"
    )
    same(session, query, {"a": 5, "A": 15})


@pytest.mark.parametrize(
    ("setting", "condition", "reason"),
    [
        ("spark.sql.ansi.doubleQuotedIdentifiers", "\"w\" = 'its'", "doubleQuotedIdentifiers"),
        ("spark.sql.parser.escapedStringLiterals", r"w RLIKE '\w+'", "escapedStringLiterals"),
        ("spark.sql.legacy.consecutiveStringLiterals.enabled", "w = 'it''s'", "consecutiveStringLiterals"),
    ],
)
def test_settings_that_change_what_a_text_means(
    session: SparkSession, setting: Any, condition: Any, reason: Any
) -> None:
    query = f"SELECT a.id, b.v FROM marks a JOIN (SELECT id, v, w FROM marks WHERE {condition}) b ON a.id = b.id"
    session.conf.set(setting, "true")
    try:
        plan = same(session, query)
    finally:
        session.conf.unset(setting)
    assert any(reason in d.reason for d in plan.declined)
    assert not any(reason in d.reason for d in same(session, query).declined)


def test_what_spark_puts_into_a_text_is_not_read(session: SparkSession) -> None:
    session.conf.set("my.condition", "1 = 1 OR 2 = 2")
    plan = same(session, "SELECT a.id FROM marks a JOIN marks b ON a.id = b.id WHERE a.id > 5 AND ${my.condition}")
    assert not plan.rewritten
