"""Columns of tables that are more than their values: Spark pads a CHAR where it is compared.

Every rewriting with every comparison of such a column, against plain Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from comparing import assert_same
from dovetail import Optimizer, Options
from sessions import for_few_rows
from shares import Share, at_least

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

share = at_least(0.35)

TYPES = ("CHAR(4)", "VARCHAR(4)", "STRING COLLATE UTF8_LCASE", "STRING")
ROWS = (
    "(0, 1, 5, '', 'a'), (1, 1, 6, 'a', 'a'), (2, 2, 7, 'ab', 'ab'), (3, 2, 5, 'A', 'b'), (4, 2, 9, NULL, 'a'), "
    "(5, NULL, 5, 'a ', 'a'), (6, 3, 5, 'abcd', NULL)"
)
# Two relations of t, of which one shall not be read: {c} is a condition on y.
SHAPES = {
    "inner": "SELECT x.id, y.v FROM t x JOIN t y ON x.id = y.id WHERE {y}",
    "left": "SELECT x.id, y.c FROM t x LEFT JOIN t y ON x.id = y.id AND y.v > 5 WHERE {y}",
    "left, asked in ON": "SELECT x.id, y.v FROM t x LEFT JOIN t y ON x.id = y.id AND {y}",
    "shown": "SELECT z.id FROM (SELECT x.id, y.c, y.d FROM t x JOIN t y ON x.id = y.id) z WHERE {z}",
    "groups": "SELECT x.c, y.n FROM (SELECT c, count(*) n FROM t GROUP BY c) x "
    "LEFT JOIN (SELECT c, max(d) d, count(*) n FROM t GROUP BY c) y ON x.c = y.c AND y.n > 1 WHERE {y}",
    "exists": "SELECT x.id FROM t x WHERE EXISTS (SELECT 1 FROM t y WHERE x.id = y.id AND {y})",
    "not in": "SELECT x.id FROM t x WHERE x.id NOT IN (SELECT y.id FROM t y WHERE y.id IS NOT NULL AND {y})",
    "anti": "SELECT x.id FROM t x LEFT ANTI JOIN t y ON x.id = y.id AND {y}",
    "third": "SELECT x.id, z.id AS i FROM t x JOIN t y ON x.id = y.id LEFT JOIN u z ON z.id = y.v AND {y}",
    "largest": "SELECT y.id FROM t y WHERE {y} AND y.v = (SELECT max(z.v) FROM t z WHERE z.k = y.k)",
    "largest of some": "SELECT y.id FROM t y WHERE y.v = (SELECT max(z.v) FROM t z WHERE z.k = y.k AND {z})",
    "largest text": "SELECT y.id FROM t y WHERE y.c = (SELECT max(z.c) FROM t z WHERE z.k = y.k)",
    "largest of a join": "SELECT y.id, z.id AS i FROM t y JOIN u z ON z.k = y.k "
    "WHERE y.v = (SELECT max(a.v) FROM t a JOIN u b ON b.k = a.k WHERE a.k = y.k) AND {y}",
    "totals": "SELECT (SELECT count(*) FROM t y WHERE {y}) AS a, (SELECT max(z.v) FROM t z) AS b",
    "joined groups": "SELECT y.id FROM t y JOIN (SELECT c, max(v) AS m FROM t GROUP BY c) z ON y.c = z.c AND y.v = z.m "
    "WHERE {z} AND {y}".replace("{z}", "z.c = 'a'"),
    "band": "SELECT x.id, y.id AS i FROM u x JOIN t y ON x.v BETWEEN y.v - 1 AND y.v + 1 AND {y}",
    "band, left": "SELECT x.id, y.id AS i FROM u x LEFT JOIN t y ON x.v BETWEEN y.v AND y.id + 6 AND {y}",
    "band, full": "SELECT x.id, y.id AS i FROM u x FULL JOIN t y ON x.v BETWEEN y.v AND y.id + 6 AND x.c = y.c AND {y}",
    "window": "SELECT y.id, (SELECT count(*) FROM t z WHERE z.k = y.k AND z.v BETWEEN y.v - 2 AND y.v AND {z}) AS n "
    "FROM t y WHERE {y}",
    "band, in": "SELECT x.id FROM u x WHERE x.c IN (SELECT y.d FROM t y WHERE x.v BETWEEN y.v - 1 AND y.v + 1 AND {y})",
    "band, not in": "SELECT x.id FROM u x WHERE x.d NOT IN (SELECT y.c FROM t y WHERE x.v BETWEEN y.v - 1 AND y.v + 1 "
    "AND y.c IS NOT NULL AND {y}) AND x.d IS NOT NULL",
    "pairs": "SELECT u.id FROM u WHERE u.k IN (SELECT y.k FROM t y JOIN t z ON y.k = z.k AND y.c <> z.c WHERE {y})",
    "nearest": "SELECT id, r FROM (SELECT x.id, y.c, y.d, row_number() OVER (PARTITION BY x.id ORDER BY y.v DESC, y.id)"
    " AS r FROM u x LEFT JOIN t y ON x.k = y.k AND y.v <= x.v) z WHERE r = 1 AND {z}",
    "nearest of x": "SELECT id, v FROM (SELECT x.id, x.c, x.d, y.v, row_number() OVER (PARTITION BY x.id ORDER BY y.v "
    "DESC) AS r FROM u x LEFT JOIN t y ON x.k = y.k AND y.v <= x.v) z WHERE r = 1 AND {z}",
    "nearest, largest": "SELECT x.id, max(y.v) AS m FROM u x JOIN t y ON x.k = y.k AND y.v <= x.v WHERE {x} "
    "GROUP BY x.id",
    "nearest, shown": "SELECT x.id, x.c, y.d FROM u x, LATERAL (SELECT y.d FROM t y WHERE x.k = y.k AND y.v <= x.v "
    "ORDER BY y.v DESC, y.id LIMIT 1) y WHERE {x}",
    "shared": "WITH g AS (SELECT c, d, sum(v) AS s FROM t GROUP BY c, d) "
    "SELECT y.c, y.s, z.s AS o FROM g y, g z WHERE y.c = z.c AND y.d = 'a' AND z.d = 'b' AND {y}",
}
TESTS = (
    *("{}.c = 'a'", "{}.c <> 'a'", "{}.c IN ('a', 'ab')", "NOT ({}.c < 'ab')", "'a' = {}.c", "{}.c <=> 'a'"),
    *("{}.c = {}.d", "{}.c LIKE 'a%'", "length({}.c) > 1", "{}.c || 'x' = 'ax'", "nvl({}.c, 'a') = 'a'"),
    "{0}.c BETWEEN 'a' AND 'b'",
)


@pytest.fixture(scope="module", params=TYPES)
def session(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[SparkSession]:
    own = for_few_rows(spark)
    for name in ("t", "u"):
        own.sql(f"DROP TABLE IF EXISTS padded_{name}")
        texts = f"c {request.param} COMMENT 'text', d {request.param.replace('4', '2')} DEFAULT 'a'"
        columns = f"id INT COMMENT 'number', k INT, v INT COMMENT 'value', {texts}"
        own.sql(f"CREATE TABLE padded_{name} ({columns}) USING parquet")
        own.sql(f"INSERT INTO padded_{name} VALUES {ROWS}")
    yield own
    for name in ("t", "u"):
        own.sql(f"DROP TABLE padded_{name}")


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_rows_as_plain_spark(session: SparkSession, share: Share, shape: str) -> None:
    optimizer = Optimizer(session, Options(force=True, strict=True))
    optimizer.declare_key("padded_t", ["id"])
    optimizer.declare_key("padded_u", ["id"])
    padded = session.table("padded_t").schema["c"].metadata
    for test in TESTS if "char(4)" in str(padded).lower().replace("varchar", "") else TESTS[::4]:
        said = {alias: test.format(alias, alias) for alias in "xyz"}
        query = SHAPES[shape].format(**said).replace(" t ", " padded_t ").replace(" u ", " padded_u ")
        plan = optimizer.plan(query.replace(" t)", " padded_t)"))
        if share.count(plan.rewritten):
            assert_same(session, plan.text, plan)


# A column that has the name of a relation, and fields of the names of its columns.
HIDING = (
    "SELECT x.id, y.w FROM hiding x LEFT JOIN hiding y ON x.id = y.id AND y.v > 3",
    "SELECT x.id, y.w FROM hiding x JOIN hiding y ON x.id = y.id WHERE y.v > 3",
    "SELECT x.id, y.v FROM hiding x JOIN (SELECT w, max(v) AS v, max(x.w) AS x FROM hiding GROUP BY w) y ON x.w = y.w",
    """WITH n AS (SELECT *, row_number() OVER (ORDER BY id) AS r FROM hiding)
    SELECT x.id, y.v FROM n x LEFT JOIN n y ON y.r = x.r + 1 AND y.v > 2""",
)


@pytest.mark.parametrize("query", HIDING)
def test_a_column_with_the_name_of_a_relation(spark: SparkSession, query: str) -> None:
    own = for_few_rows(spark)
    fields = "named_struct('id', id + 100, 'x', 5, 'v', id * 7 % 9, 'w', id + 1000)"
    items = f"CAST(id AS INT) AS id, {fields} AS x, id % 9 AS v, id AS w"
    own.sql(f"CREATE TEMPORARY VIEW hiding AS SELECT {items} FROM range(20)")
    optimizer = Optimizer(own, Options(force=True, strict=True))
    optimizer.declare_key("hiding", ["id"])
    assert_same(own, query, optimizer.plan(query))
