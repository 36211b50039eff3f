"""Replaces views by their queries: ``SELECT … FROM v``, where v joins by a band or keys, or reads a joined table."""

from __future__ import annotations

from dovetail.planner.catalog import View
from dovetail.planner.errors import Refused, Unsupported
from dovetail.planner.expr import Scalar
from dovetail.planner.hints.blocks import NO_DOVETAIL, find_hint
from dovetail.planner.logical import Derived, Filter, Join, Logical, Scan
from dovetail.planner.tree import Node
from dovetail.rules.context import Context
from dovetail.rules.query.catalog_views import qualify_table
from dovetail.rules.query.decorrelation import has_band_or_keys
from dovetail.rules.query.view_as_subquery import Names, read_view, tables_of, view_as_subquery
from dovetail.rules.rule import rule

_DEEPEST = 20


@rule(Scan)
def inline_views(scan: Scan, ctx: Context) -> Logical | None:
    """Replace a view by its query where that could join by a band or keys, or reads a table of the statement.

    Spark does this as well, but later; the rules need to see now that there is a band, or that a table is joined with
    itself.  Names inside the view are qualified, so that they mean the same tables as in the view.  A view stays as it
    is if its query has the hint NO_DOVETAIL, if it was made under other settings, or if its query no longer returns the
    columns that it had when it was made.
    """
    return _inlined(scan, ctx, 0)


def _inlined(scan: Scan, ctx: Context, depth: int) -> Derived | None:
    """Return the subquery that replaces a scan of a view; None if no rule needs it, or its meaning could change."""
    if scan.cte or not scan.plain or depth > _DEEPEST:
        return None
    view = ctx.catalog.view(scan.name)
    if view is None:
        return None
    if find_hint(view.text, NO_DOVETAIL):
        return ctx.decline(f"the view {scan.text} stays a view: its query has the hint {NO_DOVETAIL}")
    try:
        query = read_view(view, ctx)
    except Unsupported:
        return None
    inside = tuple(_inlined(qualify_table(n, view, ctx), ctx, depth + 1) for n in tables_of(query))
    met = _met(scan, query, view, ctx)
    joins_its_table = met and not ctx.catalog.keys(scan.name)  # keys of its own, which its query would not show
    if not any(inside) and not has_band_or_keys(_conjuncts(query)) and not joins_its_table:
        return None
    try:
        return view_as_subquery(scan, view, query, met, ctx)
    except Refused as no:
        return ctx.decline(f"the view {scan.text} stays a view: {no}")


def _met(scan: Scan, query: Node, view: View, ctx: Context) -> dict[Names, Names]:
    """The tables of a view that the statement reads too, by their full names, as the statement names them."""
    tables = {qualify_table(n, view, ctx).name for n in tables_of(query)}
    alike = [table[-1] for table in tables]
    names = [n for n in sorted(ctx.scanned) if n != scan.name and ctx.names.is_among(n[-1], alike)]
    known = {ctx.catalog.identity(n): n for n in names if not ctx.names.defines(n)}
    if not known:
        return {}
    return {table: known[own] for table in tables if (own := ctx.catalog.identity(table)) in known}


def _conjuncts(query: Node) -> tuple[Scalar, ...]:
    return tuple(c for n in query.walk() if isinstance(n, Join | Filter) for c in n.condition)
