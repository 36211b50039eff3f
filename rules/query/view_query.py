"""The query that a view stands for, with its names as the view finds them."""

from __future__ import annotations

from dataclasses import replace

from planner.catalog import View
from planner.catalog.settings import check_meaning
from planner.errors import Unsupported
from planner.logical import Cte, Logical, Scan
from planner.sql.from_sql import from_sql
from planner.sql.names import Resolver
from planner.tree import Node, transform_up
from rules.rule import Context


def view_query(view: View, ctx: Context) -> tuple[Logical, Resolver]:
    """The query of a view, its tables named in full, and what resolves the columns in it.

    Raises ``Unsupported`` where the text means another thing in this session, or cannot be read.
    """
    if setting := ctx.catalog.other_setting(view):
        raise Unsupported(f"{setting} has changed since the view was made")
    check_meaning(view.text, ctx.catalog.settings)
    query, _ = from_sql(view.text, ctx.catalog.settings)
    fold = ctx.names.fold
    temporary = {tuple(map(fold, name)) for name in view.temporary}

    def at_home(node: Node) -> Node:
        if not isinstance(node, Scan) or node.cte or len(node.name) > 1 or tuple(map(fold, node.name)) in temporary:
            return node
        return replace(node, name=(*view.namespace, *node.name))

    found: Logical = transform_up(query, at_home)  # type: ignore[assignment]
    return found, Resolver(ctx.catalog, {n.key: n for n in found.walk() if isinstance(n, Cte)})
