"""Finds names that are certainly no column of the relations around them, as Spark's analyzer would.

A name is looked up in its own query block, in all blocks around it, and among the aliases of their select lists.  A
block in which a relation or an alias is not known is left out, and so are names that Spark may find elsewhere: hidden
columns such as ``_metadata``, names with a database, and words such as the DAY of ``date_add(DAY, 1, ts)``.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from dovetail.planner.bind.names import Resolver
from dovetail.planner.bind.scope import Scope
from dovetail.planner.catalog import Catalog
from dovetail.planner.errors import NoSuchColumn, Place, Refused
from dovetail.planner.expr import ColumnRef, Scalar, is_star
from dovetail.planner.logical import Aggregate, Cte, Derived, Filter, Join, LateralView, Logical, Project, Sort
from dovetail.planner.logical.base import expressions
from dovetail.planner.logical.relations import nodes_of_from
from dovetail.planner.tree import Node
from dovetail.rules.query.query_block import QueryBlock, read_block

_WORDS = frozenset(
    "all grouping__id window session_window "
    "microsecond millisecond second minute hour day dayofyear week month quarter year "
    "microseconds milliseconds seconds minutes hours days weeks months quarters years".split()
)
_CHECKED = (Aggregate, Filter, Join, LateralView, Project)


def find_missing_columns(plan: Logical, catalog: Catalog) -> Iterator[tuple[ColumnRef, Place | None]]:
    """Yield each name of a statement as it was read that is no column, with its place."""
    names = Resolver(catalog, {node.key: node for node in plan.walk() if isinstance(node, Cte)})
    yield from _of_query(plan, names, None, frozenset())


def _of_query(
    query: Node, names: Resolver, outer: Scope | None, aliases: frozenset[str]
) -> Iterator[tuple[ColumnRef, Place | None]]:
    block = read_block(query)
    if block is None:
        for child in (*query.children, *query.subplans):
            yield from _of_query(child, names, outer, aliases)
        return
    scope = Scope.of(names, *_items(block.tree), outer=outer)
    own = _aliases(block, names)
    aliases |= own or frozenset()
    checked = () if own is None else _CHECKED if "" in own else (*_CHECKED, Sort)  # which sees columns without alias
    waiting: list[Node] = [query]
    while waiting:
        node = waiting.pop()
        for scalar in expressions(node) if isinstance(node, checked) else ():
            yield from _missing(scalar, scope, aliases)
        for subquery in node.subplans:
            yield from _of_query(subquery, names, scope, aliases)
        for child in node.children:
            if isinstance(node, Cte | Derived):
                yield from _of_query(child, names, scope, aliases)
            else:
                waiting.append(child)


def _items(tree: Node) -> Iterator[Node]:
    """What a condition of FROM can name: the relations, and the right sides of semi and anti joins."""
    yield tree
    for node in nodes_of_from(tree):
        if isinstance(node, Join) and node.kind in ("semi", "anti"):
            yield node.right


def _aliases(block: QueryBlock, names: Resolver) -> frozenset[str] | None:
    """The names that the select list gives; None if one of its items is only text."""
    found: set[str] = set()
    for item in block.project.items:
        tree = item.known
        if tree is None:
            return None
        if not (is_star(tree) or (isinstance(tree, exp.Column) and len(tree.parts) == 1)):
            given = (tree.output_name, *(a.name for a in tree.expressions if isinstance(tree, exp.Aliases)))
            found.update(names.folded(given))
    return frozenset(found)


def _missing(scalar: Scalar, scope: Scope, aliases: frozenset[str]) -> Iterator[tuple[ColumnRef, Place | None]]:
    try:
        columns = scalar.columns
    except Refused:
        return
    for ref in columns:
        first = scope.names.folded(ref.parts)[0]
        plain = len(ref.parts) < 3 and all(part.isidentifier() and part[0] != "_" for part in ref.parts)
        if first in aliases or first.lower() in _WORDS or not plain:
            continue
        try:
            scope.column(ref)
        except NoSuchColumn:
            yield ref, _place(scalar, ref)
        except Refused:
            continue


def _place(scalar: Scalar, ref: ColumnRef) -> Place | None:
    """The place of a name in an expression; that of the expression where a subquery stands before it."""
    at = scalar.text.find(ref.text)
    before = scalar.text[: max(at, 0)]
    if scalar.place is None or scalar.plans:
        return scalar.place
    lines = before.count("\n")
    column = len(before) - before.rfind("\n") if lines else scalar.place.column + len(before)
    return Place(scalar.place.line + lines, column)
