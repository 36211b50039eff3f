"""Columns that a rewriting cannot compute in a subquery: CHAR columns, ``_metadata``, hidden names.

Spark pads the operand that a CHAR is compared with, and resolves ``_metadata`` of a file, only if they are columns of a
table.  A LATERAL subquery, lag() and max() return other columns.  And if a LATERAL subquery of one row names a column
like a relation, that column hides the relation from later references.
"""

from __future__ import annotations

from collections.abc import Iterable

from dovetail.planner.bind.names import Resolver
from dovetail.planner.bind.words import words_of
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar
from dovetail.planner.logical import Logical
from dovetail.planner.tree import Node
from dovetail.planner.types.schema import Column
from dovetail.rules.context import Context

_HIDDEN = "_metadata"


def check_values(relations: Iterable[Logical], block: Node, ctx: Context) -> None:
    """Raise ``Refused`` if a block uses such a column of a relation whose columns are about to be replaced."""
    for relation in relations:
        words = words_of(block, ctx.names, but=relation)
        for source in ctx.names.sources(relation):
            if _HIDDEN in words and _HIDDEN not in {c.name for c in source.columns or ()}:
                raise Refused(f"a subquery does not return {_HIDDEN}")
            for name, columns in source.columns_by_name.items():
                if name in words or "*" in words:
                    for column in columns:
                        check_value(column)


def check_value(column: Column) -> None:
    """Raise ``Refused`` for a CHAR."""
    if column.type is not None and column.type.name == "char":
        raise Refused(f"{column.name} is a CHAR, which Spark compares differently in a subquery")


def check_aliases(items: tuple[Scalar, ...], names: Resolver) -> None:
    """Raise ``Refused`` if an item without FROM uses a name that is the alias of an earlier item."""
    for number, item in enumerate(items):
        for column in item.columns:
            if names.is_among(column.parts[0], (before.tree.alias_or_name for before in items[:number])):
                raise Refused(f"{column.parts[0]} is the name of a column and of a relation")
