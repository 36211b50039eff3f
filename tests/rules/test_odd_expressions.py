"""No rule raises over an odd expression, wherever it stands; what it says names what the query has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.optimizer.options import Options
from dovetail.optimizer.planning.statement import plan_sql
from dovetail.planner.catalog import Settings, UniqueKey
from dovetail.planner.catalog.stats import Statistics
from dovetail.planner.offline_catalog.catalog import CatalogFile, Table
from dovetail.planner.types.schema import Column, sql_type

ODD = r"""
named_struct('a', {c}).a
(named_struct('a', {c})).a.b
array({c})[0]
map('k', {c})['k']
map('k', {c}).k
exists(array({c}), x -> x > {c})
transform(array({c}), (x, i) -> x + i + {c})[0]
{c} >>> 1
{c}::BIGINT
{c} || 'a'
~{c}
CASE {c} WHEN 1 THEN {c} ELSE NULL END
extract(YEAR FROM {c})
trim(BOTH 'a' FROM {c})
{c} COLLATE UTF8_LCASE
:p
?
{c} % 3
db.f({c})
`f`({c})
f(a => {c})
rand() * {c}
hash(*)
CAST({c} AS STRUCT<a: INT>)
INTERVAL 1 DAY
current_date
{c} IS NOT DISTINCT FROM 1
{c} = 1 = true
{c} BETWEEN SYMMETRIC 1 AND 2
({c}, 1)
x'1F'
r'\d'
{c}:a.b
(SELECT max(v) FROM t)
NOT {c}
{c} RLIKE 'a'
{c} LIKE ANY ('a', 'b')
sum({c}) OVER (PARTITION BY {c})
max_by({c}, {c})
/* c */ {c}
CAST({c} AS CHAR(3))
position('a' IN {c})
{c} IS UNKNOWN
try_cast({c} AS DATE)
explode(array({c}))
""".split("\n")[1:-1]
PLACES = [
    "SELECT x.id, y.s FROM t x JOIN (SELECT id, {y} AS s FROM t y) y ON x.id = y.id",
    "SELECT x.id FROM t x LEFT JOIN t y ON x.id = y.id AND {y} > 1",
    "SELECT x.id FROM t x JOIN t y ON x.id = y.id WHERE {y} > 1",
    "SELECT x.id FROM t x WHERE x.v > (SELECT avg({y}) FROM t y WHERE y.k = x.k)",
    "SELECT x.id FROM t x WHERE EXISTS (SELECT 1 FROM t y WHERE y.k = x.k AND y.v <> {y})",
    "SELECT x.id FROM t x WHERE {x} IN (SELECT {y} FROM t y WHERE y.v BETWEEN x.v - 1 AND x.v + 1)",
    "SELECT p.id, i.id FROM t p JOIN u i ON {p} BETWEEN i.lo AND i.hi",
    (
        "SELECT p.k, count({p}), sum({p}) FROM t p JOIN u i ON p.v BETWEEN i.lo AND {i} GROUP BY p.k, {p} HAVING "
        "max({p}) > 1"
    ),
    (
        "SELECT x.id, count(*) FROM t x JOIN t y ON y.v BETWEEN x.v - 5 AND x.v AND {y} = {x} GROUP BY x.id, {x} "
        "ORDER BY {x}"
    ),
    "SELECT (SELECT count(*) FROM t y WHERE {y} > 1) a, (SELECT sum({y}) FROM t y WHERE y.k = 1) b",
    (
        "SELECT x.n, y.n FROM (SELECT k, count({y}) n FROM t y GROUP BY k, {y}) x JOIN (SELECT k, 1 n FROM t) y ON "
        "x.k = y.k"
    ),
    "SELECT x.id, (SELECT max(y.v) FROM t y WHERE y.v <= x.v AND {y} = 1) FROM t x",
    (
        "WITH w AS (SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY {y}) r FROM t y) SELECT a.v, b.v FROM w a"
        " JOIN w b ON a.k = b.k AND a.r = b.r + 1 AND {a} > 0"
    ),
    (
        "WITH w AS (SELECT k, count({y}) n FROM t y GROUP BY k) SELECT a.n FROM w a, w b WHERE a.k = 1 AND b.k = 2 "
        "AND {a} > {b}"
    ),
    "SELECT * FROM t x JOIN LATERAL (SELECT {y} AS s FROM t y WHERE y.v BETWEEN x.v AND x.v + 1) z",
    "SELECT x.id FROM t x LEFT JOIN t y ON x.k = y.k AND x.v BETWEEN y.v AND {y} WHERE y.id IS NULL",
]


def _table(name: str, columns: str, rows: int) -> Table:
    made = tuple(Column(c, sql_type("string" if c == "w" else "int")) for c in columns.split())
    return Table((name,), made, (UniqueKey(("id",)),), Statistics(rows, rows * 20))


CATALOG = CatalogFile(Path("odd"), Settings(), (_table("t", "id k v n w", 10**6), _table("u", "id k lo hi v w", 10**5)))


def _said(place: str, expression: str) -> str:
    return place.format(**{alias: expression.replace("{c}", f"{alias}.v") for alias in "xypiab"})


@pytest.mark.parametrize("place", PLACES)
def test_no_rule_raises(place: Any) -> None:
    for expression in ODD:
        plan = plan_sql(_said(place, expression), CATALOG, Options(force=True, strict=True))
        for declined in plan.declined:
            assert declined.reason.strip()
            assert "AssertionError" not in declined.reason


@given(st.lists(st.sampled_from(ODD), min_size=2, max_size=3), st.sampled_from(PLACES))
def test_no_rule_raises_over_one_in_another(expressions: Any, place: Any) -> None:
    expression = "{c}"
    for one in expressions:
        expression = one.replace("{c}", expression)
    plan_sql(_said(place, expression), CATALOG, Options(force=True, strict=True))


def test_a_column_that_has_the_name_of_a_function_is_a_column() -> None:
    query = "SELECT p.id, i.id FROM (SELECT id, v, k AS {name} FROM t) p JOIN u i ON p.v BETWEEN i.lo AND i.hi"
    plans = [
        plan_sql(query.format(name=name), CATALOG, Options(force=True)) for name in ("current_date", "current_day")
    ]
    assert [plan.rewritten for plan in plans] == [False, True]
    assert plans[0].declined[-1].reason.endswith("the type of p.v is not known")
