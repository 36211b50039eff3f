"""sqlglot reads every golden case as we do, and notices whatever is changed in our reading."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from sqlglot.errors import ParseError

from dovetail.golden_plans.case import read_case
from dovetail.golden_plans.planned import catalog_of, plan_case
from dovetail.optimizer.planning import statement as planning
from dovetail.optimizer.planning.statement import plan_sql
from dovetail.optimizer.planning.validation import compare_readings
from dovetail.planner.catalog import Settings
from dovetail.planner.errors import Unsupported
from dovetail.planner.expr import Scalar, dialect
from dovetail.planner.logical import (
    Aggregate,
    Cte,
    Derived,
    Filter,
    Join,
    Limit,
    Logical,
    Nested,
    Project,
    Scan,
    SetOp,
    Sort,
    With,
)
from dovetail.planner.offline_catalog.read_catalog import read_catalog
from dovetail.planner.sql.from_sql import from_sql
from dovetail.planner.sql.reader import Note
from dovetail.planner.sql.second_reading import Differs, compare
from dovetail.planner.sql.whole_statement import Unread
from dovetail.planner.tree import Node, transform_up
from tpc.data import queries

CASES = sorted((Path(__file__).parents[2] / "golden_plans" / "cases").rglob("*.plan"))
UNREAD = {"carry/values"}  # VALUES alone is no query to sqlglot; nor can it be rewritten


def test_all_golden_cases_are_read_alike() -> None:
    found: Counter[str] = Counter()
    for path in CASES:
        case = read_case(path)
        try:
            plan, _ = from_sql(case.sql, catalog_of(case).settings)
        except Unsupported:
            continue
        said = compare_readings(plan, case.sql, catalog_of(case).settings)
        if said:
            assert case.name in UNREAD, f"{case.name}: {said.reason}"
            assert not plan_case(case).rewritten
        found["unread" if said else "alike"] += 1
    assert found["alike"] > 800


@pytest.mark.parametrize("suite", ["tpch", "tpcds"])
def test_all_tpc_queries_are_read_alike(suite: str) -> None:
    for name, text in queries(suite).items():
        plan, _ = from_sql(text)
        assert compare_readings(plan, text, Settings()) is None, name


# Readings that went wrong: each is noticed.

Mutant = tuple[str, Logical]


def mutants(plan: Logical) -> Iterator[Mutant]:
    """A plan with one thing changed in it, in all ways and places."""
    for node in {id(n): n for n in plan.walk()}.values():
        for what, other in _changed(node):
            yield what, transform_up(plan, lambda n, node=node, other=other: other if n is node else n)  # type: ignore[misc]


def _changed(node: Node) -> Iterator[tuple[str, Node]]:
    match node:
        case Join():
            for kind in ("inner", "cross", "left", "right", "full", "semi", "anti"):
                if kind != node.kind and (kind == "cross") <= (not node.condition):
                    yield f"kind {kind}", replace(node, kind=kind)
            yield "sides exchanged", replace(node, left=node.right, right=node.left)
            for n, conjunct in enumerate(node.condition):
                rest = (*node.condition[:n], *node.condition[n + 1 :])
                if conjunct.text.upper() != "TRUE":  # ON TRUE is no condition
                    yield "a conjunct of ON dropped", replace(node, condition=rest)
            if len(node.condition) > 1:
                yield "conjuncts of ON exchanged", replace(node, condition=node.condition[::-1])
            if isinstance(node.left, Join):
                a, b = node.left.left, node.left.right
                yield "nested the other way", replace(node.left, left=a, right=replace(node, left=b))
                yield (
                    "conditions exchanged",
                    replace(node, left=replace(node.left, condition=node.condition), condition=node.left.condition)
                    if node.condition != node.left.condition
                    else Scan(("x",), "x", "x"),
                )
                yield "relations exchanged", replace(node, left=replace(node.left, right=node.right), right=b)
            yield "a relation lost", node.left
            yield "in parentheses", Nested(node)
        case Filter():
            for n in range(len(node.condition)):
                rest = (*node.condition[:n], *node.condition[n + 1 :])
                yield "a conjunct dropped", replace(node, condition=rest) if rest else node.child
            if len(node.condition) > 1:
                yield "conjuncts exchanged", replace(node, condition=node.condition[::-1])
            if isinstance(node.child, Join) and node.clause == "WHERE":
                moved = replace(node.child, condition=(*node.child.condition, node.condition[0]))
                rest = node.condition[1:]
                yield "a conjunct moved to ON", replace(node, child=moved, condition=rest) if rest else moved
        case Aggregate():
            yield "groups lost", node.child
            if node.sets:
                yield "ROLLUP or ALL as a grouping expression", replace(node, keys=(node.sets,), sets=None)
            else:
                yield "grouping expressions as ROLLUP or ALL", replace(node, keys=(), sets=node.keys[0])
            yield from _pieces("keys", node, node.keys, "a grouping expression")
        case Sort():
            flipped = tuple("" if d.upper().split()[:1] == ["DESC"] else "DESC" for d in node.directions)
            if not node.keyword.upper().startswith("CLUSTER"):
                yield "directions flipped", replace(node, directions=flipped)
            yield "keys lost", node.child
            if len(node.keys) > 1:
                yield "a key dropped", replace(node, keys=node.keys[1:], directions=node.directions[1:])
        case Limit():
            yield "another LIMIT", replace(node, keyword="OFFSET" if node.keyword.upper() == "LIMIT" else "LIMIT")
        case Project() if len(node.items) > 1:
            yield from _pieces("items", node, node.items, "a column")
        case Scan():
            yield "another name", replace(node, alias="another")
            yield "another table", replace(node, name=(*node.name[:-1], "another"))
            yield "another meaning", replace(node, cte="" if node.cte else "another")
        case Derived():
            yield "another name of a subquery", replace(node, alias="another")
            yield "LATERAL", replace(node, lateral=not node.lateral)
        case SetOp():
            yield (
                "another set operation",
                replace(node, keyword="UNION" if "ALL" in node.keyword else "UNION ALL"),
            )
        case With() if len(node.definitions) > 1:
            yield "a definition lost", replace(node, definitions=node.definitions[1:])
            yield "definitions exchanged", replace(node, definitions=node.definitions[::-1])
        case Cte():
            yield "another name in WITH", replace(node, name="another")


def _pieces(field: str, node: Node, pieces: tuple[Scalar, ...], what: str) -> Iterator[tuple[str, Node]]:
    """A list that was cut in another way."""
    if len(pieces) > 1:
        joined = replace(pieces[0], text=f"{pieces[0].text}, {pieces[1].text}")
        yield f"{what} dropped", replace(node, **{field: pieces[1:]})  # type: ignore[type-var]
        yield f"{what} not cut off", replace(node, **{field: (joined, *pieces[2:])})  # type: ignore[type-var]
        if all(piece.known is not None and piece.columns and "*" not in piece.text for piece in pieces):
            yield f"{what} exchanged with another", replace(node, **{field: pieces[::-1]})  # type: ignore[type-var]


def test_every_change_of_a_reading_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialect, "parse_statement", cache(dialect.parse_statement))  # changed is our reading alone
    seen: Counter[str] = Counter()
    missed = []
    for path in CASES:
        case = read_case(path)
        settings = catalog_of(case).settings
        try:
            plan, _ = from_sql(case.sql, settings)
            compare(plan, case.sql, settings)
        except (Unsupported, Unread):
            continue
        for what, mutant in mutants(plan):
            seen[what] += 1
            try:
                compare(mutant, case.sql, settings)
            except Differs:
                continue
            missed.append(f"{case.name}: {what}")
    print(dict(seen))
    assert not missed, "\n".join(missed)
    assert seen["nested the other way"] > 20
    assert seen["a conjunct dropped"] > 200


# What comes of it.

BAND = "SELECT p.id, i.id FROM points p JOIN intervals i ON p.x BETWEEN i.lo AND i.hi AND i.id > 3"
CATALOG = read_catalog(Path(__file__).parents[2] / "golden_plans" / "catalogs" / "line.toml")


def test_a_statement_that_is_read_in_two_ways_runs_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    assert plan_sql(BAND, CATALOG).rewritten
    real = from_sql

    def wrong(text: str, settings: Settings) -> tuple[Logical, tuple[Note, ...]]:
        plan, notes = real(text, settings)
        return transform_up(plan, lambda n: replace(n, kind="left") if isinstance(n, Join) else n), notes  # type: ignore[return-value]

    monkeypatch.setattr(planning, "from_sql", wrong)
    plan = plan_sql(BAND, CATALOG)
    assert not plan.rewritten
    assert plan.declined[-1][:2] == (
        "second_reading",
        "sqlglot parses the statement differently: the kind of a join: left and inner",
    )


def test_a_statement_that_sqlglot_does_not_read_has_no_objection(monkeypatch: pytest.MonkeyPatch) -> None:
    def unread(text: str) -> None:
        raise ParseError("words from the year 3000")

    monkeypatch.setattr(dialect, "parse_statement", unread)
    plan = plan_sql(BAND, CATALOG)
    assert plan.rewritten
    assert plan.declined[-1].reason == "sqlglot cannot parse the statement: words from the year 3000"


def test_a_statement_that_is_left_alone_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "compare_readings", None)
    assert not plan_sql("SELECT p.id FROM points p, intervals i WHERE p.k = i.k", CATALOG).rewritten


def test_names_of_with_have_their_scopes() -> None:
    inner = "WITH x AS (SELECT 2 AS a) SELECT x.a FROM x"
    text = f"WITH x AS (SELECT 1 AS a), y AS ({inner}) SELECT * FROM x JOIN y JOIN X z"
    plan, _ = from_sql(text)
    compare(plan, text, Settings())
    with pytest.raises(Differs, match="what X means: x and none"):
        compare(plan, text, Settings(case_sensitive=True))
