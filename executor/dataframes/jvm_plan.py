"""The logical plan of a DataFrame in the JVM: its operators and their expressions, each read once."""

from __future__ import annotations

import re
from collections.abc import Container
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dovetail.executor.dataframes.catalyst_tree import Catalyst, read_catalyst
from dovetail.executor.frame_sql.shape import Kind
from dovetail.executor.session.pyspark_versions import dataset_class

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_KINDS: dict[str, Kind] = {
    "SubqueryAlias": "alias",
    "View": "alias",
    "Project": "select",
    "Filter": "filter",
    "Aggregate": "aggregate",
    "Window": "window",
    "Sort": "sort",
    "GlobalLimit": "limit",
    "LocalLimit": "limit",
    "Distinct": "distinct",
    "Deduplicate": "distinct",
    "Union": "set",
    "Except": "set",
    "Intersect": "set",
    "Join": "join",
}


class PlanNode:
    """An operator of a logical plan; ``java`` is the object of the JVM."""

    def __init__(self, java: Any) -> None:
        self.java = java

    @cached_property
    def name(self) -> str:
        """The name of the operator's class, as ``Filter``."""
        return str(self.java.getClass().getSimpleName()).rstrip("$")

    @cached_property
    def children(self) -> tuple[PlanNode, ...]:
        """The operators below it."""
        return tuple(map(PlanNode, _listed(self.java.children())))

    @property
    def child(self) -> PlanNode:
        """The first operator below it."""
        return self.children[0]

    @cached_property
    def kind(self) -> Kind:
        """What the operator is written as."""
        if self.name == "Sort" and not getattr(self.java, "global")():  # Python has no such name
            return "unwritten"
        return _KINDS.get(self.name, "unwritten")

    def frame(self, session: SparkSession) -> DataFrame:
        """Return the DataFrame of the operator."""
        return frame_of(session, self.java)

    def has_rows_of(self, other: PlanNode) -> bool:
        """Whether another operator returns the same rows."""
        return bool(self.java.sameResult(other.java))

    def output(self) -> list[Catalyst]:
        """The attributes that the operator returns."""
        return read_named(self.java.output())


def read_named(found: Any, known: Container[int] | None = None) -> list[Catalyst]:
    """Read named expressions; attributes, all of them or those of ``known`` IDs, in one call for any number."""
    items = []
    for number, text in enumerate(str(found.mkString("\0")).split("\0") if found.size() else ()):
        attribute = re.fullmatch(r"(.*)#(\d+)L?", text, re.DOTALL)
        if attribute and (known is None or int(attribute[2]) in known):
            fields = {"name": attribute[1], "exprId": {"id": attribute[2]}}
            items.append(Catalyst("AttributeReference", fields, ()))
        else:
            items.append(read_catalyst(found.apply(number).toJSON()))
    return items


def columns_only(node: PlanNode, *, renamed: bool = False, extracted: bool = False) -> list[Catalyst] | None:
    """Return the items of a ``Project`` if each is a column; None if one is not.

    ``renamed``: perhaps by another name.  ``extracted``: what Spark computes below a window for it counts as well.
    """
    items = read_named(node.java.projectList(), {attribute.id for attribute in node.child.output()})
    is_simple = [
        item.name == "AttributeReference"
        or (renamed and item.child.name == "AttributeReference")
        or (extracted and re.fullmatch(r"_w\d+", str(item.fields["name"])) is not None)
        for item in items
    ]
    return items if all(is_simple) else None


def read_expressions(found: Any) -> list[Catalyst]:
    """Read expressions, one call for each."""
    return [read_catalyst(expression.toJSON()) for expression in _listed(found)]


def _listed(found: Any) -> list[Any]:
    return [found.apply(n) for n in range(found.size())]


def frame_of(session: SparkSession, plan: Any) -> DataFrame:
    """Make a DataFrame of a logical plan."""
    from pyspark.sql import DataFrame

    return DataFrame(dataset_class(session).ofRows(session._jsparkSession, plan), session)
