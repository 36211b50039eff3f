"""Replaces views by their queries: ``SELECT … FROM v``, where v joins by a band or keys, or reads a joined table."""

from __future__ import annotations

from dataclasses import replace

from dovetail.planner.bind.names import Resolver
from dovetail.planner.catalog import View
from dovetail.planner.catalog.settings import check_settings
from dovetail.planner.errors import Refused, Unsupported
from dovetail.planner.expr import Scalar, quote
from dovetail.planner.expr.calls import BUILT_IN
from dovetail.planner.expr.tokens import tokenize, words
from dovetail.planner.hints.blocks import NO_DOVETAIL, find_hint
from dovetail.planner.logical import Cte, Derived, Filter, Join, Logical, Scan, Statement, map_expressions
from dovetail.planner.logical.relations import alias_clause
from dovetail.planner.sql.from_sql import from_sql
from dovetail.planner.sql.to_sql import to_sql
from dovetail.planner.tree import Node, transform_up
from dovetail.planner.types.schema import Column
from dovetail.planner.types.typed import known_type
from dovetail.rules.context import Context
from dovetail.rules.query.catalog_views import is_temporary, qualify_table
from dovetail.rules.query.decorrelation import has_band_or_keys, is_text
from dovetail.rules.rule import rule

_DEEPEST = 20
Names = tuple[str, ...]
_CALLS = BUILT_IN | set("OVER FILTER WITHIN VALUES CHAR VARCHAR USING DISTINCT ALL CUBE ROLLUP SETS".split())


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


def read_view(view: View, ctx: Context) -> Logical:
    """The query of a view as it is written.  Raises ``Unsupported``."""
    check_settings(view.text, ctx.catalog.settings)
    query, _ = from_sql(view.text, ctx.catalog.settings)
    return query


def view_as_subquery(scan: Scan, view: View, query: Logical, met: dict[Names, Names], ctx: Context) -> Derived:
    """A subquery with the ``query`` of a view; ``met``: tables that the statement reads by another name.

    Raises ``Refused`` where it could mean something else, or return other columns.
    """
    _check_text(query, view)
    _check_place(query, view, ctx)
    return _derived(scan, view, _qualified(query, view, ".".join(map(quote, scan.name)), met, ctx), ctx)


def tables_of(query: Node) -> list[Scan]:
    """The tables and views that a query reads."""
    return [n for n in query.walk() if isinstance(n, Scan) and not n.cte]


def _check_text(query: Node, view: View) -> None:
    """Raise ``Refused`` unless every name in the text of a view can be resolved."""
    if isinstance(query, Statement) or words(to_sql(query)) != words(view.text):
        raise Refused("its query is not supported")
    if any(map(is_text, query.walk())):
        raise Refused("it holds something that Dovetail does not parse")
    t = tokenize(view.text)
    lists = {node.name.upper() for node in query.walk() if isinstance(node, Cte) and node.renames}
    for i in range(1, len(t)):
        called = t[i].word == "(" and t[i - 1].is_name and t.word(i - 2) != "AS"
        column_list = (
            t[i - 1].text.upper() in lists and t.word(i - 2) in ("WITH", ",") and t.word(t.match[i] + 1) == "AS"
        )
        if called and not column_list and t[i - 1].text.upper() not in _CALLS:
            raise Refused(f"{t[i - 1].text} could be a function of the view's own database")


def _check_place(query: Node, view: View, ctx: Context) -> None:
    """Raise ``Refused`` unless the text of a view means the same in this statement and session."""
    if "VIEW" in ctx.statement.upper().split():
        raise Refused("the new view would keep the present definition of the old one")
    if setting := ctx.catalog.changed_setting(view):
        raise Refused(f"{setting} has changed since the view was made")
    for table in tables_of(query):
        if ctx.names.defines(table.name) and is_temporary(table, view, ctx):
            raise Refused(f"{table.text} is a temporary view inside it, and a CTE of this statement")


def _qualified(query: Logical, view: View, prefix: str, met: dict[Names, Names], ctx: Context) -> Logical:
    """Qualify the names in a view's query, so that it means the same in any statement, and remove its places."""
    keys = {d.key: f"__dt_{prefix}_{d.key}" for d in query.walk() if isinstance(d, Cte)}

    def spell(node: Node) -> Node:
        if isinstance(node, Cte):
            key = keys[node.key]
            renames = f"({', '.join(map(quote, node.renames))})" if node.renames else ""
            node = replace(node, name=key, key=key, head=f"{quote(key)}{renames} AS")
        elif isinstance(node, Scan) and node.cte:
            key = keys[node.cte]
            suffix = node.suffix or alias_clause(node.alias or node.name[-1])
            node = replace(node, name=(key,), text=quote(key), cte=key, suffix=suffix)
        elif isinstance(node, Scan):
            node = qualify_table(node, view, ctx)
            name = met.get(node.name, node.name)
            node = replace(node, name=name, text=".".join(map(quote, name)) if name in met.values() else node.text)
        return map_expressions(node, lambda scalar: replace(scalar, place=None))

    return transform_up(query, spell)  # type: ignore[return-value]


def _derived(scan: Scan, view: View, query: Logical, ctx: Context) -> Derived:
    """Wrap a query in a subquery with the view's columns.  Raises ``Refused`` if they would differ."""
    alias = scan.alias or scan.name[-1]
    declared = ctx.catalog.columns(scan.name)
    own = {d.key: d for d in query.walk() if isinstance(d, Cte)}
    names = Resolver(ctx.catalog, {**ctx.definitions, **own})
    found = names.sources(Derived(query, alias))[0].columns
    if not declared or not found or tuple(c.name for c in found) != view.columns or len(declared) != len(found):
        raise Refused("its query no longer returns the columns that it had when it was made")
    for shown, made in zip(declared, found, strict=True):
        if known_type(made.type, f"its column {made.name}") != shown.type:
            raise Refused(f"its column {shown.name} would be cast")
    renames = scan.renames or _renames(declared, found)
    return Derived(query, alias, renames, scan.suffix if scan.renames else alias_clause(alias, renames))


def _renames(declared: tuple[Column, ...], found: tuple[Column, ...]) -> tuple[str, ...]:
    names = tuple(c.name for c in declared)
    return () if names == tuple(c.name for c in found) else names
