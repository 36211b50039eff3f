"""Finds the key columns of a versioned table that a join condition compares with the other side."""

from __future__ import annotations

from sqlglot import exp

from dovetail.planner.bind.names import Resolver
from dovetail.planner.bind.scope import Scope
from dovetail.planner.catalog.declared import Versions
from dovetail.planner.conditions.compared import compared
from dovetail.planner.errors import Refused
from dovetail.planner.expr import quote
from dovetail.planner.logical import Join
from dovetail.planner.types.schema import Column


def missing_keys(join: Join, versions: Versions, columns: tuple[Column, ...], names: Resolver) -> tuple[str, ...]:
    """The columns of the key of ``versions`` that ON compares with nothing of the left side by ``=``.

    ``columns`` are those of the table on the right, under their own names.
    """
    scope = Scope.of(names, join.left, join.right)
    shown = [column.name for column in scope.sources[-1].columns or ()]
    found: set[str] = set()
    for conjunct in join.condition:
        try:
            comparison = compared(conjunct)
            if comparison is None or comparison.sign != "=":
                continue
            for end, other in (comparison.operands, comparison.operands[::-1]):
                if scope.bind(other).side == "left" and isinstance(end, exp.Column):
                    column = scope.column(end)
                    if scope.item(column) == 1 and column.column.name in shown:
                        found.add(columns[shown.index(column.column.name)].name)
        except Refused:
            continue
    return tuple(c for c in versions.key if c not in found)


def why_missing(missing: tuple[str, ...], versions: Versions, table: str, alias: str) -> str:
    """Return the message about key columns that the condition does not compare."""
    columns = ", ".join(f"{alias}.{quote(c)}" for c in missing)
    return f"the versions of {table} have the key ({', '.join(versions.key)}); compare {columns} with = in ON"
