"""Groups that a query reads several times, under other constants, are those of plain Spark, on random tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import given, note
from hypothesis import strategies as st

from comparing import assert_taken, few_rows
from optimizer import Optimizer, Options
from shares import Share, at_least

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

share = at_least(0.25)

OPTIONS = Options(strict=True, force=True)
MONTHS = {
    "INT": ("1", "2", "1 + 2", "9"),
    "STRING": ("'a'", "'b'", "'x'"),
    "DATE": ("DATE'2026-01-01'", "DATE'2026-01-02'"),
    "DECIMAL(3,1)": ("1.5", "2.5"),
    "DOUBLE": ("1D", "2D"),
}
EXACT = ("INT", "STRING", "DATE")
AGGREGATES = ("sum(v) AS s", "count(*) AS s", "max(v) AS s", "avg(v) AS s", "count(DISTINCT v) AS s")
DEFINITIONS = {
    "SELECT k, j, m, {} FROM t{} GROUP BY k, j, m": True,
    "SELECT k, j, m, {} FROM t{} GROUP BY k, j, m HAVING count(*) < 3": True,
    "SELECT k, j, m, s + 1 AS s FROM (SELECT t.k, j, m, {} FROM t{} GROUP BY t.k, m, j) g WHERE k < 3": True,
    "SELECT t.k, t.j, t.m, {} FROM t JOIN (SELECT DISTINCT k FROM t) d ON d.k = t.k{} GROUP BY t.k, t.j, t.m": True,
    "SELECT k, j, m, {} FROM (SELECT * FROM t UNION SELECT k, j, m, 1 FROM t) u{} GROUP BY k, j, m": True,
    "SELECT k, j, m, {}, rank() OVER (ORDER BY k) AS r FROM t{} GROUP BY k, j, m": False,
    "SELECT k, j, m, {} FROM t{} GROUP BY CUBE(k, j, m)": False,
    "SELECT k, j, v AS m, {} FROM t{} GROUP BY k, j, v": True,
}
BLOCKS = {
    "SELECT a.k, a.s, b.s AS other FROM g a JOIN g b ON a.k = b.k AND a.j = b.j WHERE {a} AND {b}": True,
    "SELECT a.k, a.m, a.s * b.s AS p FROM g a, g b WHERE a.k = b.k AND {a} AND {b} AND a.s > 1": True,
    "SELECT a.k, b.s + a.s AS p FROM g a JOIN g b ON a.k <=> b.k AND {a} AND {b} JOIN o ON o.k = a.k": True,
    "SELECT b.k, sum(b.s + a.s) AS p FROM g a, g b WHERE a.k = b.k AND {a} AND {b} GROUP BY b.k": True,
    "SELECT a.k, b.s + a.s AS p FROM g a LEFT JOIN g b ON a.k = b.k AND {b} WHERE {a}": False,
    "SELECT a.k, a.s FROM g a, g b WHERE a.k = b.k AND {a} AND {b} AND b.k > 0": False,
    "SELECT a.k, a.s, b.s FROM g a, g b WHERE a.k = b.j AND {a} AND {b}": False,
    "SELECT a.k, a.s FROM g a, g b WHERE a.k = b.k AND {a} AND {b}": False,
    "SELECT * FROM g a, g b WHERE a.k = b.k AND {a} AND {b}": False,
    "SELECT a.k, a.s, b.s FROM g a, g b WHERE a.k = b.k AND {a} AND {b} AND a.k IN (SELECT k FROM o)": False,
}


@dataclass(frozen=True)
class RandomQuery:
    """A table ``t(k, j, m, v)``, a query over it, and whether its groups have to be shared."""

    table: str
    query: str
    shared: bool


@st.composite
def cases(draw: st.DrawFn) -> RandomQuery:
    """Every form of a definition in every block."""
    near = draw(st.booleans())
    type_ = draw(st.sampled_from(list(MONTHS) if near else EXACT))
    small = st.sampled_from(["0", "1", "2", "NULL"])
    month = st.sampled_from([*MONTHS[type_], "NULL"])
    rows = [f"({', '.join(r)})" for r in draw(st.lists(st.tuples(small, small, month, small), max_size=12))]
    # Columns may be NULL, as max() of them is: the schema of a rewriting is that of the query.
    values, empty = ", ".join([*rows, "(NULL, NULL, NULL, NULL)"]), "" if rows else " WHERE false"
    table = (
        f"SELECT CAST(k AS INT) AS k, CAST(j AS INT) AS j, CAST(m AS {type_}) AS m, CAST(v AS INT) AS v "
        f"FROM VALUES {values} AS d(k, j, m, v){empty}"
    )
    definition, block = (
        draw(st.sampled_from([text for text, shared in texts.items() if shared or near]))
        for texts in (DEFINITIONS, BLOCKS)
    )
    of_values = " v AS m" in definition
    constants = MONTHS["INT"] if of_values else MONTHS[type_]
    one, other = draw(st.sampled_from(constants)), draw(st.sampled_from(constants))
    if one == other and not near:
        other = next(constant for constant in constants if constant != one)
    where = draw(st.sampled_from(["", " WHERE v > 0"])) if " t{}" in definition else ""
    a, b = f"a.m = {one}", draw(st.sampled_from([f"b.m = {other}", f"{other} = b.m"]))
    query = (
        f"WITH g AS ({definition.format(draw(st.sampled_from(AGGREGATES)), where)}), "
        f"o AS (SELECT 1 AS k UNION ALL SELECT 2) {block.format(a=a, b=b)}"
    )
    exact = of_values or type_ in EXACT
    return RandomQuery(table, query, DEFINITIONS[definition] and BLOCKS[block] and exact and one != other)


@given(cases())
def test_the_same_rows_as_plain_spark(session: SparkSession, share: Share, case: RandomQuery) -> None:
    few_rows(session, "t", case.table)
    note(case.table)
    plan = Optimizer(session, OPTIONS).plan(case.query)
    assert_taken(session, case.query, plan, "shared_groups", taken=share.count(case.shared))


def test_a_char_is_compared_with_blanks(session: SparkSession, tmp_path: Path) -> None:
    session.sql(f"CREATE TABLE padded (k INT, m CHAR(3), v INT) USING parquet LOCATION '{tmp_path / 'padded'}'")
    try:
        session.sql("INSERT INTO padded VALUES (1, 'a', 1), (1, 'b', 2), (2, 'a', 3), (2, 'b ', 4)")
        query = (
            "WITH g AS (SELECT k, m, sum(v) AS s FROM padded GROUP BY k, m) "
            "SELECT a.k, a.s, b.s AS other FROM g a JOIN g b ON a.k = b.k WHERE a.m = 'a' AND b.m = 'b'"
        )
        plan = Optimizer(session, OPTIONS).plan(query)
        assert not plan.rewritten
        assert plan.dataframe().count() == 2
    finally:
        session.sql("DROP TABLE padded")
