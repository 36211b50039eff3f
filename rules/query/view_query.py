"""The query that a view stands for, with its names as the view finds them."""

from __future__ import annotations

from dataclasses import replace

from planner.catalog import View
from planner.catalog.settings import check_meaning
from planner.errors import Unsupported
from planner.expr import quote
from planner.logical import Cte, Logical, Scan
from planner.sql.from_sql import from_sql
from planner.sql.names import Resolver
from planner.tree import Node, transform_up
from rules.context import Context


def view_query(view: View, ctx: Context) -> tuple[Logical, Resolver]:
    """The query of a view, its tables named in full, and what resolves the columns in it.

    Raises ``Unsupported`` where the text means another thing in this session, or cannot be read.
    """
    if setting := ctx.catalog.other_setting(view):
        raise Unsupported(f"{setting} has changed since the view was made")
    check_meaning(view.text, ctx.catalog.settings)
    query, _ = from_sql(view.text, ctx.catalog.settings)

    def named(node: Node) -> Node:
        return at_home(node, view, ctx) if isinstance(node, Scan) else node

    found: Logical = transform_up(query, named)  # type: ignore[assignment]
    return found, Resolver(ctx.catalog, {n.key: n for n in found.walk() if isinstance(n, Cte)})


def at_home(scan: Scan, view: View, ctx: Context) -> Scan:
    """A table of a view's text, with the catalog and database in which the view finds it."""
    if scan.cte or len(scan.name) != 1 or is_temporary(scan, view, ctx):
        return scan
    name = (*view.namespace, *scan.name)
    return replace(scan, name=name, text=".".join(map(quote, name)))


def is_temporary(scan: Scan, view: View, ctx: Context) -> bool:
    """Whether a table of a view's text is a temporary view, which has no database."""
    return tuple(map(ctx.names.fold, scan.name)) in {tuple(map(ctx.names.fold, name)) for name in view.temporary}
