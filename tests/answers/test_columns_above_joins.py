"""A subquery computes a column that raises an error on rows that a join leaves out: so does no rewriting.

Spark's generated code computes such a column of the larger side where it is used, above the join; a shuffle or an
aggregate below would compute it for every row.  In the table ``far`` the rows on which it raises match nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comparing import assert_same
from optimizer import Optimizer, Options
from sessions import for_few_rows
from shares import Share, at_least

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

share = at_least(0.5)

# Rows on which every expression below raises an error: far away from all others, or not.
GOOD = (
    "(1, 1, 10, 12, 1, '7', 5L, 'a')",
    "(2, 1, 11, 20, 2, '8', 6L, 'b')",
    "(3, 2, 14, 15, 4, '9', NULL, 'c')",
    "(4, NULL, 10, 30, 5, '1', 8L, 'd')",
    "(5, 2, NULL, 30, 5, NULL, 9L, NULL)",
)
BAD = {
    "far": (
        "(7, 9, 500, 510, 0, 'x', 9223372036854775807L, 'a')",
        "(8, NULL, 900, 901, 0, 'y', 9223372036854775807L, 'b')",
    ),
    "near": ("(7, 1, 11, 12, 0, 'x', 9223372036854775807L, 'a')",),
}
EXPRESSIONS = (
    "100 DIV v",
    "100 / v",
    "CAST(s AS INT)",
    "w + 10",
    "element_at(array(7, 8, 9, 10, 11), v)",
    "CASE WHEN lo < 13 THEN 100 % v ELSE 3 END",
    "coalesce(100 DIV v, 1)",
    "named_struct('f', 100 DIV v).f",
    "CAST(s AS DATE)",
    "CAST(c AS STRING) || (100 DIV v)",
    "transform(array(1, v), e -> 100 DIV e)[1]",
)
# How a relation has the column m, computed by {0} of the table {1}.
FORMS = (
    "(SELECT id, k, lo, hi, v, {0} AS m FROM {1})",
    "(SELECT *, {0} AS m FROM {1})",
    "(SELECT {0} AS m, q.* FROM {1} q)",
    "(SELECT q.id, q.k, q.lo, q.hi, 1 AS v, q.n AS m FROM (SELECT *, {0} AS n FROM {1}) q)",
    "(SELECT id, k, lo, hi, v, m, struct(m) AS n FROM (SELECT *, {0} AS m FROM {1}))",
    "(SELECT *, if(n IS NULL, NULL, n) AS m FROM (SELECT *, {0} AS n FROM {1}))",
    "(SELECT * FROM (SELECT *, {0} AS m FROM {1}) WHERE id < 100)",
    "(SELECT *, row_number() OVER (ORDER BY id) AS n, {0} AS m FROM {1})",
    "(SELECT *, row_number() OVER (ORDER BY id) AS n FROM (SELECT *, {0} AS m FROM {1}))",
    "(SELECT DISTINCT id, k, lo, hi, v, {0} AS m FROM {1} WHERE v <> 0)",
    "(SELECT id, k, lo, hi, v, {0} AS m FROM {1} UNION ALL SELECT id, k, lo, hi, 1, NULL FROM {1} WHERE id < 3)",
    "(SELECT id, k, lo, hi, v, {0} AS m FROM {1} UNION ALL SELECT id, k, lo, hi, 1, {0} FROM {1} WHERE id < 3)",
    "(SELECT *, {0} AS m FROM {1} UNION ALL SELECT q.*, {0} AS o FROM {1} q UNION ALL SELECT *, {0} AS n FROM few)",
    "(SELECT * FROM (SELECT *, {0} AS m FROM {1} UNION ALL SELECT *, {0} AS n FROM few) WHERE id < 100)",
    "(SELECT id, k, lo, hi, v, {0} AS m FROM {1} UNION ALL SELECT DISTINCT id, k, lo, hi, v, {0} FROM few)",
    "(SELECT m, hi, lo, k, id, v FROM (SELECT *, {0} AS m FROM {1}) UNION ALL SELECT {0}, hi, lo, k, v, id FROM few)",
    "(SELECT id, k, lo, hi, v, {0} AS m FROM {1} UNION ALL SELECT id, k, lo, hi, v, explode(array({0}, {0})) FROM few)",
    "(SELECT id, k, lo, hi, v, 100 / v AS m FROM {1} UNION ALL SELECT id, k, lo, hi, v, rand(3) FROM few)",
    "(SELECT id, k, lo, hi, v, {0} AS m FROM {1} EXCEPT ALL SELECT id, k, lo, hi, v, {0} FROM few)",
    "(SELECT id, k, lo, hi, v, {0} AS m FROM {1} INTERSECT ALL SELECT id, k, lo, hi, v, {0} FROM {1} WHERE id > 1)",
    "(SELECT id, k, lo, hi, v, m FROM (SELECT *, {0} AS m FROM {1}) NATURAL JOIN (SELECT id FROM few))",
    "(SELECT *, n AS m FROM (SELECT *, {0} AS n FROM {1}) WHERE hash(*) % 2 = 0)",
    "(SELECT 1 AS id, 1 AS k, 1 AS lo, 20 AS hi, 1 AS v, 100 / sum(v) AS m FROM {1})",
    "(SELECT id, k, lo, hi, v, m FROM (SELECT *, {0} AS m FROM {1}) q WHERE s <> 'm')",
    "(SELECT a.k, a.lo, a.hi, a.v, {0} AS id, id + 1 AS m FROM {1} a JOIN (SELECT id FROM few) b USING (id))",
    "(SELECT id, k, lo, hi, v, 100 / sum(v) FILTER (WHERE lo > 10) AS m FROM {1} GROUP BY 1, 2, 3, 4, 5)",
    "(SELECT {0} AS m, id, k, lo, hi, v FROM {1} GROUP BY 1, 2, 3, 4, 5, 6)",
    "(SELECT id, k, lo, hi, 100 DIV sum(v) AS v, 100 / count(*) AS m FROM {1} GROUP BY 1, 2, 3, 4 HAVING v > 3)",
    "(SELECT id, k, lo, hi + n * 0 AS hi, v, n + 1 AS m FROM (SELECT *, 100 DIV v AS n FROM {1}))",
    "(SELECT *, n * rand(5) AS m FROM (SELECT *, 100 / v AS n FROM {1}))",
    "(SELECT *, 100 / v AS n, n * rand(5) AS m FROM {1})",
    "(SELECT id, k, lo + 1 AS lo, hi, v, {0} AS m FROM {1} UNION ALL SELECT id, k, lo + 2, hi + 1, v, 7 FROM {1})",
    "(SELECT b.id, b.k, b.lo, b.hi, b.v, b.m FROM {1} a JOIN (SELECT *, {0} AS m FROM {1}) b ON a.id = b.id)",
    "(SELECT a.id, a.k, a.lo, a.hi, a.v, b.m FROM {1} a LEFT JOIN (SELECT *, {0} AS m FROM {1}) b ON a.id = b.id - 1)",
    "(WITH q AS (SELECT *, {0} AS m FROM {1}) SELECT * FROM q)",
    "(SELECT *, {0} AS m FROM {1} LIMIT 5)",
    "(SELECT *, {0} AS m FROM {1} LIMIT 100)",
    "(SELECT *, {0} AS m FROM {1} ORDER BY lo, id LIMIT 100)",
    "(SELECT DISTINCT id, k, lo, hi, v, {0} AS m FROM {1})",
    "(SELECT id, k, lo, max(hi) AS hi, v, {0} AS m FROM {1} GROUP BY id, k, lo, v, m)",
    "(SELECT *, {0} AS m, m AS n FROM {1})",
    "(SELECT id, k, lo, {0} AS n, hi + if(n IS NULL, 0, 1) AS hi, v, n AS m FROM {1})",
    "(SELECT id, k, lo, max(hi) AS hi, v, {0} AS m FROM {1} GROUP BY id, k, lo, v, s, w, c HAVING m IS NOT NULL)",
    "(SELECT id, k, lo, hi, v, {0} AS m, explode(array(7, 8)) AS n FROM {1})",
    "(SELECT id, k, lo, hi, v, {0} AS m, (SELECT max(100 DIV q.v) FROM few q WHERE q.id = {1}.id) AS n FROM {1})",
    "(SELECT *, {0} AS m, rand(3) AS n FROM {1})",
    "(SELECT id, k, lo, hi, v, to_json(struct(v, {0} AS r)) AS m FROM {1})",
    "(SELECT *, size(array(id, k)) / v AS n, {0} AS m FROM (SELECT *, 100 DIV v AS o FROM {1}))",
    "(SELECT *, concat_ws(',', *) || (100 DIV v) AS m FROM {1})",
    "(SELECT id, k, lo, hi, v, {0} AS m, 100 DIV v FROM {1})",
    "(SELECT *, o || o AS m FROM (SELECT *, n || n AS o FROM (SELECT *, CAST({0} AS STRING) AS n FROM {1})))",
    "(SELECT q.id, q.k, q.lo, q.hi, v, {0} AS m FROM {1} q, range(1) r)",
    "(SELECT *, ntile(2) OVER (ORDER BY id) / v AS m FROM {1})",
    "(SELECT *, CASE WHEN v = 0 THEN raise_error('0') ELSE {0} END AS m FROM {1})",
    "(SELECT *, (SELECT count(*) FROM few) / v AS m FROM {1})",
    "(SELECT id, k, lo, hi, max(v) AS v, 100 DIV sum(v) AS m, {0} AS n FROM {1} GROUP BY id, k, lo, hi, v, s, w, c)",
    "(SELECT id, k, lo, hi, max(v) AS v, sum(m) / min(v) AS m FROM (SELECT *, {0} AS m FROM {1}) GROUP BY 1, 2, 3, 4)",
    "(SELECT id, k, lo, hi, v, {0} AS m, count(*) AS n FROM {1} GROUP BY id, k, lo, hi, v, m)",
    "(SELECT id, k, lo, hi, v, {0} AS m, count(*) AS n FROM {1} GROUP BY ALL)",
    "(SELECT id, k, lo, hi, v, {0} AS m, 100 DIV min(v) OVER (PARTITION BY id) AS n FROM {1})",
    "(SELECT q.*, 100 DIV lag(v, 1, 0) OVER (ORDER BY id) AS n FROM (SELECT *, {0} AS m FROM {1}) q)",
)
BANDS = (
    "x.lo BETWEEN z.lo AND z.hi",
    "abs(x.lo - z.lo) <= 3",
    "x.lo < z.hi AND z.lo < x.hi",
    "z.lo BETWEEN x.lo - 2 AND x.lo AND x.k = z.k",
    "x.k = z.k AND x.lo >= z.lo AND x.lo < z.hi",
)
JOINS = ("JOIN", "JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
# What a query shows of such a join, and what follows it.
QUERIES: tuple[tuple[str, str], ...] = (
    ("x.id, z.m", ""),
    ("x.id, z.m, x.m AS n", ""),
    ("*", ""),
    ("z.*, x.id AS n", "WHERE x.id < 5"),
    ("x.*, z.m AS n", "WHERE z.v > 0"),
    ("count(*) AS n, max(z.m) AS m", ""),
    ("x.id, sum(z.v) AS n, min(z.m) AS m", "GROUP BY x.id"),
    ("z.m, count(*) AS n", "GROUP BY z.m"),
    ("x.m, sum(z.id) AS n", "GROUP BY x.m HAVING count(z.m) > 0"),
    ("DISTINCT z.m", ""),
    ("x.id, row_number() OVER (PARTITION BY x.id ORDER BY z.m, z.id) AS n", ""),
    ("x.id, z.m", "WHERE z.m IS NOT NULL"),
    ("x.id, (SELECT max(q.id) FROM few q WHERE q.id > z.v AND z.m IS NOT NULL) AS n", ""),
    ("x.id, z.id AS o", ""),
    ("x.id, struct(z.m, x.m) AS n", "ORDER BY x.id, z.id"),
    ("x.id, z.id AS n", "ORDER BY z.m"),
    ("/*+ RANGE_JOIN(z, 20) */ x.id, z.m", ""),
    ("/*+ REPARTITION(2) */ x.id, z.m", ""),
    ("z.* EXCEPT (lo), x.id AS n", ""),
    ("x.id, y.k AS n", "JOIN few y ON y.id = z.m"),
    ("*", "LEFT JOIN few y ON y.id = z.m AND x.id = y.id"),
    ("x.id, l.n", ", LATERAL (SELECT z.m AS n) l"),
    ("x.id, n", "LATERAL VIEW explode(array(z.m, z.m)) l AS n"),
    ("x.id, z.m, n", "LATERAL VIEW explode(array(1, 2)) l AS n"),
    ("x.id, z.m", "NATURAL JOIN (SELECT DISTINCT v AS m FROM few) y"),
    ("to_json(struct(x.id, (SELECT count(*) FROM few))) AS n, z.m", ""),
)
NEAREST = (
    """SELECT id, m FROM (SELECT x.id, z.m, row_number() OVER (PARTITION BY x.id ORDER BY z.lo DESC, z.id) AS n
    FROM {x} x JOIN {z} z ON x.k = z.k AND z.lo <= x.lo) WHERE n = 1""",
    """SELECT * FROM (SELECT x.*, z.m AS y, row_number() OVER (PARTITION BY x.id ORDER BY z.lo DESC, z.id) AS o
    FROM {x} x LEFT JOIN {z} z ON x.k = z.k AND z.lo <= x.lo) WHERE o = 1""",
    """SELECT x.id, max_by(z.m, z.lo) AS m FROM {x} x JOIN {z} z ON z.k = x.k AND z.lo < x.lo GROUP BY x.id""",
    """SELECT x.id, z.m FROM {x} x JOIN {z} z ON x.k = z.k AND z.lo <= x.lo
    QUALIFY rank() OVER (PARTITION BY x.id ORDER BY z.lo DESC) = 1""",
    """SELECT x.*, z.id AS y FROM {x} x LEFT JOIN {z} z ON x.k = z.k AND z.lo <= x.lo
    QUALIFY row_number() OVER (PARTITION BY x.id ORDER BY z.lo DESC, z.id) = 1""",
    """SELECT x.id, max(struct(z.lo, z.m)).m AS m FROM {x} x JOIN {z} z ON z.k = x.k AND z.lo < x.lo GROUP BY x.id""",
    """SELECT x.id, (SELECT max_by(z.m, z.lo) FROM {z} z WHERE z.k = x.k AND z.lo < x.lo) AS m FROM {x} x""",
    """SELECT x.id, max(x.m) AS n, max_by(z.v, z.lo) AS m FROM {x} x JOIN {z} z ON z.k = x.k AND z.lo < x.lo
    GROUP BY x.id""",
)
EXISTS = (
    "SELECT x.id, x.m FROM {x} x WHERE EXISTS (SELECT 1 FROM {z} z WHERE x.lo BETWEEN z.lo AND z.hi)",
    """SELECT x.m, count(*) AS n FROM {x} x WHERE EXISTS (SELECT 1 FROM few z WHERE z.lo <= x.hi AND x.lo <= z.hi)
    GROUP BY ALL""",
    "SELECT x.id, x.v AS n FROM {x} x LEFT ANTI JOIN {z} z ON abs(x.lo - z.lo) <= 400",
)
THREE = """SELECT x.id, z.m, y.m AS n FROM {x} x JOIN {z} z ON x.lo BETWEEN z.lo AND z.hi
JOIN {y} y ON abs(z.lo - y.lo) <= 2"""


@pytest.fixture(scope="module")
def session(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    session = for_few_rows(spark)
    session.conf.set("spark.sql.ansi.enabled", "true")
    for name, rows in {"few": GOOD[:3], **{name: (*GOOD, *bad) for name, bad in BAD.items()}}.items():
        path = str(tmp_path_factory.mktemp("rows") / name)
        made = session.sql(f"SELECT * FROM VALUES {', '.join(rows)} AS t(id, k, lo, hi, v, s, w, c)")
        made.write.parquet(path)  # Spark computes what is made of literals while it plans
        session.read.parquet(path).createOrReplaceTempView(name)
    return session


@st.composite
def relations(draw: st.DrawFn, *, raises: bool) -> str:
    table = draw(st.sampled_from(("far", "far", "far", "near"))) if raises else "few"
    return draw(st.sampled_from(FORMS)).format(draw(st.sampled_from(EXPRESSIONS)), table)


@st.composite
def queries(draw: st.DrawFn) -> tuple[str, str]:
    """A query, and the query of the view ``of_a_view`` that it may read."""
    raises = draw(st.sampled_from(("x", "z", "z", "y", "xz")))
    x, y, z = (draw(relations(raises=side in raises)) for side in "xyz")
    query = draw(st.sampled_from((*NEAREST, *EXISTS, THREE, *[""] * 8)))
    if not query:
        items, rest = draw(st.sampled_from(QUERIES))
        band, join = draw(st.sampled_from(BANDS)), draw(st.sampled_from(JOINS))
        query = f"SELECT {items} FROM {{x}} x {join} {{z}} z ON {band} {rest}"
    named = draw(st.sampled_from(("", "", "WITH", "view")))
    if named == "WITH":
        query = f"WITH of_with AS {z} {query}"
    name = {"WITH": "of_with", "view": "of_a_view"}.get(named, z)
    return query.format(x=x, y=y, z=name), z[1:-1]


@given(queries())
def test_no_error_that_spark_does_not_raise(session: SparkSession, share: Share, texts: tuple[str, str]) -> None:
    query, view = texts
    if "of_a_view" in query:
        session.sql(f"CREATE OR REPLACE TEMPORARY VIEW of_a_view AS {view}")
    plan = Optimizer(session, Options(force=True, strict=True)).plan(query)
    if share.count(plan.rewritten):
        assert_same(session, query, plan)


def test_a_column_of_a_small_side_that_nothing_reads(session: SparkSession, tmp_path: Path) -> None:
    tables = {
        "many": "SELECT id, 1 AS k, CAST(id AS INT) AS x, uuid() AS note FROM range(4000)",
        "some": "SELECT 1 AS k, CAST(id * 13 AS INT) AS lo, id AS v, CAST(0 AS INT) AS zero FROM range(300)",
    }
    for name, rows in tables.items():
        session.sql(rows).write.parquet(str(tmp_path / name))
        session.read.parquet(str(tmp_path / name)).createOrReplaceTempView(name)
    text = """SELECT p.*, z.v FROM many p JOIN (SELECT k, lo, v, 100 DIV zero AS m FROM some) z
    ON z.k = p.k AND z.lo <= p.x QUALIFY row_number() OVER (PARTITION BY p.id ORDER BY z.lo DESC) = 1"""
    plan = Optimizer(session, Options(strict=True)).plan(text)
    assert "NearestJoin" in plan.explain(), plan.explain("cost")
    assert_same(session, text, plan)
