"""A relation in the place of a lookup: the same name and columns, and plain SQL."""

from __future__ import annotations

from planner.expr import Scalar, quote
from planner.logical import Derived, Filter, OneRow, Project, Scan
from planner.types.schema import Column


def alias_of(scan: Scan) -> str:
    """What stands behind a table for its name and those of its columns."""
    renames = f"({', '.join(map(quote, scan.renames))})" if scan.renames else ""
    return f"AS {quote(scan.alias or scan.name[-1])}{renames}"


def stand_in(scan: Scan, columns: tuple[Column, ...]) -> Derived:
    """An empty relation with these columns, for a query that Spark shall only analyse."""
    items = tuple(Scalar(f"CAST(NULL AS {c.type and c.type.sql}) AS {quote(c.name)}") for c in columns)
    query = Project(Filter(OneRow(), (Scalar("false"),)), items)
    return Derived(query, scan.alias, scan.renames, alias_of(scan))
