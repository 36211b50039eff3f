"""Which operators over tables are written as SQL, although no join is below them.

Rules for self-joins compare the ways in which a statement reads a table.  So where a DataFrame reads a table in more
than one way, the aliases, filters and aggregates over this table are written, and so are the filters of other tables,
which decide how many rows a window would sort.  Here a table is whatever these operators read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile

from dovetail.executor.connect.plan import RelationNode
from dovetail.executor.frame_sql.shape import PlanShape

_MOST_OPERATORS = 8  # subqueries add up to those of the joins


@dataclass(frozen=True)
class TableRead:
    """A relation, and the operators over its table, from the outermost in."""

    relation: RelationNode
    operators: tuple[RelationNode, ...]

    @property
    def table(self) -> RelationNode:
        """What the operators read."""
        return self.operators[-1].child if self.operators else self.relation

    def aliases(self) -> TableRead:
        """The same where only the aliases of the relation are operators."""
        return TableRead(self.relation, tuple(takewhile(_is_alias, self.operators)))

    def aliases_and_filters(self) -> TableRead:
        """The same where aggregates are part of the table."""
        found = takewhile(lambda node: _is_alias(node) or node.kind == "filter", self.operators)
        return TableRead(self.relation, tuple(found))


class WrittenOperators:
    """The operators of a plan that are written: those that have a join, and those over tables that are read again."""

    def __init__(self, shape: PlanShape[RelationNode]) -> None:
        self.shape = shape
        has_join = shape.has_join(shape.plan)
        self._reads = _operators_over_tables(shape.relations(), shape.is_cached) if has_join else {}

    def __contains__(self, node: RelationNode) -> bool:
        return self.shape.has_join(node) or node in self._reads

    def is_relation(self, node: RelationNode) -> bool:
        """Whether an operator over a table is the outermost, so that it can be carried over with those below it."""
        return node in self._reads and self._reads[node].relation is node

    def unnamed(self, node: RelationNode | None = None) -> Iterator[RelationNode]:
        """The parts of the plan whose columns the server may name: relations, and operators with expressions."""
        node = node or self.shape.plan
        if node not in self:
            yield node
            return
        if node is not self.shape.plan and node.name in ("project", "aggregate"):
            yield node
        for child in node.children:
            yield from self.unnamed(child)


def _operators_over_tables(
    relations: Iterable[RelationNode], is_cached: Callable[[RelationNode], bool]
) -> dict[RelationNode, TableRead]:
    """Return the operators over tables that are written, each with its read."""
    reads = [_read(relation, is_cached) for relation in relations]
    tables = [list(group) for _, group in groupby(sorted(reads, key=_table), key=_table)]
    if all(len(group) == 1 for group in tables):
        return {}
    written = [read for group in tables for read in (_read_again(group) if len(group) > 1 else _read_once(group))]
    return {operator: read for read in written for operator in read.operators}


def _read_again(reads: Sequence[TableRead]) -> list[TableRead]:
    """Write all operators over a table; but if all reads return the same rows, these rows are the table."""
    aliases = [read.aliases() for read in reads]
    return aliases if len(set(map(_table, aliases))) == 1 else list(reads)


def _read_once(reads: Sequence[TableRead]) -> list[TableRead]:
    """Write the filters of a table that is read once."""
    found = [read.aliases_and_filters() for read in reads]
    return [read for read in found if not read.table.children and any(node.kind == "filter" for node in read.operators)]


def _read(relation: RelationNode, is_cached: Callable[[RelationNode], bool]) -> TableRead:
    found: list[RelationNode] = []
    node = relation
    while node.kind in ("alias", "filter", "aggregate", "select") and not is_cached(node):
        found.append(node)
        node = node.child
    aggregates = [n for n, operator in enumerate(found) if operator.kind == "aggregate"]
    last = aggregates[-1] + 1 if aggregates else 0
    below = takewhile(lambda operator: operator.kind != "select", found[last:])
    operators = (*found[:last], *below)
    return TableRead(relation, operators if len(operators) <= _MOST_OPERATORS else ())


def _is_alias(node: RelationNode) -> bool:
    return node.kind == "alias"


def _table(read: TableRead) -> bytes:
    return read.table.identity
