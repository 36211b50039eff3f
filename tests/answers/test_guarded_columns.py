"""A view computes what raises an error on some rows, and a query keeps these rows away from it: so must a rewriting.

``share`` is 100 / v of rows of which some have v = 0; ``count`` and ``y`` are names that mean more.  A relation may be
a subquery in which one filter keeps the next from raising.  In two of the three tables, v is 0 only where a column is
NULL: Spark may leave such a row out before it evaluates anything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comparing import Raised, assert_same, rows
from execution import DEFAULT, INTERPRETED, execute
from optimizer import Optimizer, Options
from sessions import for_few_rows
from shares import Share, at_least

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

share = at_least(0.1)

ROWS = """(1, 1, 10, {0}, 'share'), (2, 1, 20, 5, 'b'), (3, 1, 30, 4, 'share'), (4, 2, 10, {0}, 'b'),
(5, 2, 15, 2, NULL), (6, NULL, 20, {1}, 'b'), (7, 1, NULL, {2}, 'b')"""
TABLES = ((0, 0, 0), (3, 3, 0), (3, 0, 3))  # v where nothing is NULL, where k is, and where ts is
VIEW = "SELECT id, k, ts, v, kind, 100 / v AS {} FROM d{}"
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
CONDITIONS = (
    *("{0}.v <> 0", "({0}.v = 0 OR {0}.{1} > 30)", "{0}.v <> 0 AND {0}.{1} > 30", "{0}.kind = 'share'"),
    "CASE WHEN {0}.v = 0 THEN false ELSE {0}.{1} > 30 END",
    "if({0}.v = 0, 1, {0}.{1}) > 3",
    "{0}.v BETWEEN 1 AND {0}.{1}",
    "{0}.ts > 10",
    "100 / {0}.v > 3",
    "true",
)
VALUES = ("{0}.v", "{0}.{1}", "CASE WHEN {0}.v <> 0 THEN {0}.{1} END", "if({0}.v = 0, 0, {0}.{1} + {0}.ts)")


NAMES = ("share", "`count`", "y")
GUARDED = "(SELECT * FROM e z WHERE z.v <> 0 AND {0} > 20)"
SECOND = "z.{0}", "100 / z.v", "abs(10 / z.v)"


# Rewritings that failed where Spark does not, each with the number of its table.
ONCE = (
    # Filters of a subquery come before those of the query that reads it; so do those of WHERE before those of ON.
    (
        0,
        """SELECT (SELECT max(x.ts) FROM e x WHERE x.v > 2 AND x.share > 3),
    (SELECT count(*) FROM g y WHERE y.share > 3)""",
    ),
    (
        0,
        """SELECT z.id FROM d z WHERE z.k IN (SELECT x.k FROM d x JOIN d y ON x.k = y.k AND x.ts <> y.ts
    AND 100 / x.v > 3 AND 100 / y.v > 3 WHERE x.v <> 0 AND y.v <> 0)""",
    ),
    (
        0,
        """SELECT x.id FROM d x JOIN d z ON x.id = z.k AND 100 / x.v > 3
    WHERE x.v <> 0 AND x.ts < (SELECT max(y.ts) FROM d y WHERE y.k = x.k AND y.v <> 0 AND 100 / y.v > 3)""",
    ),
    # Two readers with the same filters in another order, or with another guard.
    (
        0,
        """SELECT (SELECT count(*) FROM e x WHERE x.v > 2 AND x.share > 3 AND x.v <> 0),
    (SELECT count(*) FROM e y WHERE y.v <> 0 AND y.share > 3 AND y.ts > 10)""",
    ),
    (
        0,
        """SELECT x.id FROM d x WHERE x.v > 0 AND 100 / x.v > 3
    AND x.ts < (SELECT max(y.ts) FROM d y WHERE y.k = x.k AND y.v <> 0 AND 100 / y.v > 3)""",
    ),
    # Spark asks first whether a column that is compared later is NULL.
    (
        2,
        """SELECT (SELECT count(*) FROM e x WHERE x.share > 3 AND x.ts > 10),
    (SELECT count(*) FROM e y WHERE y.v <> 0 AND y.share > 3)""",
    ),
    (
        2,
        """SELECT x.id, (SELECT max(y.v) FROM e y WHERE y.k = x.k AND y.ts BETWEEN x.ts - 15 AND x.ts
    AND y.share > 3) AS n FROM e x""",
    ),
    # AND guards nothing in a select list, or in CASE WHEN.
    (
        0,
        """SELECT x.id, (SELECT max(100 / y.v) FROM d y WHERE y.k = x.k AND y.v <> 0 AND 100 / y.v > 3) AS a,
    (SELECT min(100 / y.v) FROM d y WHERE y.k = x.k AND y.v <> 0 AND 100 / y.v > 4) AS b FROM d x""",
    ),
    (0, "SELECT x.id, y.share FROM e x LEFT JOIN g y ON x.id = y.id AND y.share > 3"),
    # Of two relations, one has a column of the same name that is evaluated on every row.
    (
        0,
        """SELECT x.id, y.share FROM g x JOIN e y ON x.k = y.id WHERE y.v <> 0
    AND x.share >= (SELECT avg(z.share) FROM g z JOIN e w ON z.k = w.id WHERE z.k = x.k)""",
    ),
    (
        0,
        """SELECT CASE WHEN x.v <> 0 THEN x.a END AS a, max(y.a) AS b
    FROM (SELECT k, ts, v, share AS a, ts AS c FROM e z) x JOIN (SELECT k, ts, ts AS a, share AS c FROM e z) y
    ON y.k = x.k AND y.ts BETWEEN x.ts - 15 AND x.ts GROUP BY ALL""",
    ),
)


@pytest.fixture(scope="module")
def session(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    session = for_few_rows(spark)
    session.conf.set("spark.sql.ansi.enabled", "true")
    for table, values in enumerate(TABLES):
        path = str(tmp_path_factory.mktemp("rows") / "d")
        made = session.sql(f"SELECT * FROM VALUES {ROWS.format(*values)} AS d(id, k, ts, v, kind)")
        made.write.parquet(path)  # Spark computes what is made of literals while it plans
        session.read.parquet(path).createOrReplaceTempView(f"d{table}")
        for n, name in enumerate(NAMES):
            session.sql(f"CREATE TEMPORARY VIEW e{table}{n} AS {VIEW.format(name, table)}")
    return session


@pytest.mark.parametrize(("table", "query"), ONCE)
@pytest.mark.parametrize("execution", [DEFAULT, INTERPRETED])
def test_what_raised_once(session: SparkSession, table: int, query: str, execution: str) -> None:
    execute(session, execution)
    optimizer = Optimizer(session, Options(force=True, strict=True))
    optimizer.declare_key(f"d{table}", ["id"])
    query = query.replace(" g ", f" (SELECT * FROM e{table}0 WHERE v <> 0) ")
    query = query.replace(" e ", f" e{table}0 ").replace(" d ", f" d{table} ")
    expected = rows(lambda: session.sql(query))
    # without generated code Spark computes a column of a subquery for every row
    raises = isinstance(expected, Raised) and execution == INTERPRETED
    assert raises or rows(optimizer.plan(query).dataframe) == expected


@given(
    st.sampled_from(range(len(TABLES))),
    st.sampled_from(range(len(NAMES))),
    st.sampled_from(SHAPES),
    st.sampled_from(CONDITIONS),
    st.sampled_from(VALUES),
    st.sampled_from(("", "", "x", "y", "xy")),
    st.sampled_from(SECOND),
)
def test_no_error_that_spark_does_not_raise(
    session: SparkSession,
    share: Share,
    table: int,
    name: int,
    shape: str,
    condition: str,
    value: str,
    guarded: str,
    second: str,
) -> None:
    """``guarded``: the relations that are subqueries, whose ``second`` filter raises where the first does not hold."""
    optimizer = Optimizer(session, Options(force=True, strict=True))
    optimizer.declare_key(f"d{table}", ["id"])
    for side in guarded:
        shape = shape.replace(f" e {side}", f" {GUARDED.format(second.format(NAMES[name]))} {side}")
    t, s = (condition.format(side, NAMES[name]) for side in "xy")
    a, b = (value.format(side, NAMES[name]) for side in "xy")
    query = shape.format(t=t, s=s, a=a, b=b).replace(" e ", f" e{table}{name} ")
    plan = optimizer.plan(query)
    if share.count(plan.rewritten):
        assert_same(session, query, plan)
