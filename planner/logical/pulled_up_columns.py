"""Computed columns of subqueries that are pulled up above a join, which then computes them for its result only.

    FROM p JOIN (SELECT lo, hi, 100 / v AS share FROM i) z ON p.ts BETWEEN z.lo AND z.hi

    FROM p JOIN (SELECT lo, hi, v AS c FROM i) z ON p.ts BETWEEN z.lo AND z.hi
    JOIN LATERAL (SELECT 100 / c AS share) AS z

Spark finds ``z.share`` and ``z.lo`` by their names in two relations called z, and makes a projection of LATERAL.
(Query graph models call it a pull-up: Pirahesh, Hellerstein and Hasan, "Extensible/Rule Based Query Rewrite
Optimization in Starburst", SIGMOD 1992.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from planner.expr import Scalar, quote
from planner.logical.base import Logical
from planner.rendered import NameGenerator, Rendered
from planner.tree import Node, plan_node
from planner.types.schema import Column


@dataclass(frozen=True)
class PulledUp:
    """The columns of one relation that are computed above the join: ``values`` has the name and the SQL of each.

    ``columns``: all columns of the relation in their order.  ``stars``: items of the select list that mean these.
    """

    name: str
    values: tuple[tuple[str, str], ...]
    columns: tuple[Column, ...] = ()
    stars: tuple[str, ...] = ()

    @property
    def shown(self) -> list[str]:
        """All columns of the relation as select items."""
        return [f"{quote(self.name)}.{quote(column.name)}" for column in self.columns]


@plan_node
class PulledUpColumns(Rendered, Logical):
    """FROM, and the columns of its relations that are computed after its joins."""

    label: ClassVar[str] = "PulledUpColumns"
    child: Logical
    relations: tuple[PulledUp, ...]

    @property
    def output(self) -> tuple[str, ...]:
        return self.child.output

    @property
    def detail(self) -> str:
        return ", ".join(f"{quote(one.name)}.{quote(name)}" for one in self.relations for name, _ in one.values)

    @property
    def notes(self) -> tuple[str, ...]:
        return ("computed for the rows of the join only, since on others they could raise an error",)

    def stars(self, of: Callable[[Node], list[str]]) -> list[str]:
        shown = {f"{quote(one.name)}.*": one.shown for one in self.relations}
        return [column for item in of(self.child) for column in shown.get(item, [item])]

    def render(
        self, sides: tuple[str, ...], names: NameGenerator, conjunction: Callable[[tuple[Scalar, ...]], str]
    ) -> str:
        """The join, and a LATERAL subquery for each relation."""
        lines = []
        for one in self.relations:
            values = ", ".join(f"{text} AS {quote(name)}" for name, text in one.values)
            lines.append(f"JOIN LATERAL (SELECT {values}) AS {quote(one.name)}")
        return "\n".join([*sides, *lines])
