"""Placeholders for lookups in plain SQL: empty relations with the same name and columns."""

from __future__ import annotations

from dovetail.planner.expr import Scalar, quote
from dovetail.planner.logical import Derived, Filter, OneRow, Project, Scan
from dovetail.planner.logical.relations import alias_clause
from dovetail.planner.types.schema import Column


def alias_of(scan: Scan) -> str:
    """Return the alias clause of a table: its name and those of its columns."""
    return alias_clause(scan.alias or scan.name[-1], scan.renames)


def placeholder(scan: Scan, columns: tuple[Column, ...]) -> Derived:
    """Build an empty relation with these columns, for a query that Spark only analyzes."""
    items = tuple(Scalar(f"CAST(NULL AS {c.type and c.type.sql}) AS {quote(c.name)}") for c in columns)
    query = Project(Filter(OneRow(), (Scalar("false"),)), items)
    return Derived(query, scan.alias, scan.renames, alias_of(scan))
