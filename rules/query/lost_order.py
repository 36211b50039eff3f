"""Correlated subqueries with ORDER BY and LIMIT of which Spark loses the order.

Spark turns LIMIT of a correlated subquery into a window that numbers the rows of each outer value, and sorts it by
ORDER BY only where its columns are in the SELECT list:

    (SELECT q.price FROM quotes q WHERE q.sym = t.sym AND q.ts <= t.ts ORDER BY q.ts DESC LIMIT 1)    any of these rows
    (SELECT x.v FROM (SELECT q.price AS v, q.ts AS o FROM … ORDER BY o DESC LIMIT 1) AS x)            the last one

A few rows come in the right order by chance.  docs/where-spark-is-wrong.md has a case, and the versions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from dovetail.planner.bind.correlation import is_correlated
from dovetail.planner.bind.names import Resolver
from dovetail.planner.expr import Scalar, name_of_item, quote
from dovetail.planner.expr.scalar import is_star
from dovetail.planner.expr.substitution import without_alias
from dovetail.planner.logical import Derived, Limit, Logical, Project, Sort, Wrapped
from dovetail.planner.logical.relations import alias_clause, inner_queries
from dovetail.planner.tree import Node

_RELATION, _VALUE, _KEY = "__dt_ordered", "__dt_value", "__dt_key"


@dataclass(frozen=True)
class LostOrder:
    """Such a subquery: its outermost LIMIT or OFFSET, its ORDER BY, and its SELECT list."""

    limit: Limit
    sort: Sort
    project: Project


def lost_orders(plan: Logical, names: Resolver) -> tuple[LostOrder, ...]:
    """Find these subqueries in a plan as it was read."""
    found = (_read(query) for node in plan.walk() for query in inner_queries(node))
    return tuple(one for one in found if one and is_correlated(one.limit, names))


def with_kept_orders(plan: Logical, found: tuple[LostOrder, ...]) -> Logical | None:
    """The plan with the keys of ORDER BY in the SELECT lists of these subqueries, so that Spark keeps their order.

    None if such a list has columns without names.
    """
    limits = {one.limit: names for one in found if (names := _names(one.project))}
    if len(limits) < len({one.limit for one in found}):
        return None

    def keep(node: Node) -> Node:
        below = node.map_nodes(keep)
        return _kept(below, limits[node]) if node in limits else below  # type: ignore[arg-type]

    return keep(plan)  # type: ignore[return-value]


def _read(query: Node) -> LostOrder | None:
    while isinstance(query, Wrapped):
        query = query.child
    sort = query
    while isinstance(sort, Limit):
        sort = sort.child
    if not (isinstance(query, Limit) and isinstance(sort, Sort) and sort.is_order_by):
        return None
    project = sort.child
    if not isinstance(project, Project) or project.quantifier or all(_is_shown(key, project) for key in sort.keys):
        return None
    return LostOrder(query, sort, project)


def _is_shown(key: Scalar, project: Project) -> bool:
    """Whether a key of ORDER BY is an item of the list, by its expression, its alias or its position."""
    tree, items = key.known, [item.known for item in project.items]
    if tree is None or isinstance(tree, exp.Literal):
        return True
    return any(item is None or is_star(item) or _shows(item, tree) for item in items)


def _shows(item: exp.Expression, key: exp.Expression) -> bool:
    short = not key.args.get("table") or (isinstance(item, exp.Column) and not item.table)
    return key == item.unalias() or (short and key.name.lower() == name_of_item(item).lower() != "")


def _names(project: Project) -> tuple[str, ...]:
    """The names of the columns of a list, empty if one has none; for a single one any name will do."""
    found = tuple(name_of_item(item.known) for item in project.items)
    return found if all(found) else (_VALUE,) if len(found) == 1 else ()


def _kept(query: Limit, names: tuple[str, ...]) -> Project:
    """``SELECT names FROM (SELECT items, keys … ORDER BY keys LIMIT …)``."""

    def rebuild(node: Logical) -> Logical:
        if isinstance(node, Limit):
            return replace(node, child=rebuild(node.child))
        assert isinstance(node, Sort)
        assert isinstance(node.child, Project)
        keys = tuple(f"{_KEY}{number}" for number in range(len(node.keys)))
        named = zip((*node.child.items, *node.keys), (*names, *keys), strict=True)
        items = tuple(replace(bare := without_alias(one), text=f"{bare.text} AS {quote(name)}") for one, name in named)
        return replace(node, child=replace(node.child, items=items), keys=tuple(map(Scalar, keys)))

    ordered = Derived(rebuild(query), _RELATION, (), alias_clause(_RELATION))
    return Project(ordered, tuple(Scalar(f"{_RELATION}.{quote(name)}") for name in names))
