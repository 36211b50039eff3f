"""Derives unique keys of relations: from declared keys, GROUP BY, DISTINCT and set operations.

A key of a table passes through filters, renames, subqueries, WITH and views.  Whatever may duplicate rows ends it:
joins (except semi and anti joins), UNION ALL, functions that may return several rows.
"""

from __future__ import annotations

from collections.abc import Iterable

from dovetail.planner.bind.names import Resolver
from dovetail.planner.bind.scope import Scope
from dovetail.planner.bind.select_list import SelectList
from dovetail.planner.errors import Refused, Unsupported
from dovetail.planner.expr.aggregate_calls import aggregates_rows
from dovetail.planner.expr.calls import GENERATORS, unknown, volatile
from dovetail.planner.logical import (
    Derived,
    Join,
    Limit,
    Logical,
    Nested,
    Project,
    Scan,
    SetOp,
    Sort,
    With,
    Wrapped,
)
from dovetail.planner.logical.alternatives import Alternatives
from dovetail.planner.tree import Node
from dovetail.rules.context import Context
from dovetail.rules.query.catalog_views import query_of_view
from dovetail.rules.query.grouping import grouping_expressions
from dovetail.rules.query.query_block import QueryBlock, read_block

Unique = frozenset[frozenset[str]]  # sets of names, folded; the empty set is unique where there is one row at most

_NONE: Unique = frozenset()
_ONE_ROW: Unique = frozenset((frozenset(),))


def unique_keys(relation: Node, ctx: Context, *, nulls: bool = False) -> Unique:
    """The sets of columns of a relation in FROM or of a query, by folded name, in which no two of its rows agree.

    Rows with a NULL in a set do not count; with ``nulls`` they do, and a NULL is equal to another.
    """
    if (relation, nulls) not in ctx.unique:
        ctx.unique[relation, nulls] = _Keys(ctx, ctx.names, nulls).of(relation)
    return ctx.unique[relation, nulls]


class _Keys:
    def __init__(self, ctx: Context, names: Resolver, nulls: bool, views: frozenset[tuple[str, ...]] = frozenset()):
        self.ctx = ctx
        self.names = names
        self.nulls = nulls
        self.views = views

    def of(self, relation: Node) -> Unique:
        """The keys of a relation in FROM."""
        match relation:
            case Nested() if relation.alias is None:
                return self.of(relation.child)
            case Join() if relation.kind in ("semi", "anti"):
                return self.of(relation.left)
            case Derived() if not relation.lateral:
                return self.renamed(self.query(relation.query), relation.query, relation.renames)
            case Scan() if relation.cte:
                definition = self.names.definitions.get(relation.cte)
                if definition is None:
                    return _NONE
                found = self.renamed(self.query(definition.query), definition.query, definition.renames)
                return self.renamed(found, definition.query, relation.renames, definition.renames)
            case Scan():
                return self.table(relation) if relation.plain else _NONE
        return self.query(relation)

    def table(self, scan: Scan) -> Unique:
        """The keys of a table or view, as it is now."""
        trusted = self.ctx.thresholds.trust_informational_keys
        declared = () if self.nulls else self.ctx.catalog.keys(scan.name)
        if not self.nulls and (why := self.ctx.catalog.expired_key_reason(scan.name)):
            self.ctx.decline(why)
        found = frozenset(
            frozenset(self.names.folded(key.columns)) for key in declared if key.enforced or trusted
        ) | self.view(scan)
        columns = self.names.sources(Scan(scan.name, scan.text, None))[0].columns
        return self._renamed(found, (c.name for c in columns or ()), scan.renames)

    def view(self, scan: Scan) -> Unique:
        """Return the keys of a view's query, by the names of the view's columns."""
        view = None if scan.name in self.views else self.ctx.catalog.view(scan.name)
        if view is None or (shown := self.ctx.catalog.columns(scan.name)) is None:
            return _NONE
        try:
            query, names = query_of_view(view, self.ctx)
        except Unsupported:
            return _NONE
        found = _Keys(self.ctx, names, self.nulls, self.views | {scan.name}).query(query)
        return self._renamed(found, view.columns, (c.name for c in shown))

    def query(self, query: Node) -> Unique:
        """Return the keys of a query, by the names of its output columns."""
        match query:
            case With() | Sort() | Limit() | Wrapped():
                return self.query(query.child)
            case Alternatives():
                return self.query(query.written)
            case SetOp():
                plain = not isinstance(query.left, SetOp) and not isinstance(query.right, SetOp)
                return self.every(query.left) if plain and "ALL" not in query.keyword.upper().split() else _NONE
            case Project():
                try:
                    return self.block(query)
                except Refused:
                    return _NONE
        return _NONE

    def block(self, project: Project) -> Unique:
        """Return the keys of one SELECT.  Raises ``Refused``, ``Unsupported`` if its columns are unknown."""
        if any(i.plans or i.tree.find(*GENERATORS) or unknown(i.tree) for i in project.items):
            return _NONE
        block = read_block(project)
        scope = Scope.of(self.names, *([block.tree] if block else ()))
        shown = SelectList(project, scope)
        if block and block.aggregate:
            found = self.grouped(block, shown)
        elif any(map(aggregates_rows, project.items)):
            found = _ONE_ROW
        elif block and len(scope.sources) == 1:
            found = frozenset(key for k in self.of(block.tree) if (key := shown.all_of(k)) is not None)
        else:
            found = _NONE
        return found | self.every(project) if project.quantifier.upper() == "DISTINCT" else found

    def every(self, query: Logical) -> Unique:
        """Return all columns of a duplicate-free query as its key, if their names are unique."""
        names = self.names.folded(c.name for c in self.names.columns(query) or ())
        return frozenset((frozenset(names),)) if names and all(names) and len(set(names)) == len(names) else _NONE

    def grouped(self, block: QueryBlock, shown: SelectList) -> Unique:
        """Return the columns of a select list that are the grouping columns; nothing if one of these is missing."""
        keys = grouping_expressions(block, shown.scope)
        if any(key.plans or volatile(key.tree) for key in keys):
            return _NONE
        names = [shown.name_of(key.tree) for key in keys]
        return (
            frozenset((frozenset(self.names.folded(n for n in names if n is not None)),))
            if None not in names
            else _NONE
        )

    def renamed(self, found: Unique, query: Logical, renames: tuple[str, ...], before: tuple[str, ...] = ()) -> Unique:
        if not renames or not found:
            return found
        columns = self.names.columns(query)
        old = before or tuple(c.name for c in columns or ())
        return self._renamed(found, old, renames)

    def _renamed(self, found: Unique, before: Iterable[str], after: Iterable[str]) -> Unique:
        old, new = self.names.folded(before), self.names.folded(after)
        if not new or old == new:
            return found
        if len(old) != len(new) or len(set(old)) < len(old):
            return _NONE
        to = dict(zip(old, new, strict=True))
        return frozenset(frozenset(to[c] for c in key) for key in found if key <= to.keys())
