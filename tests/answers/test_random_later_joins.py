"""As-of joins with further joins, LATERAL and subqueries behind them, and totals of a band, over random rows.

The rows have NULLs, duplicates of whole left rows, and times that several right rows have; ``seq`` is unique, so that
every statement has one answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from comparing import assert_same, few_rows
from dovetail import Optimizer, Options
from effort import examples
from sessions import for_few_rows
from shares import Share, at_least

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

rewritten = at_least(0.9)

BOUNDS = ("q.k = t.k AND q.ts <= t.ts", "q.k <=> t.k AND q.ts < t.ts", "same(q.k) = t.k AND twice(q.ts) <= twice(t.ts)")
# What stands behind the as-of join, and a column of it.
LATER = (
    ("", "NULL"),
    ("JOIN s ON s.k = t.k", "s.w"),
    ("LEFT JOIN s ON s.id = t.x", "s.w"),
    ("RIGHT JOIN s ON s.id = t.x", "s.w"),
    ("FULL JOIN s ON s.id = t.x AND s.w > 1", "s.w"),
    ("LEFT SEMI JOIN s ON s.id = t.x", "NULL"),
    ("LEFT ANTI JOIN s ON s.id = t.x", "NULL"),
    ("JOIN (SELECT id AS x, w FROM s) s USING (x)", "s.w"),
    ("LEFT JOIN LATERAL (SELECT max(s.w) AS w FROM s WHERE s.k = t.k) l", "l.w"),
    ("LATERAL VIEW explode(array(t.x, 1)) e AS w", "e.w"),
    ("CROSS JOIN s", "s.w"),
    ("JOIN s ON s.k = t.k LEFT ANTI JOIN s u ON u.id = t.x AND u.w < s.w", "s.w"),
)
WHERES = (
    "",
    "WHERE t.x > 1",
    "WHERE t.x IS NULL OR t.id > 3",
    "WHERE EXISTS (SELECT 1 FROM s u WHERE u.k = t.k)",
    "WHERE t.x NOT IN (SELECT u.id FROM s u WHERE u.id IS NOT NULL)",
)
_RANKED = (
    "SELECT {shown} FROM (SELECT {items}, row_number() OVER (PARTITION BY {part} ORDER BY {by}) AS n FROM {{rows}})"
)
SHAPES = (
    _RANKED.format(shown="id, seq, w", items="t.id, q.seq, {w} AS w", part="t.id", by="q.{time} DESC, q.seq, {w}")
    + " WHERE n = 1",
    _RANKED.format(shown="id, seq", items="t.id, q.seq", part="t.id, t.x, {w}", by="q.{time} DESC, q.seq DESC")
    + " WHERE n <= 2",
    "SELECT t.id, max(q.{time}) AS ts, max_by(q.v, struct(q.{time}, q.seq)) AS v FROM {rows} GROUP BY t.id",
    "SELECT t.id, max({w}) AS w, max_by(q.seq, struct(q.{time}, q.seq)) AS seq FROM {rows} GROUP BY t.id",
    "SELECT DISTINCT t.id, first_value(q.seq) OVER (PARTITION BY t.id ORDER BY q.{time} DESC, q.seq) AS f FROM {rows}",
)
# The same for a difference, which needs the time itself.
GAPS = (
    _RANKED.format(shown="id, seq", items="t.id, q.seq", part="t.id, t.x", by="t.ts - q.ts, q.seq") + " WHERE n = 1",
    "SELECT t.id, min(t.ts - q.ts) AS gap, max({w}) AS w FROM {rows} GROUP BY t.id",
)
FLAGS = (  # {0}: whether a subquery has a row
    "SELECT t.id, {0} AS flag FROM t {1}",
    "SELECT t.id, CASE WHEN NOT {0} THEN t.x ELSE -1 END AS x FROM t {1}",
    "SELECT t.id, (t.x > 2 OR {0}) AND t.k > 0 AS f, (SELECT count(*) FROM q WHERE {2}) AS n FROM t",
    "SELECT t.id FROM t WHERE t.x > 3 OR {0} IS FALSE",
    "SELECT t.id, EXISTS (SELECT max(q.v) FROM q WHERE {2}) AS always FROM t {1}",
)
TOTALS = ("count(*)", "count(q.v) + count(*)", "coalesce(sum(q.v), -1)", "max(q.v) - min(q.v)", "count(DISTINCT q.v)")


@st.composite
def as_of_joins(draw: st.DrawFn) -> str:
    """An as-of join with something behind it."""
    bound, (later, w) = draw(st.sampled_from(BOUNDS)), draw(st.sampled_from(LATER))
    shapes = SHAPES if "twice" in bound else SHAPES + GAPS
    join = draw(st.sampled_from(("JOIN", "LEFT JOIN")))
    rows = f"t {join} q ON {bound} {later} {draw(st.sampled_from(WHERES))}"
    shape = draw(st.sampled_from(shapes)).replace("q.{time}", "twice(q.ts)" if "twice" in bound else "q.ts")
    return str(shape.format(rows=rows, w="CAST(NULL AS INT)" if w == "NULL" else w))


@st.composite
def totals(draw: st.DrawFn) -> str:
    """Totals of a band: of a subquery, and of an outer join."""
    total, key = draw(st.sampled_from(TOTALS)), draw(st.sampled_from(("q.k = t.k AND ", "q.k <=> t.k AND ", "")))
    band = f"{key}q.ts BETWEEN t.ts - 2 AND {draw(st.sampled_from(('t.ts', 't.ts + t.x', 'twice(t.ts)')))}"
    where = draw(st.sampled_from(WHERES[:4]))
    if draw(st.integers(0, 2)) == 0:
        return str(draw(st.sampled_from(FLAGS))).format(f"EXISTS (SELECT q.v + 1 FROM q WHERE {band})", where, band)
    if draw(st.booleans()):
        return f"SELECT t.id, (SELECT {total} FROM q WHERE {band}) AS total FROM t {where}"
    where = draw(st.sampled_from(WHERES[:3]))
    on = draw(st.sampled_from(("", " AND t.x > 1", " AND q.v > 1")))
    return f"SELECT t.id, count(q.v) AS n, sum(q.seq) AS s FROM t LEFT JOIN q ON {band}{on} {where} GROUP BY ALL"


@st.composite
def values(draw: st.DrawFn, columns: int, size: int, *, keyed: bool = False) -> str:
    """Rows of small numbers, some of them NULL and some of them twice; ``keyed``: with a unique first column."""
    number = st.one_of(st.integers(0, 5), st.integers(0, 5), st.none())
    rows = draw(st.lists(st.tuples(*[number] * columns), min_size=1, max_size=size))
    if keyed:
        rows = [(n, *row[1:]) for n, row in enumerate(rows)]
    return ", ".join("(" + ", ".join("NULL" if x is None else str(x) for x in row) + ")" for row in rows)


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Any:
    found = for_few_rows(spark)
    found.udf.register("same", lambda k: k, "int")
    found.sql("CREATE TEMPORARY FUNCTION twice(n INT) RETURNS INT RETURN 2 * n")
    return found


@settings(max_examples=examples())
@given(
    query=st.one_of(as_of_joins(), as_of_joins(), totals()),
    t=values(4, 10),
    q=values(4, 14, keyed=True),
    s=values(3, 6),
)
def test_what_stands_behind_an_as_of_join(
    session: SparkSession, rewritten: Share, query: str, t: str, q: str, s: str
) -> None:
    for name, rows, columns in (("t", t, "id, k, ts, x"), ("q", q, "seq, k, ts, v"), ("s", s, "id, k, w")):
        typed = ", ".join(f"CAST({column} AS INT) AS {column}" for column in columns.split(", "))
        few_rows(session, name, f"SELECT {typed} FROM VALUES {rows} AS r({columns})")
    plan = Optimizer(session, Options(force=True)).plan(query)
    note(query)
    note("; ".join(declined.reason for declined in plan.declined))
    rewritten.count(plan.rewritten)
    assert_same(session, query, plan)
