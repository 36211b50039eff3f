"""DataFrames of Spark Connect: the same rows, columns and types, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail.executor.connect.names import Attribute, Attributes, name_parts
from dovetail.executor.connect.plan import RelationNode
from dovetail.executor.connect.statement import _numbered
from dovetail.executor.connect.tables import WrittenOperators
from dovetail.executor.frame_sql.shape import PlanShape
from dovetail.planner.catalog.settings import NameCase
from dovetail.planner.errors import Refused
from effort import SEED, examples

PROGRAM = Path(__file__).parents[1] / "connect_frames_main.py"


@pytest.mark.connect
def test_dataframes(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAM), str(tmp_path), str(SEED), str(examples(0.5))]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
    assert found["wrong"] == {}
    assert found["random rewritten"] >= found["random"] / 3, found["random reasons"]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("a.b", ("a", "b")),
        ("`a.b`.c", ("a.b", "c")),
        ("`a``b`", ("a`b",)),
        ("(ts + 1)", ("(ts + 1)",)),
        ("a.`b`", ("a", "b")),
    ],
)
def test_parts_of_a_name(name: str, parts: tuple[str, ...]) -> None:
    assert name_parts(name) == parts


@pytest.mark.parametrize("name", ["", "a.", ".a", "a..b", "`a"])
def test_names_that_spark_does_not_read(name: str) -> None:
    with pytest.raises(Refused):
        name_parts(name)


def test_the_column_of_a_name() -> None:
    left, right = (Attribute(n, "id", (alias,), {plan: 1, 9: n}) for n, alias, plan in ((1, "l", 3), (2, "r", 4)))
    columns = Attributes((left, right, Attribute(5, "r")), NameCase(False))
    assert columns.find("L.ID", None) == (left, ())
    assert columns.find("id", 4) == (right, ())
    assert columns.find("id.f", 9) == (left, ("f",)), "the nearest"
    assert columns.find("r.id", None) == (right, ()), "an alias before a field"
    assert columns.find("r.x", None)[1] == ("x",)
    for name, plan in (("id", None), ("nowhere", None), ("id", 7), ("x.id", None)):
        with pytest.raises(Refused):
            columns.find(name, plan)
    with pytest.raises(Refused):
        Attributes(columns.all, NameCase(True)).find("ID", 4)


def test_numbers_of_columns_in_the_text_of_a_plan() -> None:
    assert _numbered("Project [a#7L, b#9]\n+- R [a#7L, b#9]") == _numbered("Project [A#1L, c#2]\n+- R [x#1L, y#2]")
    assert _numbered("Project [a#7, b#9]\n+- R [a#7, b#9]") != _numbered("Project [a#7, b#9]\n+- R [b#9, a#7]")
    assert _numbered("[a#7, b#7]") != _numbered("[a#7, b#9]")
    assert _numbered("[a#7L]") != _numbered("[a#7]")
    assert _numbered("+- Join Cross, (a#1 > b#2)") == _numbered("+- Join Inner, (a#3 > b#4)")
    assert _numbered("Join Cross") != _numbered("Join Inner")


def table(name: str = "lines", plan_id: int = 0) -> Any:
    """A relation as ``spark.table`` makes it."""
    from pyspark.sql.connect.proto import Relation

    found = Relation()
    found.common.plan_id = plan_id
    found.read.named_table.unparsed_identifier = name
    return found


def above(kind: str, below: Any, plan_id: int = 0, column_of: int | None = None) -> Any:
    """A filter, an alias, … over a relation; ``column_of``: the plan ID of the column in its condition."""
    from pyspark.sql.connect.proto import Aggregate, Relation

    found = Relation()
    found.common.plan_id = plan_id
    getattr(found, kind).input.CopyFrom(below)
    if kind == "aggregate":
        found.aggregate.group_type = Aggregate.GroupType.GROUP_TYPE_GROUPBY
    if column_of is not None:
        found.filter.condition.unresolved_attribute.unparsed_identifier = "id"
        found.filter.condition.unresolved_attribute.plan_id = column_of
    return found


def joined(*relations: Any) -> RelationNode:
    """The join of relations, from left to right."""
    from pyspark.sql.connect.proto import Relation

    found, *others = relations
    for other in others:
        both = Relation()
        both.join.left.CopyFrom(found)
        both.join.right.CopyFrom(other)
        found = both
    return RelationNode(found)


def test_the_identity_of_a_relation() -> None:
    def identity(relation: Any) -> bytes:
        return RelationNode(relation).identity

    assert identity(table(plan_id=3)) == identity(table(plan_id=4))
    assert identity(table("lines")) != identity(table("orders"))
    assert identity(above("filter", table(plan_id=3), 4, 3)) == identity(above("filter", table(plan_id=5), 6, 5))
    assert identity(above("filter", table(plan_id=3), 4, 3)) != identity(above("filter", table(plan_id=3), 4, 4))
    outside = [identity(above("filter", table(plan_id=3), 4, column_of)) for column_of in (8, 9)]
    assert outside[0] != outside[1], "the columns of what is not in the relation differ"
    sides = table(plan_id=3), table(plan_id=4)
    left, right = (above("filter", joined(*sides).message, 5, column_of) for column_of in (3, 4))
    assert identity(left) != identity(right)
    places = [above("filter", table(), column_of=3) for _ in range(2)]
    for line, place in enumerate(places):
        place.filter.condition.common.origin.python_origin.call_site = f"program.py:{line}"
    assert identity(places[0]) == identity(places[1])


def written_over_tables(plan: RelationNode, is_cached: Any = lambda _: False) -> list[list[str]]:
    """The operators that are written over the table of each relation, from the outermost in."""
    written = WrittenOperators(PlanShape(plan, is_cached))
    found: list[list[str]] = []
    waiting = list(plan.children)
    while waiting:
        node = waiting.pop(0)
        if node.name == "join":
            waiting[:0] = node.children
            continue
        found.append([])
        while node in written:
            found[-1].append(node.name)
            node = node.child
    return found


def test_operators_over_a_table_that_is_read_again() -> None:
    lines, orders = table("lines"), table("orders")
    filtered, grouped = above("filter", lines), above("aggregate", lines)
    other, alias = above("filter", orders), above("subquery_alias", filtered)
    assert written_over_tables(joined(lines, grouped)) == [[], ["aggregate"]]
    assert written_over_tables(joined(alias, lines, other)) == [["subquery_alias", "filter"], [], ["filter"]]
    columns = above("project", above("aggregate", above("filter", lines)))
    assert written_over_tables(joined(columns, lines)) == [["project", "aggregate", "filter"], []]
    same = written_over_tables(joined(alias, above("subquery_alias", filtered)))
    assert same == [["subquery_alias"], ["subquery_alias"]], "the filtered rows are the table"


def test_operators_over_tables_that_are_carried() -> None:
    lines, orders = table("lines"), table("orders")
    assert written_over_tables(joined(above("filter", lines), above("aggregate", orders))) == [[], []], "read once"
    projected = above("filter", above("project", orders))
    assert written_over_tables(joined(lines, above("filter", lines), projected))[-1] == [], "columns of another table"
    assert written_over_tables(joined(lines, above("aggregate", above("limit", lines)))) == [[], []], "other rows"
    many = lines
    for _ in range(9):
        many = above("aggregate", many)
    assert written_over_tables(joined(lines, many)) == [[], []]
    rollup = above("aggregate", lines)
    rollup.aggregate.group_type = 2
    assert written_over_tables(joined(lines, rollup)) == [[], []]
    cached = above("filter", lines)
    plan = joined(lines, above("aggregate", cached))
    assert written_over_tables(plan, lambda node: node.message == cached) == [[], []]


def test_operators_over_a_table_that_can_be_carried_over_together() -> None:
    lines = table()
    plan = joined(lines, above("subquery_alias", above("filter", lines)))
    written = WrittenOperators(PlanShape(plan, lambda _: False))
    alias = plan.children[1]
    assert written.is_relation(alias)
    assert alias.child in written
    assert not written.is_relation(alias.child), "it is part of the relation"
    assert not written.is_relation(plan)
    assert not written.is_relation(alias.child.child), "it is no operator"
