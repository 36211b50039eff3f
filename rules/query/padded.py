"""Columns that are more than their values.

Spark pads what a CHAR is compared with, and shows ``_metadata`` of a file, only where they are columns of a table.
A LATERAL subquery, lag() and max() make another column of them.  And a name that a LATERAL subquery of one row gives to
a column hides the relation of that name from the columns behind it.
"""

from __future__ import annotations

from collections.abc import Iterable

from planner.expr import Scalar
from planner.logical import Logical
from planner.sql.names import Resolver, Unresolved
from planner.tree import Node
from planner.types.schema import Column
from rules.context import Context
from rules.query.correlation import words_of

_HIDDEN = "_metadata"


def check_values(relations: Iterable[Logical], block: Node, ctx: Context) -> None:
    """Raise ``Unresolved`` where a block asks for such a column of relations whose columns shall be other ones'."""
    for relation in relations:
        words: set[str] | None = None
        for source in ctx.names.sources(relation):
            words = words_of(block, ctx.names, but=relation) if words is None else words
            if _HIDDEN in words and _HIDDEN not in {c.name for c in source.columns or ()}:
                raise Unresolved(f"{_HIDDEN} is no column of a subquery")
            for column in source.columns or ():
                if ctx.names.fold(column.name) in words or "*" in words:
                    check_value(column)


def check_value(column: Column) -> None:
    """Raise ``Unresolved`` for a CHAR."""
    if column.type is not None and column.type.name == "char":
        raise Unresolved(f"{column.name} is a CHAR, which Spark compares in another way behind a subquery")


def check_aliases(items: tuple[Scalar, ...], names: Resolver) -> None:
    """Raise ``Unresolved`` where an item without FROM names what an item before it is called."""
    before: set[str] = set()
    for item in items:
        for column in item.columns:
            if names.fold(column.parts[0]) in before:
                raise Unresolved(f"a column is called {column.parts[0]}, which is the name of a relation, too")
        before.add(names.fold(item.tree.alias_or_name))
