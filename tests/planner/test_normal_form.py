"""The normal form of conditions: which conjuncts come out, and that it is reached in one step."""

from __future__ import annotations

import pytest

from dovetail.planner.conditions.normal_form import normal_form
from dovetail.planner.errors import Place
from dovetail.planner.expr import Scalar
from dovetail.planner.logical import Verbatim
from dovetail.planner.sql.to_sql import as_written

CASES = {
    "(a.k = b.k AND a.x BETWEEN b.lo AND b.hi)": ["a.k = b.k", "a.x BETWEEN b.lo AND b.hi"],
    "((a.x) >= (b.lo)) AND ((a.x <= b.hi))": ["a.x >= b.lo", "a.x <= b.hi"],
    "NOT (p.x < i.lo OR p.x > i.hi)": ["p.x >= i.lo", "p.x <= i.hi"],
    "NOT (p.x < i.lo) AND NOT (p.x > i.hi)": ["p.x >= i.lo", "p.x <= i.hi"],
    "NOT (x NOT BETWEEN lo AND hi)": ["x BETWEEN lo AND hi"],
    "NOT (x BETWEEN lo AND hi)": ["x NOT BETWEEN lo AND hi"],
    "NOT NOT a = b": ["a = b"],
    "NOT (a != b)": ["a = b"],
    "! (a < b)": ["a >= b"],
    "NOT (a IN (1, 2) OR s LIKE 'x%' OR NOT f(c))": ["a NOT IN (1, 2)", "s NOT LIKE 'x%'", "f(c)"],
    "NOT (a IS NULL OR b IS NOT NULL)": ["a IS NOT NULL", "b IS NULL"],
    "NOT (a AND (b OR c))": ["(NOT a OR NOT b AND NOT c)"],
    "a < b OR a = b": ["a <= b"],
    "(b > a) OR (a = b)": ["b >= a"],
    "(x.id = y.id AND p) OR (y.id = x.id AND q AND r)": ["x.id = y.id", "(p OR q AND r)"],
    "x.id = y.id OR x.id = y.id AND p": ["x.id = y.id"],
    "(e IS NULL AND t >= s) OR t BETWEEN s AND e": ["t >= s", "(e IS NULL OR t <= e)"],
    "t BETWEEN s AND e OR (s <= t AND q)": ["t >= s", "(t <= e OR q)"],
    "t BETWEEN s AND e OR (r <= t AND q)": ["t BETWEEN s AND e OR (r <= t AND q)"],
    "f(t) BETWEEN s AND e OR (f(t) >= s AND q)": ["f(t) BETWEEN s AND e OR (f(t) >= s AND q)"],
    "a AND TRUE": ["a"],
    "(a = 1 OR FALSE) AND 1 = 1": ["a = 1"],
    "a OR TRUE": [],
    "TRUE": [],
    "(c = 1) = TRUE": ["c = 1"],
    "TRUE = (c = 1)": ["c = 1"],
    "(c = 1) = FALSE": ["c <> 1"],
    "c = 1 IS TRUE": ["c = 1"],
    "a = b = TRUE": ["a = b"],
    "a < b = FALSE": ["a >= b"],
    "NOT (c = 1) IS NOT TRUE": ["c = 1"],
    "coalesce(a > b, FALSE)": ["a > b"],
    "CASE WHEN a > b THEN TRUE ELSE FALSE END": ["a > b"],
    "if(a > b, TRUE, FALSE)": ["a > b"],
    "CASE WHEN a > b THEN 1 ELSE 0 END = 1": ["a > b"],
    "1 = if(a > b, 1, 0)": ["a > b"],
    "CASE WHEN e IS NULL THEN t >= s ELSE t BETWEEN s AND e END": ["t >= s", "(e IS NULL OR t <= e)"],
    "if(c, t >= s, t >= s AND t < e)": ["t >= s", "(c OR t < e)"],
    "CASE WHEN e IS NOT NULL THEN t >= s AND t < e ELSE t >= s END": ["t >= s", "(e IS NULL OR t < e)"],
    "(e IS NULL AND t >= s) OR (e IS NOT NULL AND t BETWEEN s AND e)": ["t >= s", "(e IS NULL OR t <= e)"],
    "(x.id, 1) = (y.id, 1)": ["x.id <=> y.id"],
    "NOT (a.c IS NULL) = (b.c IS NULL)": ["(a.c IS NULL) <> (b.c IS NULL)"],
    "(a.x) < (b.x) AND (a.c) = (b.c IS NULL)": ["a.x < b.x", "a.c = (b.c IS NULL)"],
    "a.x < b.x AND (NOT a.c) = (b.c)": ["a.x < b.x", "(NOT a.c) = b.c"],
}

TOGETHER = {
    "a.id <=> b.id AND a.id IS NOT NULL": ["a.id = b.id", "a.id IS NOT NULL"],
    "b.id is not null and (a.id <=> b.id)": ["b.id is not null", "a.id = b.id"],
    "a.id <=> b.id AND a.k IS NOT NULL": ["a.id <=> b.id", "a.k IS NOT NULL"],
}

KEPT = (
    "a = b",
    "(c = 1) IS NOT FALSE",
    "c IS NOT TRUE",
    "flag = TRUE",  # a text would be cast
    "NOT coalesce(a > b, FALSE)",
    "coalesce(flag, FALSE)",
    "a = 1 OR b = 2",
    "(a = 1 OR b = 2)",
    "((a = 1 AND c) OR b = 2)",
    "NOT (a <=> b)",
    "NOT f(a)",
    "a = b IS NULL",
    "NOT (a = b IN (c))",
    "a BETWEEN b AND c = TRUE",
    "(rand() < 0.5 AND a) OR (rand() < 0.5 AND b)",
    "f(a) < b OR f(a) = b",
    "CASE WHEN a THEN b ELSE c END = d",
    "CASE WHEN a AND b THEN c OR d END",
    "CASE WHEN a > b THEN 1 ELSE 0 END = 0",
    "CASE WHEN a > b THEN 1 ELSE 01 END = 1",
    "CASE WHEN a > b THEN 1 ELSE c END = 1",
    "CASE WHEN c THEN t >= s AND t < e ELSE t >= s END",  # c may be NULL
    "CASE WHEN c THEN f(s) ELSE f(s) AND t < e END",
    "CASE WHEN c THEN t >= s ELSE t >= s END",
    "f() IS NULL OR f() IS NOT NULL AND b",
    "s.`or` = t.`and`",
    "NOT (x = a !> b)",
)


@pytest.mark.parametrize("text", CASES)
def test_its_conjuncts(text: str) -> None:
    found = normal_form((Scalar(text),))
    assert [" ".join(c.text.split()) for c in found] == CASES[text]
    assert normal_form(found) is found


@pytest.mark.parametrize("text", TOGETHER)
def test_a_conjunct_beside_another(text: str) -> None:
    found = normal_form((Scalar(text),))
    assert [c.text for c in found] == TOGETHER[text]
    assert as_written(normal_form(found)) == (Scalar(text),)


@pytest.mark.parametrize("text", KEPT)
def test_what_stays(text: str) -> None:
    condition = (Scalar(text),)
    assert normal_form(condition) is condition


def test_subqueries_go_with_their_conjuncts() -> None:
    one, other = Verbatim("one", ""), Verbatim("other", "")
    found = normal_form((Scalar("(NOT EXISTS (__plan_1) AND (a OR EXISTS (__plan_0)))", (one, other)),))
    assert [(c.text, c.plans) for c in found] == [
        ("NOT EXISTS (__plan_0)", (other,)),
        ("(a OR EXISTS (__plan_0))", (one,)),
    ]


def test_a_conjunct_knows_its_place() -> None:
    found = normal_form((Scalar("(a = b\n  AND c = d)", (), Place(3, 10)),))
    assert [c.place for c in found] == [Place(3, 11), Place(4, 7)]


def test_parts_that_stand_together_are_printed_as_written() -> None:
    text = "(a = b AND NOT (x < lo OR x > hi))"
    more = Scalar("y")
    first, second, third = normal_form((Scalar(text),))
    assert [c.text for c in as_written((more, first, second, third))] == ["y", text]
    assert [c.text for c in as_written((first, second, more, third))] == ["a = b", "x >= lo", "y", "x <= hi"]


def test_a_part_is_not_printed_with_columns_that_only_the_whole_names() -> None:
    (part,) = normal_form((Scalar("x.id = 1 OR (x.id = 1 AND y.z > 1)"),))
    assert as_written((part,)) == (part,)
