"""The clauses of one SELECT, from WHERE to LIMIT."""

from __future__ import annotations

from typing import ClassVar, Literal

from planner.expr import Scalar, show_all
from planner.logical.base import Logical, after, conjunction
from planner.tree import plan_node


@plan_node
class Filter(Logical):
    """WHERE, HAVING or QUALIFY: conjuncts that must all hold."""

    label: ClassVar[str] = "Filter"
    child: Logical
    condition: tuple[Scalar, ...]
    clause: Literal["WHERE", "HAVING", "QUALIFY"] = "WHERE"

    @property
    def detail(self) -> str:
        said = conjunction(self.condition)
        return said if self.clause == "WHERE" else f"{self.clause.lower()} {said}"


@plan_node
class Aggregate(Logical):
    """GROUP BY, with ROLLUP, CUBE or GROUPING SETS where they are written."""

    label: ClassVar[str] = "Aggregate"
    child: Logical
    groups: Scalar

    @property
    def detail(self) -> str:
        return f"by {self.groups.shown}"


@plan_node
class Windows(Logical):
    """WINDOW name AS (…): named windows."""

    label: ClassVar[str] = "Windows"
    child: Logical
    definitions: Scalar

    @property
    def detail(self) -> str:
        return self.definitions.shown


@plan_node
class Project(Logical):
    """The select list; ``hint`` is its blocks of hints, ``quantifier`` DISTINCT or ALL where written."""

    label: ClassVar[str] = "Project"
    child: Logical
    items: tuple[Scalar, ...]
    quantifier: str = ""
    hint: Scalar | None = None

    @property
    def detail(self) -> str:
        said = ", ".join(show_all(self.items))
        words = [w for w in (self.hint.shown if self.hint else "", self.quantifier.lower(), said) if w]
        return " ".join(words)

    @property
    def output(self) -> tuple[str, ...]:
        return tuple(i.shown for i in self.items)


@plan_node
class Sort(Logical):
    """ORDER BY, SORT BY, DISTRIBUTE BY, CLUSTER BY: one clause."""

    label: ClassVar[str] = "Sort"
    child: Logical
    clause: Scalar

    @property
    def detail(self) -> str:
        return after(self.clause, "ORDER BY")


@plan_node
class Limit(Logical):
    """LIMIT or OFFSET: one clause."""

    label: ClassVar[str] = "Limit"
    child: Logical
    clause: Scalar

    @property
    def detail(self) -> str:
        return after(self.clause, "LIMIT")
