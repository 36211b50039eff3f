"""Which operators of a plan of Spark Connect are written as SQL: joins, and what is above and between them.

Operators over tables that are read again are written, too (``connect_tables``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from dovetail.executor.connect.plan import RelationNode, enum_name
from dovetail.executor.connect.tables import PROJECTS, TableRead, operators_over_tables

ORDERED = ("limit", "sort")
_ABOVE_JOINS = (*PROJECTS, *ORDERED, "aggregate", "filter", "subquery_alias", "deduplicate", "set_op")


class WrittenJoins:
    """The operators of a plan that are written.  What is below them is a relation, and is carried over as it is.

    ``is_cached``: whether the server has the rows of a relation already.
    """

    def __init__(self, plan: RelationNode, is_cached: Callable[[Any], bool]) -> None:
        self.plan, self.is_cached = plan, is_cached
        self._found: dict[RelationNode, bool] = {}
        self._over_tables: dict[RelationNode, TableRead] = {}
        if self.are_at(plan):
            self._over_tables = operators_over_tables(self.relations(), is_cached)

    def are_at(self, node: RelationNode) -> bool:
        """Whether an operator, or one below it, is a join that is written."""
        if node not in self._found:
            below = _is_written(node) and (node.name == "join" or any(map(self.are_at, node.children)))
            self._found[node] = below and not self.is_cached(node.message)
        return self._found[node]

    def writes(self, node: RelationNode) -> bool:
        """Whether an operator is written: it has a join, or is over a table that is read again."""
        return self.are_at(node) or node in self._over_tables

    def read_of(self, node: RelationNode) -> TableRead | None:
        """The read of a table that an operator is part of; None for what has a join."""
        return self._over_tables.get(node)

    def carry(self, read: TableRead) -> None:
        """Write none of the operators over a table."""
        for operator in read.operators:
            del self._over_tables[operator]

    def why_none(self) -> str:
        """Why the plan has no join that is written."""
        node = self.plan
        while node.name != "join" and _is_written(node) and len(node.children) == 1:
            if self.is_cached(node.message):
                break
            node = node.child
        below = [part.name for part, _ in node.walk()]
        if "join" in below:
            if _is_written(node):
                return "the rows of the DataFrame are cached, so Spark has them already"
            return f"the joins of the DataFrame are below {node.name}, which is not written as SQL"
        if "sql" in below:
            return "the DataFrame has no join but those in the text of its SQL, which opt.sql() takes"
        return "the DataFrame has no join"

    def depth(self, node: RelationNode) -> int:
        """Return how many operators with a join below them follow each other."""
        deepest = max((self.depth(child) for child in node.children if self.are_at(child)), default=0)
        return deepest + (node.name != "subquery_alias")

    def relations(self) -> list[RelationNode]:
        """The largest parts of the plan that are not written."""
        return list(self._parts(self.plan, ()))

    def unnamed(self) -> list[RelationNode]:
        """The parts of the plan whose columns the server may name: relations, and operators with expressions."""
        return list(self._parts(self.plan, ("project", "aggregate")))

    def _parts(self, node: RelationNode, operators: tuple[str, ...]) -> Iterator[RelationNode]:
        """The relations below an operator, and the operators of these names that are not the plan itself."""
        if not self.writes(node):
            yield node
            return
        if node is not self.plan and node.name in operators:
            yield node
        for child in node.children:
            yield from self._parts(child, operators)


def _is_written(node: RelationNode) -> bool:
    """Whether an operator is written where there is a join below it."""
    operator = node.operator
    match node.name:
        case "sort":
            return bool(operator.is_global)
        case "deduplicate":
            return bool(operator.all_columns_as_keys and not operator.within_watermark)
        case "set_op":
            return not (operator.by_name or operator.allow_missing_columns)
        case "aggregate":
            return enum_name(operator, "group_type") == "GROUP_TYPE_GROUPBY"
    return node.name == "join" or node.name in _ABOVE_JOINS
