"""A condition keeps rows away from one behind it that raises an error on them: so must a rewriting.

``100 / v`` and ``CAST(code AS INT)`` raise on some rows, and a condition of the same relation stands in front of them.
In two of the three tables, v is 0 only where a column is NULL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comparing import assert_same
from dovetail import Optimizer, Options
from execution import DEFAULT, INTERPRETED, execute
from sessions import for_few_rows
from shares import Share, at_least

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

share = at_least(0.1)

ROWS = """(1, 1, 10, {0}, 'share', '7'), (2, 1, 20, 5, 'b', 'x'), (3, 1, 30, 4, 'share', '30'),
(4, 2, 10, {0}, 'b', 'x'), (5, 2, 15, 2, NULL, NULL), (6, NULL, 20, {1}, 'b', 'x'), (7, 1, NULL, {2}, 'b', '')"""
TABLES = ((0, 0, 0), (3, 3, 0), (3, 0, 3))  # v where nothing is NULL, where k is, and where ts is
# {t} asks the row, {a} is what is asked for or added up, {s} asks those that belong to it.
SHAPES = (
    """SELECT x.id, {a} AS a, (SELECT count(*) FROM e y WHERE y.k = x.k AND y.ts BETWEEN x.ts - 15 AND x.ts) AS n
    FROM e x WHERE {t}""",
    """SELECT x.id, (SELECT max({b}) FROM e y WHERE y.k = x.k AND y.ts BETWEEN x.ts - 15 AND x.ts AND {s}) AS n
    FROM e x""",
    """SELECT x.id, (SELECT max({b}) FROM e y WHERE y.k = x.k AND y.ts BETWEEN x.ts - 15 AND x.ts AND {s}) AS n
    FROM e x WHERE {t}""",
    """SELECT {a} AS a, count(*) AS n FROM e x
    JOIN e y ON y.k = x.k AND y.ts BETWEEN x.ts - 15 AND x.ts WHERE {t} GROUP BY ALL""",
    """SELECT {a} AS a, count(*) AS n FROM e x
    JOIN e y ON y.k = x.k AND y.ts BETWEEN x.ts - 15 AND x.ts WHERE {t} AND {s} GROUP BY ALL""",
    """SELECT {a} AS a, count(y.ts) AS n FROM e x
    LEFT JOIN e y ON y.k = x.k AND y.ts BETWEEN x.ts - 15 AND x.ts WHERE {t} GROUP BY ALL""",
    """SELECT x.id, max({b}) AS a, count(*) AS n FROM e x
    LEFT JOIN e y ON y.k = x.k AND y.ts BETWEEN x.ts - 15 AND x.ts AND {s} GROUP BY x.id""",
    """SELECT {a} AS a, max({b}) AS b, count(*) AS n FROM e x
    JOIN e y ON y.k = x.k AND y.ts BETWEEN x.ts - 15 AND x.ts - 1 WHERE {t} AND {s} GROUP BY ALL""",
    """SELECT {a} AS a, max({b}) AS b FROM e x
    JOIN e y ON y.k = x.k AND y.ts BETWEEN x.ts - 15 AND x.ts AND y.id <> x.id WHERE {t} GROUP BY ALL""",
    """SELECT {a} AS a, max({b}) AS b, count(*) AS n FROM e x
    JOIN e y ON y.k = x.k AND y.ts BETWEEN x.ts - 15 AND x.ts AND {s} WHERE {t} GROUP BY ALL""",
    """SELECT x.id, {a} AS a FROM e x
    WHERE {t} AND x.ts = (SELECT max(y.ts) FROM e y WHERE y.k = x.k)""",
    """SELECT x.id, {a} AS a FROM e x JOIN e y ON y.id = x.id WHERE {t} AND {s}""",
    """SELECT x.id FROM e x WHERE {t} AND x.id IN (SELECT y.id FROM e y WHERE {s})""",
    """SELECT x.id FROM e x
    WHERE x.ts < (SELECT max({b}) FROM e y WHERE y.k = x.k AND {s}) AND {t}""",
    """SELECT (SELECT max({b}) FROM e y WHERE {s}) AS a, (SELECT count(*) FROM e y WHERE y.v > 2) AS b""",
    """SELECT (SELECT max({b}) FROM e y) AS a, (SELECT count(*) FROM e y WHERE {s}) AS b""",
    """SELECT (SELECT max({b}) FROM e y WHERE y.v <> 0) AS a, (SELECT count(*) FROM e y WHERE {s}) AS b""",
    """SELECT (SELECT max({a}) FROM e x WHERE x.v > 2 AND {t}) AS a, (SELECT count(*) FROM e y WHERE {s}) AS b""",
    """SELECT (SELECT count(*) FROM e x WHERE {t} AND x.ts > 10) AS a,
    (SELECT max({b}) FROM e y WHERE y.v <> 0 AND {s}) AS b""",
    """SELECT x.id, {b} AS b FROM e x LEFT JOIN e y ON y.id = x.id AND {s} WHERE {t}""",
    """SELECT z.id FROM e z WHERE z.k IN (SELECT x.k FROM e x JOIN e y ON x.k = y.k AND x.ts <> y.ts AND {t} AND {s}
    WHERE x.v <> 0 AND y.v <> 0)""",
    """SELECT x.id FROM e x
    WHERE x.v > 0 AND {t} AND x.ts < (SELECT max(y.ts) FROM e y WHERE y.k = x.k AND y.v <> 0 AND {s})""",
    """SELECT x.id FROM e x JOIN e z ON x.id = z.k AND {t}
    WHERE x.v <> 0 AND x.ts < (SELECT max(y.ts) FROM e y WHERE y.k = x.k AND y.v <> 0 AND {s})""",
)
# A band, a key or an order that raises, behind a condition of its relation.
GUARDED_ENDS = (
    "SELECT x.id, y.id AS other FROM e x JOIN e y ON {t} AND {x} BETWEEN y.ts - 15 AND y.ts",
    "SELECT x.id, y.id AS other FROM e x JOIN e y ON {x} BETWEEN y.ts - 15 AND y.ts WHERE {t}",
    "SELECT x.id, y.id AS other FROM e x, e y WHERE {t} AND {x} BETWEEN y.ts - 15 AND y.ts",
    "SELECT x.id, y.id AS other FROM e x LEFT JOIN e y ON {t} AND {x} BETWEEN y.ts - 15 AND y.ts",
    "SELECT x.id, y.id AS other FROM e y RIGHT JOIN e x ON {t} AND {x} BETWEEN y.ts - 15 AND y.ts",
    "SELECT x.id, y.id AS other FROM e x FULL JOIN e y ON {t} AND {x} BETWEEN y.ts - 15 AND y.ts",
    "SELECT x.id FROM e x LEFT SEMI JOIN e y ON {t} AND {x} BETWEEN y.ts - 15 AND y.ts",
    "SELECT x.id FROM e x LEFT ANTI JOIN e y ON {t} AND {x} BETWEEN y.ts - 15 AND y.ts",
    "SELECT x.id FROM e x WHERE {t} AND EXISTS (SELECT 1 FROM e y WHERE {x} BETWEEN y.ts - 15 AND y.ts)",
    "SELECT x.id, y.id AS other FROM (SELECT * FROM e x WHERE {t}) x JOIN e y ON {x} BETWEEN y.ts - 15 AND y.ts",
    "SELECT x.id, y.id AS other FROM e x JOIN e y ON {t} AND y.ts BETWEEN {x} AND x.ts + 15",
    "SELECT x.id, y.id AS other FROM e x LEFT JOIN e y ON {t} AND y.ts BETWEEN {x} AND x.ts + 15",
    """SELECT y.id, x.id AS other, row_number() OVER (PARTITION BY y.id ORDER BY x.ts DESC, x.id) AS n
    FROM e y JOIN e x ON {t} AND {x} <= y.ts QUALIFY n = 1""",
    "SELECT y.id, count(*) AS n FROM e x JOIN e y ON {x} BETWEEN y.ts - 15 AND y.ts WHERE {t} GROUP BY y.id",
    "SELECT count(*) AS n, sum(y.ts) AS s FROM e x, e y WHERE {t} AND {x} BETWEEN y.ts - 15 AND y.ts",
    """SELECT y.id, max_by(x.id, x.ts) AS other FROM e y LEFT JOIN e x ON {t} AND x.ts <= y.ts AND {x} <= 100
    GROUP BY y.id""",
)
ENDS = (
    ("{0}.v <> 0", "100 DIV {0}.v"),
    ("{0}.v <> 0", "ceil(100 / {0}.v)"),
    ("{0}.v <> 0", "10 + 100 % {0}.v"),
    ("{0}.kind = 'share'", "CAST({0}.code AS INT)"),
    ("{0}.kind = 'share'", "element_at(array(CAST({0}.code AS INT)), 1)"),
    ("{0}.kind = 'share'", """from_json(concat('{{"a":', {0}.code, '}}'), 'a INT', map('mode', 'FAILFAST')).a"""),
    ("lower({0}.kind) = 'share'", "to_number({0}.code, '999')"),
)
CONDITIONS = (
    *("{0}.v <> 0", "({0}.v = 0 OR 100 / {0}.v > 30)", "{0}.v <> 0 AND 100 / {0}.v > 30", "{0}.kind = 'share'"),
    "{0}.kind = 'share' AND CAST({0}.code AS INT) > 8",
    "CASE WHEN {0}.v = 0 THEN false ELSE 100 / {0}.v > 30 END",
    "if({0}.v = 0, 1, 100 / {0}.v) > 3",
    "{0}.ts > 10",
    "true",
)
VALUES = ("{0}.v", "{0}.ts", "CASE WHEN {0}.v <> 0 THEN 100 / {0}.v END", "if({0}.v = 0, 0, 100 / {0}.v + {0}.ts)")
GUARDED = "(SELECT * FROM e z WHERE z.v <> 0 AND {0} > 20)"
SECOND = "100 / z.v", "abs(10 / z.v)"


@pytest.fixture(scope="module")
def session(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    session = for_few_rows(spark)
    session.conf.set("spark.sql.ansi.enabled", "true")
    for table, values in enumerate(TABLES):
        path = str(tmp_path_factory.mktemp("rows") / "d")
        made = session.sql(f"SELECT * FROM VALUES {ROWS.format(*values)} AS d(id, k, ts, v, kind, code)")
        made.write.parquet(path)  # Spark computes what is made of literals while it plans
        session.read.parquet(path).createOrReplaceTempView(f"d{table}")
    return session


@pytest.mark.parametrize(("guard", "end"), ENDS)
@pytest.mark.parametrize("execution", [DEFAULT, INTERPRETED])
def test_ends_behind_a_guard(session: SparkSession, guard: str, end: str, execution: str) -> None:
    execute(session, execution)
    optimizer = Optimizer(session, Options(force=True, strict=True))
    rewritten = 0
    for query in GUARDED_ENDS:
        text = query.format(t=guard.format("x"), x=end.format("x")).replace(" e ", " d0 ")
        plan = optimizer.plan(text)
        has_failed = any(declined.rule == "circuit breaker" for declined in plan.declined)  # as plain Spark does
        rewritten += plan.rewritten or has_failed
        if plan.rewritten:
            assert_same(session, text, plan)
    assert rewritten >= len(GUARDED_ENDS) - 2


@given(
    st.sampled_from(range(len(TABLES))),
    st.sampled_from(SHAPES),
    st.sampled_from(CONDITIONS),
    st.sampled_from(VALUES),
    st.sampled_from(("", "", "x", "y", "xy")),
    st.sampled_from(SECOND),
)
def test_no_error_that_spark_does_not_raise(
    session: SparkSession, share: Share, table: int, shape: str, condition: str, value: str, guarded: str, second: str
) -> None:
    """``guarded``: the relations that are subqueries, whose ``second`` filter raises where the first does not hold."""
    optimizer = Optimizer(session, Options(force=True, strict=True))
    optimizer.declare_key(f"d{table}", ["id"])
    for side in guarded:
        shape = shape.replace(f" e {side}", f" {GUARDED.format(second)} {side}")
    t, s = (condition.format(side) for side in "xy")
    a, b = (value.format(side) for side in "xy")
    query = shape.format(t=t, s=s, a=a, b=b).replace(" e ", f" d{table} ")
    plan = optimizer.plan(query)
    if share.count(plan.rewritten):
        assert_same(session, query, plan)
