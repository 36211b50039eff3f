"""EXISTS and IN over pairs of rows that differ return what plain Spark returns for them, on random tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import given, note
from hypothesis import strategies as st

from comparing import assert_taken, few_rows
from optimizer import Optimizer, Options
from shares import Share, at_least

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

share = at_least(0.25)

OPTIONS = Options(strict=True)
TYPES = {
    "INT": ["0", "1", "2", "NULL"],
    "DOUBLE": ["0D", "-0D", "double('NaN')", "1.5D", "double('-inf')", "NULL"],
    "STRING": ["'a'", "'b'", "''", "'A'", "NULL"],
    "DATE": ["DATE'2026-01-01'", "DATE'2026-01-02'", "NULL"],
    "DECIMAL(5,1)": ["0.0", "1.5", "-2.5", "NULL"],
}
KEYS = ("a.k = b.k", "b.k = a.k", "a.k = b.k AND a.j = b.j")
DIFFER = ("a.w <> b.w", "b.w != a.w", "a.w < b.w", "b.w < a.w", "a.w > b.w", "NOT a.w = b.w")
FILTERS = {
    "": True,
    " AND a.v > 0 AND b.v > 0": True,
    " AND a.k IS NOT NULL": True,
    " AND b.k IN (SELECT 1)": False,
    " AND a.v > 0": False,
    " AND a.v > b.v": False,
    " AND a.v + b.v > 1": False,
    " AND coalesce(a.v, 1) = 1 AND coalesce(b.v, 1) = 1": True,
}
FORMS = {
    "o.k IN (SELECT a.k FROM {from_} {where})": True,
    "o.k NOT IN (SELECT b.k FROM {from_} {where})": True,
    "EXISTS (SELECT * FROM {from_} {where} AND o.k = a.k)": True,
    "NOT EXISTS (SELECT 1 FROM {from_} {where} AND b.k = o.k AND o.j > 0)": True,
    "o.k IN (SELECT p.k FROM (SELECT a.k, a.w AS x, b.w AS y FROM {from_} {where}) p)": True,
    "o.k IN (SELECT p.z FROM (SELECT a.k AS z, b.w AS y FROM {from_} {where}) p, o o2 WHERE o2.k = p.z)": True,
    "EXISTS (SELECT p.z FROM (SELECT b.k AS z, b.w AS y FROM {from_} {where}) p LEFT JOIN o o2 ON o2.j = 1 "
    "WHERE p.z = o.k)": True,
    "o.k IN (SELECT a.w FROM {from_} {where})": False,
    "o.k IN (SELECT count(*) FROM {from_} {where})": False,
    "o.k IN (SELECT a.k FROM {from_} {where} GROUP BY a.k HAVING count(*) > 2)": False,
    "EXISTS (SELECT 1 FROM (SELECT a.k AS z, b.w AS y FROM {from_} {where}) p WHERE p.z = o.k AND p.y > 0)": False,
    "o.j > 0 OR o.k IN (SELECT a.k FROM {from_} {where})": False,
}


@dataclass(frozen=True)
class RandomQuery:
    """A table ``t(k, j, w, v)``, a table ``o(k, j)``, a query over them, and whether the pairs have to go."""

    tables: tuple[str, str]
    query: str
    gone: bool


@st.composite
def cases(draw: st.DrawFn) -> RandomQuery:
    """Every form, with keys and differences of every type."""
    key, other = draw(st.sampled_from(list(TYPES))), draw(st.sampled_from(list(TYPES)))
    small = st.sampled_from(["0", "1", "2", "NULL"])
    row = st.tuples(st.sampled_from(TYPES[key]), small, st.sampled_from(TYPES[other]), small)
    rows = [f"({', '.join(r)})" for r in draw(st.lists(row, max_size=9))]
    values, empty = ", ".join(rows) or "(NULL, NULL, NULL, NULL)", "" if rows else " WHERE false"
    t = (
        f"SELECT CAST(k AS {key}) AS k, CAST(j AS INT) AS j, CAST(w AS {other}) AS w, CAST(v AS INT) AS v "
        f"FROM VALUES {values} AS d(k, j, w, v){empty}"
    )
    asked = ", ".join(f"({k}, {draw(small)})" for k in TYPES[key])
    o = f"SELECT CAST(k AS {key}) AS k, CAST(j AS INT) AS j FROM VALUES {asked} AS d(k, j)"
    keys, differ = draw(st.sampled_from(KEYS)), draw(st.sampled_from(DIFFER))
    filters = draw(st.sampled_from([*FILTERS, "", ""]))
    form = draw(st.sampled_from(list(FORMS)))
    from_, where = draw(st.sampled_from([("t a, t b", "WHERE {}"), ("t a JOIN t b ON {}", "WHERE true")]))
    said = keys + " AND " + differ + filters
    test = form.format(from_=from_.format(said), where=where.format(said))
    query = f"SELECT o.k, o.j FROM o WHERE {test}"
    gone = FORMS[form] and FILTERS[filters] and key != "DOUBLE"
    return RandomQuery((t, o), query, gone)


@given(cases())
def test_the_same_rows_as_plain_spark(session: SparkSession, share: Share, case: RandomQuery) -> None:
    for name, table in zip("to", case.tables, strict=True):
        few_rows(session, name, table)
    note(str(case.tables))
    plan = Optimizer(session, OPTIONS).plan(case.query)
    assert_taken(session, case.query, plan, "self_pairs", taken=share.count(case.gone))
