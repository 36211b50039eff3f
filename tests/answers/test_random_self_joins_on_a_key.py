"""Self-joins on a unique key return what plain Spark returns for them, on random tables; near misses stay joins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import event, given, note
from hypothesis import strategies as st

from comparing import assert_same, few_rows
from dovetail import Optimizer, Options
from shares import Share, at_least

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

share = at_least(0.5)

OPTIONS = Options(strict=True)


@dataclass(frozen=True)
class RandomQuery:
    """A table ``t(id, a, b, k, v)`` with the keys (id) and (a, b), another ``u(k, w)``, and a query over them.

    ``eliminated`` tells whether a join has to go; None where that hangs on what could raise an error.
    """

    table: str
    other: str
    query: str
    eliminated: bool | None


@st.composite
def tables(draw: st.DrawFn) -> tuple[str, str]:
    """Keys are unique but for rows with a NULL in them; the rest is anything."""
    number = st.sampled_from(["0", "1", "2", "3", "NULL"])
    ids = draw(st.lists(st.integers(0, 30), unique=True, max_size=6))
    pairs = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), unique=True, max_size=6))
    nulls = draw(st.integers(0, 3))
    rows = []
    for n in range(max(len(ids), len(pairs)) + nulls):
        id_ = str(ids[n]) if n < len(ids) else "NULL"
        a, b = map(str, pairs[n]) if n < len(pairs) else (draw(number), "NULL")
        rows.append(f"({id_}, {a}, {b}, {draw(number)}, {draw(number)})")
    values = ", ".join(rows) or "(1, 1, 1, 1, 1)"
    real = draw(st.sampled_from(["INT", "DOUBLE", "DECIMAL(6,2)", "STRING"]))
    empty = "" if rows else " WHERE false"
    types = {"id": real, "a": "INT", "b": "BIGINT", "k": "INT", "v": "INT"}
    items = ", ".join(f"CAST({name} AS {type_}) AS {name}" for name, type_ in types.items())
    others = draw(st.lists(st.tuples(number, number), min_size=1, max_size=5))
    said = ", ".join(f"({k}, {w})" for k, w in others)
    return (
        f"SELECT {items} FROM VALUES {values} AS d(id, a, b, k, v){empty}",
        f"SELECT CAST(k AS INT) AS k, CAST(w AS INT) AS w FROM VALUES {said} AS d(k, w)",
    )


KEYS = ("x.id = y.id", "y.id = x.id", "x.a = y.a AND x.b = y.b", "x.id = y.id AND x.k = y.k")
NOT_KEYS = (
    "x.k = y.k",
    "x.a = y.a",
    "x.id <=> y.id",
    "x.a = y.b AND x.b = y.a",
    "x.a <=> y.a AND x.b = y.b",
    "x.id < y.id",
)
FILTERS = (
    "y.v > 1",
    "x.v >= y.k",
    "(x.v = 1 OR y.v = 2)",
    "x.k IS NOT NULL",
    "y.v IS NULL",
    "coalesce(y.v, 5) > 2",
    "NOT (y.v < x.k)",
    "y.v <> 0 AND x.k / y.v > 0.5",
    "x.k / y.v > 0.5 AND y.v <> 0",
)
SIDES = ("t", "t", "t", "(SELECT * FROM t WHERE v > 0)", "(SELECT * FROM t WHERE k = 1 OR v IS NULL)", "c")
WITH = "WITH c AS (SELECT * FROM t WHERE k < 3 AND v IS NOT NULL) "


@st.composite
def queries(draw: st.DrawFn) -> RandomQuery:
    """Every kind of join, with filters on both sides, and with a third relation."""
    t, u = draw(tables())
    hit = draw(st.sampled_from([True, True, True, False]))
    key = draw(st.sampled_from(KEYS if hit else NOT_KEYS))
    some = draw(st.lists(st.sampled_from(FILTERS), max_size=2))
    raising = any("/" in f for f in some)
    on = " AND ".join([key, *some])
    x, y = draw(st.sampled_from(SIDES)), draw(st.sampled_from(SIDES))
    shown = draw(
        st.sampled_from(["*", "x.*, y.v", "x.id, y.a AS ya, y.k + 1 AS yk", "y.*", "x.v, count(y.id) OVER () n"])
    )
    where = draw(st.sampled_from(["", "", " WHERE y.v IS NULL", " WHERE x.v < 3 AND y.k = 1"]))
    third = draw(st.sampled_from(["u.k = x.k", "u.k = y.k", "u.w = x.v AND u.k > y.k"]))
    outer = draw(st.sampled_from(["u.k = x.k", "u.w = x.v AND u.k > 1"]))
    forms = {
        f"SELECT {shown} FROM {x} x JOIN {y} y ON {on}{where}": True,
        f"SELECT {shown} FROM {x} x, {y} y WHERE {on}": True,
        f"SELECT {shown} FROM {x} x LEFT JOIN {y} y ON {on}{where}": True,
        f"SELECT * FROM {x} x LEFT SEMI JOIN {y} y ON {on}": False,
        f"SELECT * FROM {x} x LEFT ANTI JOIN {y} y ON {on}": False,
        f"SELECT {shown} FROM {x} x RIGHT JOIN {y} y ON {on}": False,
        f"SELECT {shown} FROM {x} x FULL JOIN {y} y ON {on}": False,
        f"SELECT x.v, y.k, u.w FROM {x} x JOIN {y} y ON {on} JOIN u ON {third}": None if raising else True,
        f"SELECT x.v, y.k, u.w FROM {x} x JOIN u ON {outer} LEFT JOIN {y} y ON {on}": None if raising else True,
        f"SELECT x.v, y.k, u.w FROM u LEFT JOIN {x} x ON {outer} LEFT JOIN {y} y ON {on}": None if raising else True,
        f"SELECT x.v, y.k, u.w FROM u LEFT JOIN {x} x ON {outer} JOIN {y} y ON {on}": None if raising else True,
        f"SELECT x.v, y.k, z.v FROM {x} x JOIN {y} y ON {on} JOIN t z ON z.id = y.id AND z.v > 0": hit or None,
        f"SELECT x.v, y.k, z.v FROM {x} x LEFT JOIN {y} y ON {on} LEFT JOIN t z ON y.id = z.id": hit or None,
        f"SELECT x.k, count(*), sum(y.v) FROM {x} x JOIN {y} y ON {on} GROUP BY x.k HAVING count(*) > 0": True,
    }
    query = draw(st.sampled_from(list(forms)))
    return RandomQuery(t, u, WITH + query, forms[query] and hit)


GROUPS = "WITH g AS (SELECT k, a, count(*) AS n, max(v) AS m FROM t GROUP BY k, a), d AS (SELECT DISTINCT k, v FROM t) "


@st.composite
def constructed(draw: st.DrawFn) -> RandomQuery:
    """Keys that GROUP BY and DISTINCT make, with NULL among them."""
    t, u = draw(tables())
    equal = st.sampled_from(["=", "<=>"])
    one, two = draw(equal), draw(equal)
    queries = {
        f"SELECT * FROM g x JOIN g y ON x.k {one} y.k AND x.a {two} y.a": True,
        f"SELECT x.n, y.m FROM g x LEFT JOIN g y ON x.k {one} y.k AND x.a {two} y.a AND y.n > 1": True,
        f"SELECT * FROM d x, d y WHERE x.k {one} y.k AND y.v {two} x.v": True,
        f"SELECT * FROM g x JOIN g y ON x.k {one} y.k": False,
        f"SELECT * FROM g x JOIN g y ON x.k {one} y.k AND x.n {two} y.n": False,
        f"SELECT * FROM d x JOIN d y ON x.v {one} y.v": False,
        "SELECT x.m, y.n FROM (SELECT max(v) m, count(*) n FROM t) x, (SELECT max(v) m, count(*) n FROM t) y": True,
    }
    query = draw(st.sampled_from(list(queries)))
    return RandomQuery(t, u, GROUPS + query, queries[query])


def check(session: SparkSession, share: Share, case: RandomQuery) -> None:
    few_rows(session, "t", case.table)
    few_rows(session, "u", case.other)
    note(f"{case.table}\n{case.query}")
    optimizer = Optimizer(session, OPTIONS)
    optimizer.declare_key("t", ["id"])
    optimizer.declare_key("t", ["a", "b"])
    plan = optimizer.plan(case.query)
    note(plan.sql())
    note("\n".join(d.reason for d in plan.declined))
    event(f"rewritten {share.count(plan.rewritten)}")
    never_null = any(d.rule == "schema check" for d in plan.declined)  # a column of VALUES, behind an outer join
    if case.eliminated and not never_null:
        assert plan.rewritten
    if case.eliminated is False:  # another rule may read the table once for both sides
        assert "self_join_elimination" not in plan.rules
    assert_same(session, case.query, plan)


@given(queries())
def test_the_same_rows_as_plain_spark(session: SparkSession, share: Share, case: RandomQuery) -> None:
    check(session, share, case)


@given(constructed())
def test_groups_and_distinct_rows(session: SparkSession, share: Share, case: RandomQuery) -> None:
    check(session, share, case)
