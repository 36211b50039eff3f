"""Parses the query of a view of the catalog, and resolves its names as Spark does when it reads the view."""

from __future__ import annotations

from dataclasses import replace

from dovetail.planner.bind.names import Resolver
from dovetail.planner.catalog import View
from dovetail.planner.catalog.settings import check_settings
from dovetail.planner.errors import Unsupported
from dovetail.planner.expr import quote
from dovetail.planner.logical import Cte, Logical, Scan
from dovetail.planner.sql.from_sql import from_sql
from dovetail.planner.tree import Node, transform_up
from dovetail.rules.context import Context


def query_of_view(view: View, ctx: Context) -> tuple[Logical, Resolver]:
    """Return the query of a view, with full table names, and the resolver of its columns.

    Raises ``Unsupported`` where the text means another thing in this session, or cannot be read.
    """
    if setting := ctx.catalog.changed_setting(view):
        raise Unsupported(f"{setting} has changed since the view was made")
    check_settings(view.text, ctx.catalog.settings)
    query, _ = from_sql(view.text, ctx.catalog.settings)

    def named(node: Node) -> Node:
        return qualify_table(node, view, ctx) if isinstance(node, Scan) else node

    found: Logical = transform_up(query, named)  # type: ignore[assignment]
    return found, Resolver(ctx.catalog, {n.key: n for n in found.walk() if isinstance(n, Cte)})


def qualify_table(scan: Scan, view: View, ctx: Context) -> Scan:
    """Qualify a table of a view's text with the catalog and database of the view."""
    if scan.cte or len(scan.name) != 1 or is_temporary(scan, view, ctx):
        return scan
    name = (*view.namespace, *scan.name)
    return replace(scan, name=name, text=".".join(map(quote, name)))


def is_temporary(scan: Scan, view: View, ctx: Context) -> bool:
    """Whether a table of a view's text is a temporary view, which has no database."""
    return ctx.names.folded(scan.name) in map(ctx.names.folded, view.temporary)
