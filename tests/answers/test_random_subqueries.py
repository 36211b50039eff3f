"""EXISTS, IN and LATERAL, made joins, return what plain Spark returns for them, on random tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import event, given, note
from hypothesis import strategies as st

from comparing import assert_same, few_rows
from dovetail import Optimizer, Options
from shares import Share, at_least

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

share = at_least(0.8)

OPTIONS = (
    Options(force=True, strict=True),
    Options(force=True, strict=True, measure_lengths=False),
)
TYPES = ("INT", "BIGINT", "DOUBLE", "DECIMAL(8,2)")


@dataclass(frozen=True)
class RandomQuery:
    """Two tables as SELECTs, ``p(k, x, v)`` and ``i(k, lo, hi, w)``, and a query over them."""

    points: str
    intervals: str
    query: str


@st.composite
def tables(draw: st.DrawFn) -> tuple[str, str]:
    """Tables with duplicates, NULLs anywhere, ends in the wrong order; now and then an empty one."""
    type_ = draw(st.sampled_from(TYPES))
    number = st.one_of(st.integers(-3, 14).map(str), st.just("NULL"))
    key = st.sampled_from(["1", "2", "3", "NULL"])

    def table(names: str, columns: int) -> str:
        rows = draw(st.lists(st.tuples(key, *[number] * columns, key), min_size=1, max_size=12))
        values = ", ".join(f"({', '.join(r)})" for r in rows)
        first, *middle, last = names.split()
        items = [f"CAST({first} AS INT) AS {first}", *(f"CAST({m} AS {type_}) AS {m}" for m in middle)]
        empty = draw(st.sampled_from(["", "", "", "", " WHERE false"]))
        items.append(f"CAST({last} AS INT) AS {last}")
        return f"SELECT {', '.join(items)} FROM VALUES {values} AS t({', '.join(names.split())}){empty}"

    return table("k x v", 1), table("k lo hi w", 2)


@st.composite
def subqueries(draw: st.DrawFn) -> RandomQuery:
    """A query whose subquery keeps a band to the query around it."""
    points, intervals = draw(tables())
    a, b = draw(st.integers(0, 6)), draw(st.integers(0, 6))
    interval = st.sampled_from(
        ["p.x BETWEEN i.lo AND i.hi", "p.x >= lo AND p.x < hi", "x > i.lo AND i.hi >= x", "i.lo <= p.x AND p.x <= i.hi"]
    )
    distance = st.sampled_from(
        [f"p.x BETWEEN i.lo - {a} AND i.lo + {b}", f"abs(p.x - i.lo) <= {a}", f"i.lo - {a} < p.x AND x < i.lo + {b}"]
    )
    extras = draw(st.lists(st.sampled_from(["i.k = p.k", "w > 1", "p.v <> i.w", "(i.w = 1 OR p.k = 2)"]), max_size=2))
    band = " AND ".join([draw(st.one_of(interval, distance)), *extras])
    inside = draw(st.sampled_from(["i", "i", "(SELECT * FROM i WHERE w < 3) i", "i JOIN p AS q ON q.v = i.w"]))
    test = draw(
        st.sampled_from(
            [
                f"EXISTS (SELECT 1 FROM {inside} WHERE {band})",
                f"NOT EXISTS (SELECT * FROM {inside} WHERE {band})",
                f"NOT (EXISTS (SELECT i.w FROM {inside} WHERE {band} LIMIT 1))",
                f"p.k IN (SELECT i.k FROM {inside} WHERE {band})",
                f"p.k NOT IN (SELECT i.k FROM {inside} WHERE {band})",
                f"NOT v IN (SELECT DISTINCT w FROM {inside} WHERE {band})",
                f"p.v + 1 NOT IN (SELECT i.w + i.k FROM {inside} WHERE {band})",
                f"p.x NOT IN (SELECT i.lo FROM {inside} WHERE {band})",
                f"1 IN (SELECT w FROM {inside} WHERE {band})",
                f"NULL NOT IN (SELECT w FROM {inside} WHERE {band})",
            ]
        )
    )
    second = draw(
        st.sampled_from(["", "", " AND p.v > 1", f" AND EXISTS (SELECT 1 FROM p AS r WHERE abs(r.x - p.x) < {b})"])
    )
    shown = draw(
        st.sampled_from(["i.*", "i.k, i.lo, i.hi, i.w AS v", "w, hi, lo, k", "i.lo AS hi, i.hi AS lo, k, w, 1 AS one"])
    )
    where = band.replace("w > 1", "i.w > 1")
    forms = [
        *[f"SELECT * FROM p WHERE {test}{second}"] * 3,
        f"SELECT p.k, count(*) FROM p WHERE {test} GROUP BY p.k",
        f"SELECT p.x FROM p, (SELECT DISTINCT k AS j FROM i) u WHERE u.j = p.k AND {test}",
        f"SELECT p.x FROM p LEFT JOIN (SELECT k AS j FROM i) u ON u.j = p.k WHERE {test}{second}",
        f"SELECT p.v FROM p WHERE {test} UNION ALL SELECT p.k FROM p",
        f"SELECT p.v, t.lo, t.hi FROM p, LATERAL (SELECT {shown} FROM i WHERE {where}) AS t",
        f"SELECT * FROM p CROSS JOIN LATERAL (SELECT {shown} FROM i WHERE {where}) t",
        f"SELECT * FROM p LEFT JOIN LATERAL (SELECT {shown} FROM i WHERE {where}) t ON true",
        f"SELECT * FROM p LEFT JOIN LATERAL (SELECT {shown} FROM i WHERE {where}) t ON t.k = p.v",
        "SELECT * FROM p JOIN LATERAL (SELECT k, lo, hi FROM i WHERE k = p.k) AS t(a, b, c) ON p.x BETWEEN b AND c",
        f"SELECT p.x, t.lo FROM p JOIN LATERAL (SELECT i.lo, i.hi, i.k, i.w FROM i WHERE {where}) t WHERE {test}",
        f"SELECT p.v, t.* FROM p, LATERAL (SELECT count(*) AS n, sum(i.w) AS s, max(i.lo) AS m FROM i WHERE {where}) t",
        f"SELECT * FROM p LEFT JOIN LATERAL (SELECT i.w, coalesce(p.v - i.w, 7) AS d FROM i WHERE {where}) t",
        f"SELECT p.*, t.z FROM p JOIN LATERAL (SELECT w z, i.hi + 1 AS h FROM i WHERE {where}) t ON t.h > p.k OR z = 1",
        "SELECT * FROM p JOIN LATERAL (SELECT lo AS a, hi AS b FROM i WHERE i.k = p.k) t ON p.x BETWEEN a AND t.b",
        (
            "SELECT p.x, t.*, sort_array(c) AS o FROM p, LATERAL (SELECT array_sort(collect_list(i.w)) AS c, "
            f"bool_or(i.w > 1) AS f, min_by(i.lo, i.lo) AS m FROM i WHERE {where}) t"
        ),
        (
            f"SELECT p.x, (SELECT collect_set(i.w) FROM i WHERE {where} AND i.w = 1) AS c, "
            f"(SELECT count(*) FILTER (WHERE i.w > 1) FROM i WHERE {where}) AS n FROM p"
        ),
        (
            f"SELECT * FROM p LEFT JOIN LATERAL (SELECT count(i.w) + 1 FROM i WHERE {where}) t(n) ON t.n > 1 "
            f"JOIN LATERAL (SELECT min(hi) AS h FROM i WHERE {where}) u WHERE p.v > 0"
        ),
        (
            "SELECT p.k, sum(t.n) AS n FROM p JOIN (SELECT DISTINCT k AS j FROM i) g ON g.j = p.k, "
            f"LATERAL (SELECT count(*) AS n FROM i WHERE {where}) t GROUP BY p.k"
        ),
        (
            f"SELECT p.x, t.n, g.w FROM p JOIN LATERAL (SELECT count(*) AS n FROM i WHERE {where}) t "
            "FULL JOIN i g ON g.k = t.n WHERE p.x IS NULL OR p.x > 1"
        ),
        (
            f"SELECT p.x, (SELECT count(*) FROM i WHERE {where}) AS n, t.h FROM p, "
            f"LATERAL (SELECT min(hi) AS h FROM i WHERE {where}) t WHERE p.v > 0"
        ),
    ]
    return RandomQuery(points, intervals, draw(st.sampled_from(forms)))


@pytest.mark.hypothesis
@given(subqueries(), st.sampled_from(OPTIONS), st.booleans())
def test_the_same_rows_as_plain_spark(
    session: SparkSession, share: Share, case: RandomQuery, options: Options, ansi: bool
) -> None:
    session.conf.set("spark.sql.ansi.enabled", str(ansi).lower())
    few_rows(session, "p", case.points)
    few_rows(session, "i", case.intervals)
    note(case.points)
    note(case.intervals)
    note(case.query)
    plan = Optimizer(session, options).plan(case.query)
    note(plan.sql())
    event(f"rewritten {plan.rewritten}, by {', '.join(plan.rules)}")
    if not share.count(plan.rewritten):
        return
    assert_same(session, case.query, plan)
