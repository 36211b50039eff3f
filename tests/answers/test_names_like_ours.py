"""Columns and aliases that are named like those that rewritings add, and divisors that are written down in any form."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from sqlglot import exp

from comparing import Raised, assert_same, few_rows, returned
from dovetail import Optimizer, Options
from dovetail.planner.expr import Scalar
from dovetail.planner.types.schema import SqlType, sql_type
from dovetail.planner.types.try_expressions import can_raise
from effort import examples
from shares import Share, at_least

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

rewritten = at_least(0.8)

NAMES = (
    *(f"__dt{n}" for n in (1, 2, 3)),
    *(f"__dt{n}_{of}" for n in (1, 2, 3) for of in ("bin", "width", "end", "at", "cell", "v1")),
    *("__DT1_BIN", "__dt", "__dt_w1", "__dt_c1", "__dt_j1", "__dt_count", "__dt_rows1", "__dt_row2", "__dt_total1"),
)
QUERIES = (
    "SELECT * FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi",
    "SELECT p.*, i.w FROM p LEFT JOIN i ON p.x BETWEEN i.lo AND i.hi",
    "SELECT `{n}`, i.w FROM p JOIN i ON abs(p.x - i.lo) <= 2",
    "SELECT a.w, b.* FROM i a JOIN i b ON a.lo <= b.hi AND b.lo <= a.hi",
    "SELECT i.w, count(*) AS `{n}` FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi GROUP BY i.w",
    "SELECT i.w, max(p.`{n}`) AS m FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi GROUP BY i.w",
    "SELECT * FROM p AS `{n}` JOIN i ON `{n}`.x BETWEEN i.lo AND i.hi",
    "WITH `{n}` AS (SELECT * FROM p) SELECT * FROM `{n}` p FULL JOIN i ON p.x BETWEEN i.lo AND i.hi",
    "SELECT x.*, (SELECT avg(y.x) FROM p y WHERE y.k = x.k) AS m FROM p x",
    "SELECT x.id, x.`{n}` FROM p x WHERE x.x > (SELECT avg(y.x) FROM p y WHERE y.k = x.k)",
    "SELECT p.* FROM p LEFT SEMI JOIN i ON p.x BETWEEN i.lo AND i.hi",
    "SELECT * FROM shown JOIN i ON shown.x BETWEEN i.lo AND i.hi",
)


@settings(max_examples=examples(1 / 4))
@given(
    names=st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique_by=str.lower),
    of_intervals=st.lists(st.sampled_from(NAMES), max_size=3, unique_by=str.lower),
    query=st.sampled_from(QUERIES),
)
def test_names_that_begin_like_ours(
    session: SparkSession, rewritten: Share, names: list[str], of_intervals: list[str], query: str
) -> None:
    more = "".join(f", id + {n} AS `{name}`" for n, name in enumerate(names))
    other = "".join(
        f", id + {n} AS `{name}`" for n, name in enumerate(of_intervals) if name.lower() != names[0].lower()
    )
    few_rows(session, "p", f"SELECT id, id % 3 AS k, id * 7 % 20 AS x{more} FROM range(12)")
    few_rows(session, "i", f"SELECT id AS w, id * 3 AS lo, id * 3 + 4 AS hi{other} FROM range(6)")
    session.sql("CREATE OR REPLACE TEMP VIEW shown AS SELECT p.x, i.w FROM p JOIN i ON p.x >= i.lo AND p.x < i.hi")
    text = query.format(n=names[0])
    plan = Optimizer(session, Options(force=True, strict=True)).plan(text)
    note(f"{text}\n{plan.sql()}\n{plan.declined}")
    rewritten.count(plan.rewritten)
    assert not any(d.rule == "schema check" for d in plan.declined)
    assert_same(session, text, plan)


DIVISORS = "5 5L 5S 5Y 5BD 5D 5F 5.0 5e0 -5 -5L (5) (5L) -(5) (-5L) 5+0 (5+0) (2*3) 0.5BD 1 -1 -1L 2147483648".split()
LEAST = {
    "TINYINT": (-(2**7), 2**7 - 1),
    "SMALLINT": (-(2**15), 2**15 - 1),
    "INT": (-(2**31), 2**31 - 1),
    "BIGINT": (-(2**63), 2**63 - 1),
}


def safe(text: str, type_: str) -> bool:
    return not can_raise(Scalar(text), lambda tree: _type(tree, type_), ansi=True)


def _type(tree: Any, type_: str) -> SqlType | None:
    """The types of ``x`` and of plain literals, as a catalog tells them."""
    if not isinstance(tree, exp.Literal):
        return sql_type(type_.lower()) if tree.name == "x" else None
    if tree.is_int:
        return sql_type("int" if int(tree.name) < 2**31 else "bigint")
    return sql_type("double" if "e" in tree.name.lower() else "decimal(3,1)")


@pytest.mark.parametrize("type_", LEAST)
def test_a_divisor_that_is_written_down(session: SparkSession, type_: str) -> None:
    """What is taken not to raise does not, for the least and the greatest number; and no form is left out."""
    few_rows(session, "t", " UNION ALL ".join(f"SELECT CAST('{n}' AS {type_}) AS x" for n in (*LEAST[type_], 0, 7)))
    texts = [f"x % {d}" if "+" not in d or d.startswith("(") else f"x % ({d})" for d in DIVISORS]
    texts += [t.replace("%", "DIV") for t in texts]
    taken = [t for t in texts if safe(t, type_)]
    assert len(session.sql(f"SELECT {', '.join(taken)} FROM t").collect()) == 4
    assert not [t for t in texts if "%" in t and t not in taken]
    whole = [t for t in texts if "DIV" in t and not any(mark in t for mark in ("BD", "D ", "5D", "F", ".", "e", "-1"))]
    assert not [t for t in whole if t not in taken]


@pytest.mark.parametrize("zero", ["0", "0L", "-0", "(0)", "1-1", "0BD", "0D", "0e0", "0.0", "1e-400D", "1e-60F", "k"])
def test_a_divisor_that_may_be_zero(zero: str) -> None:
    assert not safe(f"x % ({zero})", "INT")
    assert not safe(f"x DIV ({zero})", "INT")


MOMENTS = ("'2026-01-31'", "'2026-01-31 23:59:59'", "'0001-01-01'", "'9999-12-31'", "'2026-02-30'", "'31.1.2026'", "''")
COMPARISONS = (
    "x = {0}", "{0} <=> x", "x BETWEEN {0} AND '2026-03-01'", "x < {0} OR x > {0}", "x IN ({0}, '2027-01-01')",
    "x BETWEEN {0} AND DATE'2026-03-01'", "NOT x <> {0}",
)  # fmt: skip


@pytest.mark.parametrize("type_", ["DATE", "TIMESTAMP", "TIMESTAMP_NTZ"])
def test_a_day_that_is_written_down(session: SparkSession, type_: str) -> None:
    """A comparison with a text that Spark can read as a time does not raise, on any time; with another one it may."""
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    values = ("'0001-01-01'", "'2026-01-31'", "'9999-12-31 23:59:59'", "'2024-11-03 01:30:00'", "NULL")
    few_rows(session, "t", " UNION ALL ".join(f"SELECT CAST({value} AS {type_}) AS x" for value in values))
    texts = {(c, m): c.format(m) for c in COMPARISONS for m in MOMENTS}
    taken = [(c, m) for (c, m), text in texts.items() if safe(text, type_)]
    assert len(session.sql(f"SELECT {', '.join(texts[one] for one in taken)} FROM t").collect()) == len(values)
    assert {m for _, m in taken} == set(MOMENTS[:4])
    alone = [c for c in COMPARISONS if "DATE" not in c]
    assert all((c, m) in taken for c in alone for m in MOMENTS[:4])


@pytest.mark.parametrize(("digits", "taken"), [(34, True), (35, False), (38, False)])
def test_the_sign_of_a_wide_decimal(session: SparkSession, digits: int, taken: bool) -> None:
    """Spark raises an error where it rounds a negated decimal to 34 digits, and that does not fit."""
    few_rows(session, "t", f"SELECT CAST(-{'9' * digits} AS DECIMAL({digits},0)) AS x")
    for text in ("-x", "abs(x)"):
        assert safe(text, f"DECIMAL({digits},0)") == taken
        found = returned(partial(session.sql, f"SELECT {text} AS y FROM t"))
        assert isinstance(found.rows, Raised) != taken
