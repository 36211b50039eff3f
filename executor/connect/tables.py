"""Which operators over tables are written as SQL, although no join is below them.

Rules for self-joins compare the ways in which a statement reads a table.  So where a DataFrame reads a table in more
than one way, the aliases, filters and aggregates over this table are written, and so are the filters of other tables,
which decide how many rows a window would sort.  Here a table is whatever these operators read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from typing import Any

from dovetail.executor.connect.plan import RelationNode, enum_name

PROJECTS = ("project", "with_columns", "with_columns_renamed", "drop", "to_df")
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
        found = takewhile(lambda node: _is_alias(node) or node.name == "filter", self.operators)
        return TableRead(self.relation, tuple(found))


class TableRefused(Exception):
    """An operator over a table cannot be written; the plan can, if all operators of its read are carried over."""

    def __init__(self, read: TableRead) -> None:
        super().__init__(read)
        self.read = read


def operators_over_tables(
    relations: Iterable[RelationNode], is_cached: Callable[[Any], bool]
) -> dict[RelationNode, TableRead]:
    """Return the operators that are written, each with its read; ``is_cached`` as for ``WrittenJoins``."""
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
    return [read for read in found if not read.table.children and any(node.name == "filter" for node in read.operators)]


def _read(relation: RelationNode, is_cached: Callable[[Any], bool]) -> TableRead:
    found: list[RelationNode] = []
    node = relation
    while _can_be_over_table(node) and not is_cached(node.message):
        found.append(node)
        node = node.child
    aggregates = [n for n, operator in enumerate(found) if operator.name == "aggregate"]
    last = aggregates[-1] + 1 if aggregates else 0
    below = takewhile(lambda operator: operator.name not in PROJECTS, found[last:])
    operators = (*found[:last], *below)
    return TableRead(relation, operators if len(operators) <= _MOST_OPERATORS else ())


def _can_be_over_table(node: RelationNode) -> bool:
    """Whether an operator may be written: an alias, a filter, an aggregate, and columns of an aggregate."""
    if node.name == "aggregate":
        return enum_name(node.operator, "group_type") == "GROUP_TYPE_GROUPBY"
    return node.name in ("subquery_alias", "filter", *PROJECTS)


def _is_alias(node: RelationNode) -> bool:
    return node.name == "subquery_alias"


def _table(read: TableRead) -> bytes:
    return read.table.identity
