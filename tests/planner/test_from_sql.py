"""The reader of SQL: what it carries comes back token for token; what it does not, it says."""

from __future__ import annotations

import pytest

from dovetail.optimizer.planning.validation import has_same_tokens
from dovetail.planner.catalog import Settings
from dovetail.planner.errors import Unsupported
from dovetail.planner.explain.printer import show_tree
from dovetail.planner.expr import Scalar
from dovetail.planner.expr.tokens import words
from dovetail.planner.logical import Filter, Join, Project, Scan
from dovetail.planner.sql.from_sql import from_sql
from dovetail.planner.sql.to_sql import to_sql

PIVOT = "FROM with PIVOT and the like is not supported"

CARRIED = """
SELECT 1
SELECT DISTINCT a, b AS c, t.* FROM t
SELECT ALL a FROM t;
SELECT /*+ BROADCAST(t), SHUFFLE_HASH(u) */ * FROM t JOIN u ON t.a = u.a
SELECT * FROM db.t AS x, `spark_catalog`.`d b`.t y
SELECT * FROM t x JOIN u AS y USING (a, b) LEFT OUTER JOIN v ON x.a = v.a RIGHT JOIN w USING (a)
SELECT * FROM t NATURAL JOIN u NATURAL LEFT JOIN v CROSS JOIN w FULL OUTER JOIN z ON w.a = z.a
SELECT * FROM t LEFT SEMI JOIN u ON t.a = u.a LEFT ANTI JOIN v ON t.a = v.a SEMI JOIN w ON TRUE ANTI JOIN z ON FALSE
SELECT * FROM a, b JOIN c ON b.x = c.x, d LEFT JOIN e ON d.y = e.y WHERE a.k = d.k
SELECT * FROM (a JOIN b ON a.x = b.x) JOIN (c CROSS JOIN d) ON a.x = c.x
SELECT * FROM (SELECT * FROM t) AS s(a, b) JOIN (VALUES (1, 2), (3, 4)) AS v(c, d) ON s.a = v.c
SELECT * FROM VALUES (1, 'a'), (2, 'b') AS v(i, s)
SELECT * FROM t, LATERAL (SELECT max(u.x) AS m FROM u WHERE u.k = t.k) AS l WHERE l.m > 3
SELECT * FROM t JOIN LATERAL explode(t.xs) AS e(x) ON e.x > 1
SELECT * FROM t LATERAL VIEW OUTER explode(t.xs) e AS x LATERAL VIEW posexplode(ys) f AS p, y WHERE x = y
SELECT * FROM range(10) AS r JOIN t TABLESAMPLE (10 PERCENT) s ON r.id = s.id
SELECT * FROM t VERSION AS OF 3 JOIN u TIMESTAMP AS OF '2024-01-01' ON t.a = u.a
SELECT a, count(*) FROM t GROUP BY ROLLUP (a, b) HAVING count(*) > 1 ORDER BY a NULLS LAST LIMIT 10 OFFSET 2
SELECT a, grouping(a) FROM t GROUP BY GROUPING SETS ((a, b), (a), ())
SELECT a FROM t GROUP BY ALL ORDER BY ALL
SELECT a, sum(b) OVER w, rank() OVER (PARTITION BY a ORDER BY b ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t \
WINDOW w AS (PARTITION BY a)
SELECT a FROM t QUALIFY row_number() OVER (PARTITION BY a ORDER BY b) = 1
SELECT a FROM t SORT BY a
SELECT a FROM t DISTRIBUTE BY a SORT BY b
SELECT a FROM t CLUSTER BY a
SELECT a FROM t UNION ALL SELECT b FROM u INTERSECT SELECT c FROM v EXCEPT DISTINCT SELECT d FROM w ORDER BY 1
(SELECT a FROM t LIMIT 1) UNION (SELECT a FROM u MINUS SELECT a FROM v) LIMIT 5
SELECT a FROM t UNION ALL BY NAME SELECT a FROM u
WITH x AS (SELECT 1 AS a), y(b) AS (SELECT a FROM x) SELECT * FROM x JOIN y ON x.a = y.b
WITH x AS (WITH y AS (SELECT 1 AS a) SELECT a FROM y) SELECT * FROM x
SELECT (SELECT max(a) FROM t), EXISTS (SELECT 1 FROM u WHERE u.a = v.a), a IN (SELECT a FROM t) FROM v
SELECT * FROM t WHERE (a, b) IN (SELECT a, b FROM u) AND NOT EXISTS (SELECT * FROM v WHERE v.a = t.a) OR a > 1
SELECT CASE WHEN a BETWEEN 1 AND 2 AND b THEN 1 END FROM t WHERE CASE WHEN a AND b THEN c END AND d BETWEEN 1 AND 2
SELECT a FROM t WHERE x = '(' AND y = 'it''s' AND z = "AND" AND `WHERE` = 1 -- AND a comment (
SELECT a /* FROM b */ FROM t WHERE a IS DISTINCT FROM b AND extract(YEAR FROM d) = 2024 AND trim(BOTH 'x' FROM s) = 'y'
SELECT t.limit, t.offset, a AS window, left(s, 3) FROM t ORDER BY offset LIMIT 3
SELECT left(a, 2), right(a, 2) FROM t JOIN u ON left(t.a, 2) = right(u.a, 2) LEFT JOIN v ON TRUE
SELECT transform(xs, x -> x + 1), s.f.g, m['k'], xs[0], a::INT, 1L, 2.5BD, -3, x <=> y FROM t
SELECT :named, ? FROM t WHERE a = :other AND b > ?
SELECT * FROM t PIVOT (sum(a) FOR b IN (1, 2)) WHERE c = 1
VALUES (1, 2), (3, 4)
INSERT INTO t PARTITION (d = 1) (a, b) SELECT a, b FROM u
INSERT OVERWRITE TABLE t WITH x AS (SELECT 1 AS a) SELECT a FROM x
CREATE TABLE t USING parquet PARTITIONED BY (a) AS SELECT a, b FROM u
CREATE OR REPLACE TEMPORARY VIEW v (a COMMENT 'with AS inside') AS SELECT a FROM t
WITH x AS (SELECT 1 AS a) INSERT INTO t SELECT a FROM x
FROM t JOIN u ON t.a = u.a INSERT OVERWRITE TABLE v SELECT t.a WHERE u.b = 1
INSERT INTO t (SELECT a FROM u)
INSERT INTO t REPLACE WHERE a IN (SELECT b FROM u) SELECT a FROM v
CACHE LAZY TABLE t OPTIONS ('storageLevel' = 'DISK_ONLY') AS WITH x AS (SELECT 1) SELECT * FROM x
MERGE INTO t USING (SELECT a FROM u WHERE b IN (SELECT 1)) s ON t.a = s.a WHEN MATCHED THEN UPDATE SET a = s.a
FROM t SELECT a WHERE b = 1 ORDER BY a
SELECT a FROM t WHERE b IN (FROM u SELECT b)
FROM t |> WHERE a = 1 |> AS u |> JOIN v ON u.a = v.a |> AGGREGATE count(*) GROUP BY v.b AS c |> ORDER BY c
WITH x AS (TABLE t |> EXTEND a + 1 AS b) SELECT * FROM x JOIN (SELECT a FROM t |> LIMIT 3) y ON x.a = y.a
""".strip().splitlines()


@pytest.mark.parametrize("text", CARRIED)
def test_what_is_carried_comes_back_token_for_token(text: str) -> None:
    plan, notes = from_sql(text)
    assert has_same_tokens(plan, text)
    assert [n.reason for n in notes] == [PIVOT for _ in range("PIVOT" in text)]


@pytest.mark.parametrize("text", CARRIED)
def test_reading_is_stable(text: str) -> None:
    plan, _ = from_sql(text)
    assert from_sql(to_sql(plan))[0] == plan
    assert show_tree(plan)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no statement"),
        ("SELECT 1; SELECT 2", "more than one statement"),
        ("SHOW TABLES", "SHOW is not a query"),
        ("SET x = 1", "SET is not a query"),
        ("MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DELETE", "MERGE reads a table in USING"),
        ("WITH a AS (SELECT 1) MERGE INTO t USING a ON true WHEN MATCHED THEN DELETE", "WITH before MERGE"),
        ("WITH a AS (SELECT 1) INSERT INTO t WITH b AS (SELECT 2) SELECT * FROM b", "a WITH before INSERT"),
        ("FROM a INSERT INTO t SELECT x INSERT INTO u SELECT y", "several INSERTs"),
        ("EXPLAIN SELECT 1", "opt.plan"),
        ("CREATE TABLE t (a INT)", "no query to optimize"),
        ("CREATE FUNCTION f AS 'x.Y'", "no query to optimize"),
        ("INSERT INTO t VALUES (1)", "no query to optimize"),
        ("SELECT (1", "brackets do not match"),
        ("SELECT 'open", "cannot read"),
        ("FROM t |> DROP a", "the pipe operator DROP is not supported"),
        ("FROM t |> SET a = 1", "the pipe operator SET is not supported"),
        ("FROM t |> PIVOT (sum(a) FOR b IN (1))", "the pipe operator PIVOT is not supported"),
        ("FROM t |> AGGREGATE sum(a) GROUP BY 1", "name the columns"),
        ("FROM t |> AGGREGATE sum(a) GROUP BY b c", "needs AS"),
        ("FROM t |>", "a pipe has no operator"),
        ("FROM t", "a FROM without a SELECT"),
        ("FROM t SELECT a SELECT b", "several SELECTs"),
        ("WITH RECURSIVE r AS (SELECT 1) SELECT * FROM r", "recursive"),
        ("SELECT * FROM t ASOF JOIN u ON t.a >= u.a", "ASOF"),
        ("SELECT a FROM t WHERE b = 1 FROM u", "FROM"),
        ("SELECT a FROM", "relation is missing"),
        ("SELECT __plan_0 FROM t", "reserved for Dovetail"),
        ("SELECT a FROM t JOIN", "relation is missing"),
    ],
)
def test_what_is_not_carried_says_why(text: str, reason: str) -> None:
    with pytest.raises(Unsupported, match="(?i)" + reason.replace("(", r"\(")):
        from_sql(text)


def test_one_bad_subquery_does_not_cost_the_rest() -> None:
    text = "SELECT * FROM (FROM t |> DROP a) AS s JOIN (WITH RECURSIVE r AS (SELECT 1) SELECT 1) AS q ON s.a > 1"
    plan, notes = from_sql(text)
    assert has_same_tokens(plan, text)
    assert [n.reason for n in notes] == [
        "the pipe operator DROP is not supported; write what it does with SELECT, or without pipes",
        "recursive WITH is not supported",
    ]
    assert [(n.place.line, n.place.column) for n in notes if n.place] == [(1, 26), (1, 50)]


def test_columns_named_like_keywords_do_not_cut_a_condition() -> None:
    plan, _ = from_sql("SELECT * FROM a JOIN s ON a.ts BETWEEN s.start AND s.end AND a.x = s.case AND a.or = 1")
    join = next(n for n in plan.walk() if isinstance(n, Join))
    assert [c.text for c in join.condition] == ["a.ts BETWEEN s.start AND s.end", "a.x = s.case", "a.or = 1"]
    plan, _ = from_sql("SELECT * FROM s WHERE CASE WHEN s.end > 1 AND s.x = 2 THEN true END AND s.y")
    where = next(n for n in plan.walk() if isinstance(n, Filter))
    assert [c.text for c in where.condition] == ["CASE WHEN s.end > 1 AND s.x = 2 THEN true END", "s.y"]


TEXT = "SELECT * FROM a, b JOIN c ON b.x = c.x, d, e LEFT JOIN f ON e.x = f.x"


def test_commas_are_joins_from_left_to_right() -> None:
    plan, _ = from_sql(TEXT)
    assert show_tree(plan) == (
        "Project  *\n└─ Join  left, on e.x = f.x\n   ├─ Join  cross\n   │  ├─ Join  cross\n"
        "   │  │  ├─ Join  inner, on b.x = c.x\n   │  │  │  ├─ Join  cross\n   │  │  │  │  ├─ Scan  a\n"
        "   │  │  │  │  └─ Scan  b\n   │  │  │  └─ Scan  c\n   │  │  └─ Scan  d\n   │  └─ Scan  e\n   └─ Scan  f"
    )
    assert has_same_tokens(plan, TEXT)


def test_commas_bind_last_where_the_session_says_so() -> None:
    plan, _ = from_sql(TEXT, Settings(commas_last=True))
    assert show_tree(plan) == (
        "Project  *\n└─ Join  cross\n   ├─ Join  cross\n   │  ├─ Join  cross\n   │  │  ├─ Scan  a\n"
        "   │  │  └─ Join  inner, on b.x = c.x\n   │  │     ├─ Scan  b\n   │  │     └─ Scan  c\n   │  └─ Scan  d\n"
        "   └─ Join  left, on e.x = f.x\n      ├─ Scan  e\n      └─ Scan  f"
    )
    assert has_same_tokens(plan, TEXT)


def test_a_comma_that_would_bind_another_way_is_printed_as_a_cross_join() -> None:
    a, b, c = (Scan((n,), n, n) for n in "abc")
    made = Join(Join(a, b, "cross", ","), c, "left", "LEFT JOIN", (Scalar("a.x = c.x"),))
    item = (Scalar("1"),)
    assert words(to_sql(Project(made, item))) == words("SELECT 1 FROM a CROSS JOIN b LEFT JOIN c ON a.x = c.x")
    on_the_right = Join(a, Join(b, c, "full", "FULL JOIN", (Scalar("b.x = c.x"),)), "cross", ",")
    assert words(to_sql(Project(on_the_right, item))) == words("SELECT 1 FROM a, (b FULL JOIN c ON b.x = c.x)")


def test_intersect_binds_first() -> None:
    plan, _ = from_sql("SELECT 1 UNION SELECT 2 INTERSECT SELECT 3")
    assert show_tree(plan).splitlines()[0] == "SetOp  union"
    assert "└─ SetOp  intersect" in show_tree(plan)


def test_an_inner_with_hides_an_outer_one_of_the_same_name() -> None:
    plan, _ = from_sql(
        "WITH x AS (SELECT 1 AS a) SELECT * FROM x JOIN (WITH x AS (SELECT 2 AS b) SELECT * FROM x) y ON TRUE"
    )
    scans = [n for n in plan.walk() if isinstance(n, Scan)]
    assert sorted(s.cte for s in scans) == ["x", "x'"]
