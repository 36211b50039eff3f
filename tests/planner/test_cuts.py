"""The reader cuts clauses where Spark does, whatever stands between the commas."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.optimizer.planning.validation import compare_readings, has_same_tokens
from dovetail.planner.catalog import Settings
from dovetail.planner.expr.subqueries import replace_scalar_subqueries, subqueries
from dovetail.planner.logical import Aggregate, Filter, Logical, Project, Sort, expressions
from dovetail.planner.sql.from_sql import from_sql

pytestmark = pytest.mark.hypothesis

EXPRESSIONS = st.sampled_from(
    (
        "a",
        "t.a",
        "`a, b`",
        "f(a, b)",
        "CASE WHEN a > 1 THEN b ELSE f(a, c) END",
        "a + b",
        "(a, b)",
        "array(a, b)[0]",
        "m['x,y']",
        "'a, b'",
        "1",
        "CAST(a AS DECIMAL(10, 2))",
        "a IN (1, 2)",
        "a IN (SELECT x FROM u GROUP BY x, y)",
        "(SELECT max(x) FROM u)",
        "concat(a, ' /* ', b)",
        "rollup",
        "`rollup`",
        "INTERVAL '1' DAY",
    )
)
COMMAS = st.sampled_from((",", ", ", "\n  , ", ", /* one, two */ ", ", -- three, four\n"))
USES = st.sampled_from(  # an expression, and how it uses its subqueries
    (
        ("a IN (SELECT 1)", "in"),
        ("(a, b) NOT IN (SELECT 1, 2)", "in"),
        ("NOT (EXISTS (SELECT 1))", "exists"),
        ("a = (SELECT 1)", "scalar"),
        ("((SELECT 1)) < a + (SELECT 2)", "scalar scalar"),
        ("(SELECT 1) IN (SELECT 2)", "scalar in"),
        ("CASE WHEN EXISTS (SELECT 1) THEN (SELECT 2) ELSE a END > 1", "exists scalar"),
        ("coalesce((SELECT 1), 0) = 1", "scalar"),
        ("a > ALL (SELECT 1)", "other"),
        ("a = 'EXISTS (SELECT 1)'", ""),
    )
)
DIRECTIONS = st.sampled_from(("", "", "DESC", "asc", "NULLS LAST", "DESC NULLS  FIRST"))
SETS = st.sampled_from(("ALL", "ROLLUP (a, b)", "a, CUBE(b, (a, b))", "GROUPING SETS ((a, b), ())", "a, b WITH ROLLUP"))


@st.composite
def listed(draw: st.DrawFn) -> tuple[str, tuple[str, ...]]:
    """A list as text, and what stands in it."""
    pieces = draw(st.lists(EXPRESSIONS, min_size=1, max_size=5))
    text = pieces[0] + "".join(draw(COMMAS) + piece for piece in pieces[1:])
    return text, tuple(pieces)


def read(text: str) -> Logical:
    plan, notes = from_sql(text)
    assert not notes
    assert has_same_tokens(plan, text)
    objection = compare_readings(plan, text, Settings())
    assert objection is None or not objection.differs, objection  # sqlglot does not read GROUP BY rollup
    return plan


def texts(node: Logical) -> tuple[str, ...]:
    return tuple(scalar.render(lambda plan: "SELECT …") for scalar in expressions(node))


def cut(pieces: tuple[str, ...]) -> tuple[str, ...]:
    """The pieces as plans hold them, without the text of their subqueries."""
    known = {
        "a IN (SELECT x FROM u GROUP BY x, y)": "a IN (SELECT …)",
        "(SELECT max(x) FROM u)": "(SELECT …)",
    }
    return tuple(known.get(piece, piece) for piece in pieces)


@given(listed())
def test_grouping_expressions(grouped: tuple[str, tuple[str, ...]]) -> None:
    text, pieces = grouped
    plan = read(f"SELECT count(*) FROM t WHERE a > 1 GROUP  BY {text} HAVING count(*) > 1 ORDER BY 1")
    node = next(n for n in plan.walk() if isinstance(n, Aggregate))
    assert texts(node) == cut(pieces)
    assert node.sets is None


@given(listed(), st.sampled_from(("ORDER BY", "SORT BY", "order  by")), st.lists(DIRECTIONS, min_size=5, max_size=5))
def test_sort_keys(keys: tuple[str, tuple[str, ...]], keyword: str, directions: list[str]) -> None:
    _, pieces = keys
    directions = directions[: len(pieces)]
    text = ", ".join(f"{key} {direction}".strip() for key, direction in zip(pieces, directions, strict=True))
    node = read(f"SELECT a FROM t {keyword} {text} LIMIT 3").children[0]
    assert isinstance(node, Sort)
    assert texts(node) == cut(pieces)
    assert node.directions == tuple(directions)
    assert node.keyword == keyword


@given(listed())
def test_select_lists(items: tuple[str, tuple[str, ...]]) -> None:
    text, pieces = items
    project = read(f"SELECT {text} FROM t")
    assert isinstance(project, Project)
    assert texts(project) == cut(pieces)


@given(st.lists(USES, min_size=1, max_size=4))
def test_uses_of_subqueries(used: list[tuple[str, str]]) -> None:
    condition = " OR ".join(text for text, _ in used)
    node = read(f"SELECT a FROM t WHERE {condition}").children[0]
    assert isinstance(node, Filter)
    (scalar,) = node.condition
    found = subqueries(scalar)
    assert [one.kind for one in found] == [kind for _, kinds in used for kind in kinds.split()]
    replaced = replace_scalar_subqueries(scalar, lambda plan: "new")
    assert [one.kind for one in subqueries(replaced)] == [one.kind for one in found if one.kind != "scalar"]
    assert replaced.text.count("new") == sum(one.kind == "scalar" for one in found)


@given(SETS)
def test_several_groupings_are_not_cut(sets: str) -> None:
    plan = read(f"SELECT count(*) FROM t GROUP BY {sets}")
    node = next(n for n in plan.walk() if isinstance(n, Aggregate))
    assert node.keys == ()
    assert texts(node) == (sets,)
    assert node.is_all == (sets == "ALL")
