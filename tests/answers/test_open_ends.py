"""Intervals whose ends stand for none, in every type, and bins of whatever width a hint asks for."""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from comparing import assert_same, few_rows
from dovetail import Optimizer, Options
from effort import examples
from shares import Share, at_least

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

rewritten = at_least(0.6)
of_lengths = at_least(0.5)

# Of each type: how to say the number n, and what stands for no end.
TYPES: dict[str, tuple[str, tuple[str, ...]]] = {
    "INT": ("{n}", ("-2147483648", "2147483647")),
    "BIGINT": ("{n}", ("-9223372036854775808", "9223372036854775807")),
    "DECIMAL(38, 2)": ("{n}", ("-99999999999999999999999999999999999.99", "99999999999999999999999999999999999.99")),
    "FLOAT": ("{n}", ("-3.4028235e38", "3.4028235e38", "'-Infinity'", "'Infinity'", "'NaN'")),
    "DOUBLE": (
        "{n}",
        (
            *("-1.7976931348623157e308", "1.7976931348623157e308", "-1e308", "1e308", "1e300", "-9.99e299"),
            *("'-Infinity'", "'Infinity'", "'NaN'"),
        ),
    ),
    "DATE": ("DATE '2024-01-01' + {n}", ("DATE '0001-01-01'", "DATE '1900-01-01'", "DATE '9999-12-31'")),
    "TIMESTAMP": (
        "timestamp_seconds(1700000000 + 86400 * {n})",
        ("TIMESTAMP '0001-01-01'", "TIMESTAMP '1970-01-01'", "TIMESTAMP '9999-12-31 23:59:59.999999'"),
    ),
}
NUMBERS = ("INT", "BIGINT", "DECIMAL(38, 2)", "FLOAT", "DOUBLE", "DATE")
QUERIES = (
    "SELECT {h} p.id, i.id AS i FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi",
    "SELECT {h} p.id, i.id AS i FROM p LEFT JOIN i ON p.x BETWEEN i.lo AND i.hi",
    "SELECT {h} p.id, i.id AS i FROM p RIGHT JOIN i ON p.x >= i.lo AND p.x < i.hi",
    "SELECT {h} p.id FROM p LEFT ANTI JOIN i ON p.x BETWEEN i.lo AND i.hi",
    "SELECT {h} i.id, b.id AS b FROM i JOIN i b ON i.lo <= b.hi AND b.lo <= i.hi",
    "SELECT {h} i.id, count(*) AS n FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi GROUP BY i.id",
    "SELECT {h} p.id, count(*) AS n FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi GROUP BY p.id",
)
LOW = ("{x} >= i.lo", "({x} > i.lo OR i.lo IS NULL)", "(i.lo IS NULL OR i.lo <= {x})", "({x} IS NULL OR {x} >= i.lo)")
HIGH = ("{x} < i.hi", "({x} < i.hi OR i.hi IS NULL)", "(isnull(i.hi) OR {x} <= i.hi)", "(i.hi >= {x} OR {x} IS NULL)")
JOINS = ("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
OF_NUMBERS = (
    "SELECT {h} p.id, i.id AS i FROM p JOIN i ON p.x BETWEEN i.lo - {c} AND i.hi + {c}",
    "SELECT {h} p.id, i.id AS i FROM p JOIN i ON p.x BETWEEN i.lo - {c} AND i.lo + {c}",
    "SELECT {h} p.id, i.id AS i FROM p LEFT JOIN i ON abs(p.x - i.lo) <= {c}",
)
# Spark subtracts a point where bins subtract a length, so other infinities meet and are NaN.
OF_LENGTHS = (
    "SELECT p.id, i.id AS i FROM p JOIN i ON i.lo - p.x <= i.hi AND p.x <= i.hi",
    "SELECT p.id, i.id AS i FROM p LEFT JOIN i ON p.x - i.lo <= i.hi AND p.x > i.lo",
    "SELECT p.id, i.id AS i FROM p JOIN i ON abs(p.x - i.lo) <= i.hi",
    "SELECT p.id, i.id AS i FROM p FULL JOIN i ON abs(i.hi - p.x) <= i.lo",
    "SELECT p.id FROM p LEFT ANTI JOIN i ON abs(p.x - i.lo) <= CAST('Infinity' AS DOUBLE)",
    "SELECT p.id, i.id AS i FROM p JOIN i ON p.x <= i.lo AND i.lo - p.x - i.hi <= i.hi",
    "SELECT i.id, b.id AS b FROM i JOIN i b ON i.lo - b.hi <= i.hi AND b.lo - i.hi <= b.hi",
    "SELECT i.id, count(*) AS n FROM p JOIN i ON i.lo - p.x <= i.hi AND p.x <= i.hi GROUP BY i.id",
)
CONSTANTS = ("3", "1e30D", "1e308D", "1.7976931348623157e308D")
WIDTHS = ("0.0005", "0.000000000001", "1e-300D", "1", "2", "7.5", "1000000000000000000", "1e30D", "1e300D")


@st.composite
def queries_with_nulls(draw: st.DrawFn) -> str:
    """A join of which NULL passes some comparisons, with a point or an interval of either side."""
    join, kept = draw(st.sampled_from(JOINS)), ""
    if draw(st.booleans()):
        low, high = (draw(st.sampled_from(some)).format(x="p.x") for some in (LOW, HIGH))
        left = draw(st.booleans())
        sides, of = ("p", "i") if left else ("i", "p"), "p.id, i.id AS i"
        kept = "p.id" if left else "i.id"
        condition = f"{low} AND {high}"
    else:
        first, last = (draw(st.sampled_from(HIGH)) for _ in range(2))
        condition = f"{first.format(x='b.lo')} AND {last.replace('i.', 'b.').format(x='i.lo')}"
        sides, of, kept = ("i", "i b"), "i.id, b.id AS b", "i.id"
    columns = kept if "SEMI" in join or "ANTI" in join else of
    return f"SELECT {{h}} {columns} FROM {sides[0]} {join} {sides[1]} ON {condition}"


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, str, str, list[str], list[tuple[str, str]]]:
    """The types of ends and of points, a query, positions of points, and ends of intervals."""
    type_ = draw(st.sampled_from(sorted(TYPES)))
    of_points = draw(st.sampled_from((type_, "TIMESTAMP"))) if type_ == "DATE" else type_
    form, without = TYPES[type_]
    some = st.integers(0, 60).map(lambda n: form.format(n=n))
    no_end = st.sampled_from((*without, "NULL"))
    ends = draw(st.sampled_from((st.tuples(some, no_end), st.tuples(no_end, some), st.tuples(no_end, no_end))))
    intervals = draw(st.lists(st.tuples(some, some), min_size=1, max_size=8)) + draw(st.lists(ends, max_size=6))
    points = draw(st.lists(st.one_of(some, some, no_end), min_size=1, max_size=12))
    reals = type_ in ("FLOAT", "DOUBLE")
    query = draw(st.one_of(st.sampled_from((*QUERIES, *OF_NUMBERS) if reals else QUERIES), queries_with_nulls()))
    hint = ""
    if of_points in NUMBERS and draw(st.booleans()):
        hint = f"/*+ RANGE_JOIN(i, {draw(st.sampled_from(WIDTHS))}) */"
    return type_, of_points, query.format(h=hint, c=draw(st.sampled_from(CONSTANTS))), points, intervals


@settings(max_examples=examples(1 / 3))
@given(case=cases(), generic_plan=st.sampled_from((False, False, True)))
def test_ends_that_stand_for_none(session: SparkSession, rewritten: Share, case: Any, generic_plan: bool) -> None:
    type_, of_points, query, points, intervals = case
    x = ", ".join(f"({n}, CAST({at} AS {of_points}))" for n, at in enumerate(points))
    ends = ", ".join(f"({n}, CAST({lo} AS {type_}), CAST({hi} AS {type_}))" for n, (lo, hi) in enumerate(intervals))
    few_rows(session, "p", f"SELECT * FROM VALUES {x} AS t(id, x)")
    few_rows(session, "i", f"SELECT * FROM VALUES {ends} AS t(id, lo, hi)")
    options = Options(
        nested_loop_pairs=0, broadcast_pairs=0, running_sum_matches=0.5, generic_plan=generic_plan, strict=True
    )
    plan = Optimizer(session, options).plan(query)
    note(f"{query}\n{plan.sql()}\n{plan.explain('cost')}")
    rewritten.count(plan.rewritten)
    assert not re.search(r"(?i)\b(inf|nan)D?\b|\d{40}", plan.explain("cost") + plan.sql())
    assert_same(session, query, plan)


REALS = st.sampled_from(("0", "-1.5", "7", "NULL", "1.7e308", "-1.7e308", "'Infinity'", "'-Infinity'", "'NaN'"))


@settings(max_examples=examples(1 / 3))
@given(
    st.sampled_from(OF_LENGTHS),
    st.sampled_from(("FLOAT", "DOUBLE", "DOUBLE")),
    st.lists(REALS, min_size=1, max_size=9),
    st.lists(st.tuples(REALS, REALS), min_size=1, max_size=12),
)
def test_lengths_that_are_infinite(
    session: SparkSession,
    of_lengths: Share,
    query: str,
    type_: str,
    points: list[str],
    intervals: list[tuple[str, str]],
) -> None:
    type_ = "DOUBLE" if any("308" in text for text in (*points, *chain(*intervals))) else type_
    x = ", ".join(f"({n}, CAST({at} AS {type_}))" for n, at in enumerate(points))
    ends = ", ".join(f"({n}, CAST({lo} AS {type_}), CAST({hi} AS {type_}))" for n, (lo, hi) in enumerate(intervals))
    few_rows(session, "p", f"SELECT * FROM VALUES {x} AS t(id, x)")
    few_rows(session, "i", f"SELECT * FROM VALUES {ends} AS t(id, lo, hi)")
    plan = Optimizer(session, Options(nested_loop_pairs=0, broadcast_pairs=0, strict=True)).plan(query)
    note(f"{query}\n{plan.sql()}\n{plan.explain('cost')}")
    of_lengths.count(plan.rewritten)
    assert_same(session, query, plan)


# Each moves a point or an end across the comparison; NaN, negated, is still greater than anything.
NEGATED = (
    "-n.z BETWEEN i.lo AND i.hi",
    "-n.z > i.lo AND -n.z < i.hi",
    "10 - n.z BETWEEN i.lo AND i.hi",
    "-(n.z + 1) BETWEEN i.lo AND i.hi",
    "try_subtract(1, n.z) BETWEEN i.lo AND i.hi",
    "-n.f BETWEEN i.lo AND i.hi",
    "n.z >= i.lo AND -n.z >= -i.hi",
    "n.z BETWEEN -i.hi AND -i.lo",
    "n.z BETWEEN 1 - i.hi AND 1 - i.lo",
)


@pytest.mark.parametrize("condition", NEGATED)
def test_negated_reals(session: SparkSession, condition: str) -> None:
    values = "(1, '-1'), (2, '0'), (3, '1'), (4, 'Infinity'), (5, '-Infinity'), (6, 'NaN'), (7, NULL), (8, '2')"
    few_rows(session, "n", f"SELECT id, CAST(z AS DOUBLE) AS z, CAST(z AS FLOAT) AS f FROM VALUES {values} AS v(id, z)")
    ends = """(1, '0', '1'), (2, '0', 'NaN'), (3, '-Infinity', 'NaN'), (4, 'Infinity', 'NaN'), (5, 'NaN', 'NaN'),
    (6, '-Infinity', 'Infinity'), (7, '-Infinity', '-Infinity'), (8, 'Infinity', 'Infinity'), (9, '-2', '0'),
    (10, '0', 'Infinity'), (11, '-Infinity', '0'), (12, 'NaN', '1'), (13, NULL, 'NaN')"""
    items = "id AS k, CAST(a AS DOUBLE) AS lo, CAST(b AS DOUBLE) AS hi"
    few_rows(session, "i", f"SELECT {items} FROM VALUES {ends} AS v(id, a, b)")
    optimizer = Optimizer(session, Options(force=True, strict=True))
    for query in (
        f"SELECT n.id, i.k FROM n FULL JOIN i ON {condition}",
        f"SELECT n.id FROM n LEFT ANTI JOIN i ON {condition}",
        f"SELECT i.k, count(*) AS c, sum(n.id) AS s, max(n.z) AS m FROM n JOIN i ON {condition} GROUP BY i.k",
    ):
        assert_same(session, query, optimizer.plan(query))
