"""The clauses of one SELECT, from WHERE to LIMIT."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from dovetail.planner.expr import Scalar, show_all
from dovetail.planner.logical.base import Logical, after, conjunction, expressions
from dovetail.planner.tree import Node, plan_node, unwrap


@plan_node
class Filter(Logical):
    """WHERE, HAVING or QUALIFY: conjuncts that must all hold."""

    child: Logical
    condition: tuple[Scalar, ...]
    clause: Literal["WHERE", "HAVING", "QUALIFY"] = "WHERE"

    @property
    def detail(self) -> str:
        detail_text = conjunction(self.condition)
        return detail_text if self.clause == "WHERE" else f"{self.clause.lower()} {detail_text}"


@plan_node
class Aggregate(Logical):
    """GROUP BY: its grouping expressions, or the whole clause, uncut, in ``sets``.

    ``sets`` is ALL, or a clause with ROLLUP, CUBE or GROUPING SETS, which may group each row more than once.
    """

    child: Logical
    keys: tuple[Scalar, ...]
    sets: Scalar | None = None

    @property
    def is_all(self) -> bool:
        """Whether this is GROUP BY ALL."""
        return self.sets is not None and self.sets.text.upper() == "ALL"

    @property
    def detail(self) -> str:
        return f"by {', '.join(show_all(expressions(self)))}"


@plan_node
class Windows(Logical):
    """WINDOW name AS (…): named windows."""

    child: Logical
    definitions: Scalar

    @property
    def detail(self) -> str:
        return self.definitions.shown


@plan_node
class Project(Logical):
    """The select list; ``hint`` is its blocks of hints, ``quantifier`` DISTINCT or ALL where written.

    ``from_first``: FROM is written before it.  ``names``: what its items were before a rule has named them otherwise.
    """

    child: Logical
    items: tuple[Scalar, ...]
    quantifier: str = ""
    hint: Scalar | None = None
    from_first: bool = False
    names: tuple[str, ...] | None = None

    @property
    def detail(self) -> str:
        detail_text = ", ".join(show_all(self.items))
        words = [w for w in (self.hint.shown if self.hint else "", self.quantifier.lower(), detail_text) if w]
        return " ".join(words)

    @property
    def output(self) -> tuple[str, ...]:
        return tuple(i.shown for i in self.items) if self.names is None else self.names


def clauses_of(project: Project) -> tuple[tuple[Filter | Aggregate | Windows, ...], Node]:
    """The clauses between a select list and FROM, the outermost first, and FROM; as a statement prints them."""
    clauses: list[Filter | Aggregate | Windows] = []
    node = unwrap(project.child)
    while isinstance(node, Filter | Aggregate | Windows):
        clauses.append(node)
        node = unwrap(node.child)
    return tuple(clauses), node


@plan_node
class Sort(Logical):
    """ORDER BY, SORT BY, DISTRIBUTE BY or CLUSTER BY: its keys, and the words behind each, as ``DESC NULLS LAST``."""

    child: Logical
    keyword: str
    keys: tuple[Scalar, ...]
    directions: tuple[str, ...]

    @property
    def is_order_by(self) -> bool:
        """Whether this orders all rows."""
        return self.keyword[:5].upper() == "ORDER"

    def listed(self, keys: Iterable[str]) -> str:
        """These texts in the place of the keys, each with its direction."""
        return ", ".join(f"{key} {direction}".rstrip() for key, direction in zip(keys, self.directions, strict=True))

    @property
    def shown(self) -> str:
        """The clause on one line."""
        return f"{self.keyword} {self.listed(show_all(self.keys))}"

    @property
    def detail(self) -> str:
        return after(self.keyword, "ORDER BY", self.listed(show_all(self.keys)))


@plan_node
class Limit(Logical):
    """LIMIT or OFFSET, and how many rows."""

    child: Logical
    keyword: str
    count: Scalar

    @property
    def keeps_a_row(self) -> bool:
        """Whether this is LIMIT with a number other than 0."""
        return self.keyword.upper() == "LIMIT" and self.count.text.isdigit() and int(self.count.text) > 0

    @property
    def detail(self) -> str:
        return after(self.keyword, "LIMIT", self.count.shown)
