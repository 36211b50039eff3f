"""Joins with the next or an earlier row return what plain Spark returns for them, on random tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import given, note
from hypothesis import strategies as st

from comparing import assert_same, assert_taken, few_rows
from dovetail import Optimizer, Options
from shares import Share, at_least

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

share = at_least(0.25)

OPTIONS = Options(strict=True)
NUMBERS = ("row_number()", "rank()", "dense_rank()")
# What numbers the rows: its name, its text with {}, the function; whether rows can tie.
KEYED = "SELECT k, at, v, {} OVER (PARTITION BY k ORDER BY at{}) AS n FROM t WHERE at IS NOT NULL"
GROUPED = (
    "SELECT k, v, count(*) AS c, max(v) OVER (PARTITION BY k) AS m, {} OVER (PARTITION BY k ORDER BY v{}) AS n "
    "FROM t GROUP BY k, v"
)
OVER_ALL = "SELECT *, {} OVER (ORDER BY k, at{}) AS n FROM t WHERE at IS NOT NULL AND k IS NOT NULL"
TIED = "SELECT k, at, v, dense_rank() OVER (PARTITION BY k ORDER BY v{1}) AS n FROM t"
STEPS = ("y.n = x.n - 1", "x.n + 1 = y.n", "x.n - y.n = 2", "y.n - 1 = x.n", "x.n = y.n - 3")
MORE = ("", "", " AND y.v > 1", " AND x.v >= y.v", " AND (y.v IS NULL OR x.v = 2)", " AND coalesce(y.v, 5) > x.n")


@dataclass(frozen=True)
class RandomQuery:
    """A table ``t(k, at, v)`` with the key (k, at), a query over it, and whether a join with neighbours has to go."""

    table: str
    query: str
    gone: bool


@st.composite
def cases(draw: st.DrawFn) -> RandomQuery:
    """Every kind of join, with further conditions and relations."""
    small = st.integers(0, 3)
    keys = draw(st.lists(st.tuples(small, st.integers(0, 6)), unique=True, max_size=9))
    value = st.sampled_from(["0", "1", "2", "NULL"])
    rows = [f"({k}, {at}, {draw(value)})" for k, at in keys]
    nulls = st.sampled_from(["(NULL, 1, 2)", "(NULL, 1, 1)", "(1, NULL, 2)", "(NULL, NULL, NULL)"])
    rows += draw(st.lists(nulls, max_size=3))
    at = draw(st.sampled_from(["INT", "DOUBLE", "DATE", "STRING", "DECIMAL(5,1)"]))
    said = f"date_add(DATE '2026-01-01', {'at'})" if at == "DATE" else f"CAST(at AS {at})"
    values = ", ".join(rows) or "(1, 1, 1)"
    empty = "" if rows else " WHERE false"
    table = (
        f"SELECT CAST(k AS BIGINT) AS k, {said} AS at, CAST(v AS INT) AS v FROM VALUES {values} AS d(k, at, v){empty}"
    )
    source, exact = draw(st.sampled_from([(KEYED, True), (GROUPED, True), (OVER_ALL, True), (TIED, False)]))
    numbered = source.format(draw(st.sampled_from(NUMBERS)), draw(st.sampled_from(["", " DESC", " NULLS LAST"])))
    over_all = source is OVER_ALL
    equal = "<=>" if source is GROUPED and draw(st.booleans()) else "="
    compared = [] if over_all and draw(st.booleans()) else [f"x.k {equal} y.k"]
    if not over_all and draw(st.integers(0, 5)) == 0:
        compared, exact = [], False
    on = " AND ".join([*compared, draw(st.sampled_from(STEPS))]) + draw(st.sampled_from(MORE))
    third = " AND ".join([*(c.replace("y.", "z.") for c in compared), draw(st.sampled_from(STEPS)).replace("y.", "z.")])
    shown = draw(st.sampled_from(["x.k, x.n, y.v", "*", "x.*, y.v AS other", "y.*", "x.v, count(*) OVER () AS c, y.n"]))
    forms = {
        f"SELECT {shown} FROM r x JOIN r y ON {on}": True,
        f"SELECT {shown} FROM r x, r y WHERE {on}": True,
        f"SELECT {shown} FROM r x LEFT JOIN r y ON {on}": True,
        f"SELECT {shown} FROM r x LEFT JOIN r y ON {on} WHERE y.n IS NULL OR x.v > 0": True,
        f"SELECT x.k, count(*), sum(y.v) FROM r x JOIN r y ON {on} GROUP BY x.k": True,
        f"SELECT x.n, y.v, z.v AS w FROM r x JOIN r y ON {on} LEFT JOIN r z ON {third}": True,
        f"SELECT x.n, y.v, z.v AS w FROM r x, r y, r z WHERE {on} AND {third}": True,
        f"SELECT u.v, y.n FROM t u JOIN r x ON u.v = x.v JOIN r y ON {on}": True,
        f"SELECT {shown} FROM r x RIGHT JOIN r y ON {on}": False,
        f"SELECT {shown} FROM r x FULL JOIN r y ON {on}": False,
        f"SELECT x.n FROM r x LEFT SEMI JOIN r y ON {on}": False,
    }
    query = draw(st.sampled_from(list(forms)))
    return RandomQuery(table, f"WITH r AS ({numbered}) {query}", forms[query] and exact)


@given(cases())
def test_the_same_rows_as_plain_spark(session: SparkSession, share: Share, case: RandomQuery) -> None:
    few_rows(session, "t", case.table)
    note(case.table)
    optimizer = Optimizer(session, OPTIONS)
    optimizer.declare_key("t", ["k", "at"])
    plan = optimizer.plan(case.query)
    assert_taken(session, case.query, plan, "self_neighbour", taken=share.count(case.gone))


def test_parts_that_are_equal_and_not_the_same(session: SparkSession) -> None:
    rows = "(0.0D, 1), (-0.0D, 2), (0.0D, 3), (double('NaN'), 1), (double('NaN'), 2)"
    session.sql(f"CREATE OR REPLACE TEMP VIEW t AS SELECT k, at, 1 AS v FROM VALUES {rows} AS d(k, at)")
    optimizer = Optimizer(session, OPTIONS)
    optimizer.declare_key("t", ["k", "at"])
    numbered = KEYED.format("row_number()", "")
    query = f"WITH r AS ({numbered}) SELECT x.k, x.at, y.k AS other FROM r x JOIN r y ON x.k = y.k AND y.n = x.n - 1"
    plan = optimizer.plan(query)
    assert "self_neighbour" in plan.rules
    assert_same(session, query, plan)
    assert "-0.0" in {str(row.other) for row in plan.dataframe().collect()}
