"""Scalar aggregates of one source are what plain Spark returns, on random tables; what only looks like them stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from comparing import assert_taken, few_rows
from dovetail import Optimizer, Options
from shares import Share, at_least

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

share = at_least(0.5)

OPTIONS = Options(strict=True)
# What a column holds.  Of zeros only -0.0: which of two equal ones is the least hangs on the order of rows.
VALUES = {
    "k INT": ("0", "1", "2", "3", "NULL"),
    "v INT": ("1", "2", "3", "NULL"),
    "s STRING": ("'a'", "'b'", "'7'", "NULL"),
    "d DOUBLE": ("0.5D", "1.5D", "-2D", "-0.0D", "double('NaN')", "double('inf')", "double('-inf')", "NULL"),
    "m DECIMAL(12,2)": ("1.25", "-3", "0", "NULL"),
    "e DATE": ("DATE '2026-01-01'", "DATE '2026-01-02'", "NULL"),
}
# Conditions; {} is the name of the relation.
OWN = (
    *("{}k = 1", "{}k IN (1, 2)", "{}k <> 2", "{}v > 1", "NOT ({}v BETWEEN 2 AND 3)", "{}v IS NULL", "{}s = 'a'"),
    *("{}d > 0.5D", "{}d < 1.5D", "{}m >= 1.25", "{}e >= DATE '2026-01-02'", "({}k = 0 OR {}s < 'b')", "{}k <=> NULL"),
    *("{}k = {}v", "{}k > 0 AND {}e IS NOT NULL", "coalesce({}v, 2) = 2", "{}k BETWEEN 1 AND 1 + 1", "{}k = 9"),
)
COMMON = ("{}k < 3", "{}v IS NOT NULL", "{}s <> 'b'", "({}m > 0 OR {}e IS NULL)")
AGGREGATES = (
    *("count(*)", "count(1)", "count({}v)", "sum({}v)", "sum({}d)", "sum({}m)", "avg({}v)", "avg({}d)", "avg({}m)"),
    *("min({}v)", "max({}s)", "min({}d)", "max({}d)", "max({}e)", "min(DISTINCT {}m)", "Sum( ALL {}v )"),
    *("sum({}v) / count(*)", "coalesce(max({}s), 'none')", "count({}d) > 1", "max({}v) - min({}k)", "1 + avg({}m) * 2"),
    *("CASE WHEN count(*) = 0 THEN 'none' ELSE min({}s) END", "CAST(count({}s) AS INT)", "round(avg({}d), 1)"),
)
DISTINCT = ("count(DISTINCT {}v)", "sum(DISTINCT {}m)", "count(DISTINCT {}s) + count(*)", "avg(DISTINCT {}d)")
JOINED = ("t {x} JOIN u {y} ON {x}.k = {y}.k", "u {y}, t {x} WHERE {y}.k = {x}.k", "u {y} JOIN t {x} ON {x}.k = {y}.k")
# Where totals stand; what follows the name of a place is how each of them is written there.
IN_FROM = {
    "SELECT * FROM {0}": ", ",
    "SELECT a.c0, b.* FROM {0}": " CROSS JOIN ",
    "SELECT a.c0 AS p, b.c0 AS q FROM {0} WHERE a.c0 IS NOT NULL OR b.c0 IS NULL": ", ",
    "SELECT b.*, o.w FROM u o, {0}": ", ",
    "SELECT * FROM u o LEFT JOIN u p ON o.w = p.w, {0}": ", ",
    "SELECT * FROM u o JOIN {0}": " JOIN ",
    "SELECT o.w, count(*), max(a.c0), min(b.c0) FROM u o CROSS JOIN {0} GROUP BY o.w": " CROSS JOIN ",
    "SELECT * FROM {0} LEFT JOIN u o ON o.w > 1": ", ",
}
IN_EXPRESSIONS = (
    "SELECT {items}",
    "SELECT w, {items} FROM u",
    "SELECT DISTINCT {items} FROM u ORDER BY 1, 2 LIMIT 3",
    "SELECT count(*) OVER (ORDER BY w) AS n, {items} FROM u o LEFT JOIN t ON o.k = t.k",
    "SELECT * FROM u WHERE {0} IS NOT NULL OR {1} IS NULL",
    "SELECT * FROM t WHERE {0} IS NULL AND {1} IS NOT NULL OR v > 1",
    "SELECT k, count(*) FROM u WHERE CASE WHEN {0} IS NULL THEN w > 1 ELSE {1} IS NOT NULL END GROUP BY k",
    "SELECT *, {0} AS z FROM u o WHERE NOT {1} IS NULL",
)
AROUND = (
    "{}",
    "{}",
    "SELECT count(*) FROM ({}) q",
    "SELECT * FROM u z CROSS JOIN ({}) q",
    "SELECT * FROM u WHERE 1 IN (SELECT 1 FROM ({}) q)",
    "WITH q AS ({}) SELECT * FROM q",
)
# Pairs that are left to Spark; T is a total that could be merged.
NEAR = (
    "SELECT * FROM (T WHERE k = 1) a, (T WHERE k = 2 GROUP BY v) b",
    "SELECT * FROM (T WHERE k = 1) a, (T WHERE k = 2 HAVING count(*) > 1) b",
    "SELECT * FROM (T WHERE k = 1) a, (T WHERE k = 2 LIMIT 1) b",
    "SELECT * FROM (T WHERE k = 1) a LEFT JOIN (T WHERE k = 2) b ON true",
    "SELECT * FROM (T WHERE k = 1) a FULL JOIN (T WHERE k = 2) b ON a.c0 IS NULL",
    "SELECT * FROM (T WHERE k = 1) a, LATERAL (T WHERE t.v IS NULL OR a.c0 IS NOT NULL) b",
    "SELECT /*+ BROADCAST(a) */ * FROM (T WHERE k = 1) a, (T WHERE k = 2) b",
    "WITH a AS (T WHERE k = 1), b AS (T WHERE k = 2) SELECT * FROM a TABLESAMPLE (0 PERCENT), b",
    "SELECT * FROM u z, LATERAL (SELECT a.c0 FROM (T WHERE k = 1) a, (T WHERE k = 2) b WHERE z.w = 1) q",
    "SELECT (T WHERE rand() < 2) AS a, (T WHERE k = 2) AS b",
    "SELECT (T WHERE k = 1) AS a, (T WHERE 1 / v > 0) AS b",
    "SELECT (T WHERE CAST(s AS INT) > 0) AS a, (T WHERE k = 1) AS b",
    "SELECT (T WHERE s > 1) AS a, (T WHERE k = 1) AS b",
    "SELECT (T WHERE k = 1 AND CAST(s AS INT) > 0) AS a, (T WHERE k = 2 AND CAST(s AS INT) > 0) AS b",
    "SELECT (SELECT sum(v + 1) FROM t WHERE k = 1) AS a, (T WHERE k = 2) AS b",
    "SELECT (SELECT max(w) FROM u WHERE k = 1) AS a, (T WHERE k = 1) AS b",
    "SELECT (T TABLESAMPLE (100 PERCENT) WHERE k = 1) AS a, (T TABLESAMPLE (100 PERCENT) WHERE k = 2) AS b",
    "SELECT (T JOIN u o ON o.k = t.k WHERE v > 1) AS a, (T JOIN u o ON o.k = t.k WHERE w > 1) AS b",
    "SELECT (T JOIN u o ON o.k = t.k AND v > w) AS a, (T JOIN u o ON o.k = t.k) AS b",
    "SELECT (T LEFT JOIN u o ON o.k = t.k WHERE v > 1) AS a, (T LEFT JOIN u o ON o.k = t.k WHERE w > 1) AS b",
    "SELECT (T JOIN u o ON o.k = t.k WHERE v > 1) AS a, (T WHERE v > 1) AS b",
    "SELECT (SELECT /*+ COALESCE(1) */ max(v) FROM t WHERE k = 1) AS a, (T WHERE k = 2) AS b",
    "SELECT (SELECT DISTINCT count(*) FROM t WHERE k = 1) AS a, (T WHERE k = 2) AS b",
    "SELECT (SELECT count(*) FILTER (WHERE v > 1) FROM t WHERE k = 1) AS a, (T WHERE k = 2) AS b",
    "SELECT (SELECT count(DISTINCT v) FROM t WHERE k = 1) AS a, (T WHERE k = 2) AS b",
    "SELECT (SELECT max_by(v, k) FROM t WHERE k = 1) AS a, (T WHERE k = 2) AS b",
    "SELECT (SELECT max(v) FROM t WHERE k IN (SELECT w FROM u)) AS a, (T WHERE k = 2) AS b",
    "SELECT (T WHERE k = 1 AND t.v >= o.w) AS a, (T WHERE k = 2 AND t.v >= o.w) AS b FROM u o",
    "SELECT (T WHERE k = 1) AS a, (T WHERE k = 1) AS b",
    "SELECT (T WHERE k = 1) AS a, (T WHERE k = 2) FROM u",
    "SELECT count(*), (T WHERE k = 1) AS a, (T WHERE k = 2) AS b",
    "SELECT try_sum(w), (T WHERE k = 1) AS a, (T WHERE k = 2) AS b FROM u",
    "SELECT * FROM u JOIN t USING (k) WHERE (T WHERE k = 1) IS NULL OR (T WHERE k = 2) IS NULL",
    "SELECT hash(*) FROM u WHERE (T WHERE k = 1) IS NULL OR (T WHERE k = 2) IS NULL",
    "SELECT (SELECT max(v) FROM (SELECT * FROM t WHERE k = 1)) AS a, (T WHERE k = 2) AS b",
    "WITH r AS (SELECT * FROM t LIMIT 99) SELECT (SELECT max(v) FROM r WHERE k = 1) AS a, (SELECT max(v) FROM r) AS b",
)


@dataclass(frozen=True)
class RandomQuery:
    """Tables ``t(k, v, s, d, m, e)`` and ``u(k, w)``, a query over them, and whether its totals are read at once."""

    t: str
    u: str
    query: str
    gone: bool


def rows(draw: st.DrawFn, columns: dict[str, tuple[str, ...]]) -> str:
    """A table as a query; with no rows at all from time to time."""
    found = draw(st.lists(st.tuples(*map(st.sampled_from, columns.values())), max_size=7))
    values = ", ".join(f"({', '.join(row)})" for row in found or [tuple(v[0] for v in columns.values())])
    items = ", ".join(f"CAST({c.split()[0]} AS {c.split()[1]}) AS {c.split()[0]}" for c in columns)
    names = ", ".join(c.split()[0] for c in columns)
    return f"SELECT {items} FROM VALUES {values} AS z({names})" + ("" if found else " WHERE false")


@st.composite
def totals(draw: st.DrawFn, *, alone: bool) -> list[str]:
    """Scalar aggregates of one source; ``alone``: each has one column."""
    own = draw(st.lists(st.sampled_from(["", *OWN]), min_size=2, max_size=4, unique=True))
    common = draw(st.lists(st.sampled_from(COMMON), max_size=2, unique=True))
    joined = draw(st.booleans())
    distinct = len(own) > 2 and draw(st.integers(0, 3)) == 0
    found = []
    for condition in own:
        x, y = draw(st.sampled_from([("x", "y"), ("y", "x"), ("t", "u")]))
        known = DISTINCT if distinct else AGGREGATES
        aggregates = draw(st.lists(st.sampled_from(known), min_size=1, max_size=1 if alone else 3))
        items = [f"{text} AS c{n}" for n, text in enumerate(aggregates)]
        if joined:
            source = draw(st.sampled_from(JOINED)).format(x=x, y=y)
        else:
            source = draw(st.sampled_from([f"t {x}", f"t AS {x}", f"(SELECT * FROM t) {x}"]))
        said = draw(st.permutations([*common, *([condition] if condition else [])]))
        start = " AND " if "WHERE" in source else " WHERE "
        where = start + " AND ".join(said) if said else ""
        column = f"{x}." if joined or draw(st.booleans()) else ""
        select, where = (text.replace("{}", column) for text in (", ".join(items), where))
        found.append(f"SELECT {select} FROM {source}{where}")
    return found


@st.composite
def cases(draw: st.DrawFn) -> RandomQuery:
    """Scalar aggregates in every place, and pairs that only look like them."""
    t = rows(draw, VALUES)
    u = rows(draw, {"k INT": ("0", "1", "2", "NULL"), "w INT": ("1", "2", "3", "NULL")})
    kind = draw(st.sampled_from(["relations", "names", "values", "both", "near"]))
    if kind == "near":
        total = f"SELECT {draw(st.sampled_from(AGGREGATES)).replace('{}', 't.')} AS c0 FROM t"
        return RandomQuery(t, u, draw(st.sampled_from(NEAR)).replace("(T ", f"({total} "), False)
    found = draw(totals(alone=kind in ("values", "both")))
    names, gone = "abcd"[: len(found)], True
    if "DISTINCT" not in " ".join(found) and draw(st.integers(0, 3)) == 0:
        place = draw(st.integers(2 if kind == "values" else 0, len(found)))
        found.insert(place, "SELECT max(v) AS c0 FROM t WHERE 1 / v > 0.4")  # this one stays where it is
        names = "abcde"[: len(found)]
    if kind == "values":
        said = [f"({one})" for one in found]
        items = ", ".join(f"{one} AS {name}" for one, name in zip(said, names, strict=True))
        form = draw(st.sampled_from(IN_EXPRESSIONS))
        query = form.format(*said, items=items)
        gone = "{items}" in form or not any(f"{f}(DISTINCT" in found[0] for f in ("count", "sum", "avg"))  # two of them
    elif kind == "both":
        first, *others = found
        items = ", ".join(f"({one}) AS {name}" for one, name in zip(others, names[1:], strict=True))
        query = f"SELECT a.*, {items} FROM ({first}) a" + draw(st.sampled_from(["", ", u", " LEFT JOIN u ON u.w = 1"]))
    else:
        form = draw(st.sampled_from(list(IN_FROM)))
        if kind == "names":
            query = form.format(IN_FROM[form].join(names))
            ctes = ", ".join(f"{name} AS ({one})" for one, name in zip(found, names, strict=True))
            query = f"WITH {ctes} {query}"
        else:
            query = form.format(IN_FROM[form].join(f"({one}) {name}" for one, name in zip(found, names, strict=True)))
        if " JOIN b" in query and draw(st.booleans()):
            query = query.replace(" JOIN b", " JOIN b ON a.c0 IS NOT NULL AND b.c0 IS NOT NULL")
    return RandomQuery(t, u, draw(st.sampled_from(AROUND)).format(query), gone)


def create(session: SparkSession, t: str, u: str) -> None:
    few_rows(session, "t", t)
    few_rows(session, "u", u)


def check(session: SparkSession, query: str, *, gone: bool) -> None:
    """The rows are those of plain Spark, and the rule fired, or did not, as it should."""
    plan = Optimizer(session, OPTIONS).plan(query)
    assert_taken(session, query, plan, "merge_scalar_aggregates", taken=gone)


@given(cases())
def test_the_same_rows_as_plain_spark(session: SparkSession, share: Share, case: RandomQuery) -> None:
    create(session, case.t, case.u)
    note(f"{case.t}\n{case.u}")
    check(session, case.query, gone=share.count(case.gone))


T = (
    "SELECT CAST(k AS INT) AS k, CAST(v AS INT) AS v, s, CAST(d AS DOUBLE) AS d, CAST(m AS DECIMAL(12,2)) AS m, "
    "DATE '2026-01-01' AS e FROM VALUES (1, 2, '3', 1, 1), (1, NULL, '4', NULL, 2), (2, 5, '6', 3, NULL), "
    "(3, 7, 'x', 4, 4), (NULL, 1, NULL, 5, 5), (1, 2, '3', 1, 1) AS z(k, v, s, d, m)"
)
U = "SELECT CAST(k AS INT) AS k, CAST(w AS INT) AS w FROM VALUES (1, 2), (1, 9), (2, 3), (NULL, 4) AS z(k, w)"


@pytest.mark.parametrize("near", NEAR)
def test_every_near_miss_is_left_to_spark(session: SparkSession, near: str) -> None:
    create(session, T, U)
    check(session, near.replace("(T ", "(SELECT sum(t.v) AS c0 FROM t "), gone=False)


@pytest.mark.parametrize(
    "item",
    ["count(DISTINCT 1)", "count(DISTINCT *)", "count(DISTINCT v, s)", "count(v, s)", "count(DISTINCT v) OVER ()"],
)
def test_counts_of_more_than_one_value(session: SparkSession, item: str) -> None:
    create(session, T, U)
    values = (f"(SELECT {item} FROM t WHERE k = {k}) AS {name}" for k, name in ((1, "a"), (2, "b"), (3, "c")))
    check(session, f"SELECT {', '.join(values)}", gone=False)


@pytest.mark.parametrize("ansi", [True, False])
def test_no_error_of_rows_that_nobody_counts(session: SparkSession, ansi: bool) -> None:
    session.conf.set("spark.sql.ansi.enabled", str(ansi).lower())
    create(session, T, U)
    try:
        for first in ("CAST(s AS INT) > 0 AND k = {}", "k = {} AND CAST(s AS INT) > 0"):
            pair = (f"(SELECT count(*) FROM t WHERE k < 3 AND {first.format(k)})" for k in (1, 2))
            # A cast that comes first may raise on rows of any k; one behind k = 1 must not read those of k = 2.
            check(session, "SELECT {} AS a, {} AS b".format(*pair), gone=not ansi or first.startswith("CAST"))
    finally:
        session.conf.unset("spark.sql.ansi.enabled")
