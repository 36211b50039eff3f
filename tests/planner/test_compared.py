"""The one reader of comparisons."""

from __future__ import annotations

import pytest

from dovetail.planner.conditions.compared import compared
from dovetail.planner.expr import Scalar, sql
from dovetail.planner.logical import Verbatim

CASES = {
    "a.x = b.y": ("a.x", "=", "b.y"),
    "((a.x) == (b.y + 1))": ("a.x", "=", "b.y + 1"),
    "a.x <=> 5": ("a.x", "<=>", "5"),
    "a.x != b.y": ("a.x", "<>", "b.y"),
    "NOT (a.x <> b.y)": ("a.x", "=", "b.y"),
    "EQUAL_NULL(a.x, b.y)": ("a.x", "<=>", "b.y"),
    "a.x < b.y": ("a.x", "<", "b.y"),
    "a.x >= f(b.y)": ("a.x", ">=", "f(b.y)"),
}


@pytest.mark.parametrize("text", CASES)
def test_what_is_compared(text: str) -> None:
    found = compared(Scalar(text))
    assert found is not None
    assert (sql(found.left), found.sign, sql(found.right)) == CASES[text]
    assert found.turned.turned == found
    assert found.equal == (found.sign in ("=", "<=>"))


OTHERS = ("a.x", "a.x = 1 AND b.y = 2", "NOT a.x = b.y", "NOT (a.x < b.y)", "equal_null(a.x)", "a.x IN (1)")


@pytest.mark.parametrize("text", [*OTHERS, "a.x BETWEEN 1 AND 2"])
def test_what_is_no_comparison(text: str) -> None:
    assert compared(Scalar(text)) is None


def test_a_subquery_is_not_compared() -> None:
    assert compared(Scalar("a.x = (__plan_0)", (Verbatim("SELECT 1", ""),))) is None


def test_turned() -> None:
    found = compared(Scalar("a.x <= b.y"))
    assert found is not None
    assert (sql(found.turned.left), found.turned.sign, sql(found.turned.right)) == ("b.y", ">=", "a.x")
    assert found.columns
