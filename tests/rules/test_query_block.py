"""A query block is the statement that it was read from: put together again, it prints the same words.

Relations ``a0``, ``a1`` … and conditions ``c0``, ``c1`` … have names of their own, so that the text of a statement says
what is in it, in which order, whatever the reading of FROM makes of it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.planner.expr import Scalar
from dovetail.planner.logical import Logical, Project, Scan
from dovetail.planner.sql.from_sql import from_sql
from dovetail.planner.sql.to_sql import to_sql
from dovetail.rules.query.from_items import INNER, PRESERVING, FromItem, bare, leaves, read_from_items, with_leaves
from dovetail.rules.query.query_block import QueryBlock, read_block, where

READINGS = (INNER, PRESERVING)
NEW = Scan(("t",), "t", "n", (), "n")
KINDS = ("JOIN", "CROSS JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "USING", ",")
RELATIONS = (
    "t a{n}",
    "(t a{n})",
    "((t a{n}))",
    "(SELECT * FROM t) a{n}",
    "(t a{n}) AS x{n}",
    "LATERAL (SELECT 1) a{n}",
)
CLAUSES = (
    " GROUP BY k",
    " HAVING count(*) > 1",
    " QUALIFY k = 1",
    " WINDOW w AS (ORDER BY k)",
    " ORDER BY k",
    " LIMIT 3",
)


@st.composite
def from_clauses(draw: st.DrawFn, depth: int = 3) -> str:
    """A FROM clause of joins of all kinds, with parentheses, conditions and relations of several forms."""
    relation, condition = count(), count()

    def conditions() -> str:
        return " AND ".join(f"c{next(condition)} > 0" for _ in range(draw(st.integers(1, 2))))

    def tree(depth: int, inside: bool) -> str:
        if depth == 0 or draw(st.integers(0, 3)) == 0:
            return draw(st.sampled_from(RELATIONS[: None if inside else -1])).format(n=next(relation))
        kind = draw(st.sampled_from(KINDS if draw(st.booleans()) else KINDS[:3]))
        left = tree(depth - 1, False)
        right = tree(depth - 1, True)
        if " JOIN " in right or "," in right or draw(st.integers(0, 5)) == 0:
            right = f"({right})"
        if kind == ",":
            return f"{left}, {right}" if depth == 3 else f"({left}, {right})"
        if kind == "USING":
            return f"{left} JOIN {right} USING (k)"
        return f"{left} {kind} {right}" + ("" if kind == "CROSS JOIN" else f" ON {conditions()}")

    return tree(depth, False)


@st.composite
def statements(draw: st.DrawFn) -> str:
    """A SELECT with some of its clauses."""
    clauses = "".join(clause for clause in CLAUSES if draw(st.booleans()))
    head = draw(st.sampled_from(("SELECT *", "SELECT DISTINCT a0.k", "SELECT /*+ MERGE(a0) */ a0.k, count(*) AS n")))
    filters = draw(st.sampled_from(("", " WHERE f0 > 0", " WHERE f0 > 0 AND f1 > 0")))
    return f"{head} FROM {draw(from_clauses())}{filters}{clauses}"


def block_of(sql: str) -> QueryBlock:
    block = read_block(from_sql(sql)[0])
    assert block is not None
    return block


def text_of(tree: Logical) -> str:
    return to_sql(Project(tree, (Scalar("1"),))).removeprefix("SELECT 1 FROM ")


def relations_in(tree: Logical) -> list[str]:
    """The relations of a FROM, by the words in which it prints."""
    return re.findall(r"(?:t|\))(?: AS)? (?!x)`?([an]\d*)`?", text_of(tree))


def conditions_in(tree: Logical) -> list[str]:
    return re.findall(r"\bc\d+\b", text_of(tree))


@given(statements())
def test_a_block_is_its_statement(sql: str) -> None:
    plan, _ = from_sql(sql)
    block = block_of(sql)
    assert block.over(where(block.tree, block.condition)) == block.project
    whole: Logical = block.project
    for clause in reversed(block.above):
        whole = replace(clause, child=whole)
    assert to_sql(whole) == to_sql(plan)
    assert len(block.clauses) == sum(sql.count(clause) for clause in CLAUSES)


@given(from_clauses())
def test_from_items_are_the_relations_as_they_stand(clause: str) -> None:
    tree = block_of(f"SELECT 1 FROM {clause}").tree
    assert [name for leaf in leaves(tree) for name in relations_in(bare(leaf))] == relations_in(tree)
    for through in READINGS:
        read = read_from_items(tree, through)
        assert [item.number for item in read.found] == list(range(len(read.found)))
        assert [name for item in read.found for name in relations_in(item.relation)] == relations_in(tree)
        whole = [c for item in read.found for c in conditions_in(item.relation)]
        on = [c.text.split()[0] for c in (*read.conjuncts, *(c for item in read.found for c in item.on))]
        assert sorted(whole + on) == sorted(conditions_in(tree))
        assert read.rebuilt({}, lambda c: c) == (tree, ())
    changelogs = read_from_items(tree, INNER | {"left", "right"})
    assert [name for item in changelogs.found for name in relations_in(item.relation)] == relations_in(tree)
    assert sorted(i.number for i in changelogs.outer) == [i.number for i in changelogs.found if i.kind != "inner"]
    on = [c.text.split()[0] for item in changelogs.outer for c in item.on]
    assert on == [c for c in conditions_in(tree) if c in on], "an ON is written behind all that it joins"


def assert_conditions_stay(tree: Logical, item: FromItem, changed: Logical, moved: tuple[Scalar, ...]) -> None:
    """All conditions are in the changed FROM or have moved, but for those in a relation that went, and its own."""
    own = {*conditions_in(item.relation), *(c.text.split()[0] for c in item.on)}
    left = [*conditions_in(changed), *(c.text.split()[0] for c in moved)]
    assert sorted(left) == sorted(c for c in conditions_in(tree) if c not in own)


@given(from_clauses(), st.integers(0, 7))
def test_another_relation_comes_to_a_place(clause: str, at: int) -> None:
    tree = block_of(f"SELECT 1 FROM {clause}").tree
    for through in READINGS:
        read = read_from_items(tree, through)
        item = read.found[at % len(read.found)]
        wanted = [n for i in read.found for n in (["n"] if i is item else relations_in(i.relation))]
        own = set(conditions_in(item.relation))
        kept, nothing = read.rebuilt({item.number: NEW}, lambda c: c, keeps_on=True)
        assert relations_in(kept) == wanted
        assert conditions_in(kept) == [c for c in conditions_in(tree) if c not in own]
        assert nothing == ()
        changed, moved = read.rebuilt({item.number: NEW}, lambda c: c)
        assert relations_in(changed) == wanted
        assert_conditions_stay(tree, item, changed, moved)


@given(from_clauses(), st.integers(0, 7))
def test_conditions_go(clause: str, at: int) -> None:
    tree = block_of(f"SELECT 1 FROM {clause}").tree
    read = read_from_items(tree)
    changed, _ = read.rebuilt({}, lambda c: None)
    gone = {c.text.split()[0] for c in read.conjuncts}
    assert relations_in(changed) == relations_in(tree)
    assert conditions_in(changed) == [c for c in conditions_in(tree) if c not in gone]
    found = leaves(tree)
    leaf = found[at % len(found)]
    other = with_leaves(tree, [(leaf, NEW)])
    assert relations_in(other) == [n for x in found for n in (["n"] if x is leaf else relations_in(bare(x)))]


@pytest.mark.parametrize("query", ["SELECT 1 FROM t UNION SELECT 2 FROM t", "SELECT 1", "VALUES (1)"])
def test_no_block(query: str) -> None:
    assert read_block(from_sql(query)[0]) is None
