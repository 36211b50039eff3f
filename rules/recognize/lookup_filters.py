"""Adds filters of WHERE to lookup joins, so that they fetch no keys for left rows that WHERE removes."""

from dataclasses import replace

from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar
from dovetail.planner.logical import Filter, Join, Logical, Nested, nodes_of_from
from dovetail.planner.logical.lookup import LookupJoin
from dovetail.rules.context import Context
from dovetail.rules.query.decorrelation import check_deterministic
from dovetail.rules.rule import rule


@rule(Filter, needs=(LookupJoin,), streams="any")
def lookup_filters(node: Filter, ctx: Context) -> Logical | None:
    """Fetch nothing for left rows that WHERE removes.

    The conditions stay in WHERE as well.
    """
    if node.clause != "WHERE" or not any(isinstance(n, LookupJoin) for n in nodes_of_from(node.child)):
        return None
    deterministic = []
    for conjunct in node.condition:
        try:
            check_deterministic(conjunct)
            found = ctx.scope(node.child).bind(conjunct).relations
        except Refused:
            continue
        if found:
            deterministic.append((conjunct, found))
    tree = _noted(node.child, 0, deterministic, ctx)
    return None if tree is node.child else Filter(tree, node.condition, node.clause)


def _noted(tree: Logical, first: int, deterministic: list[tuple[Scalar, frozenset[int]]], ctx: Context) -> Logical:
    """The tree, its relations numbered from ``first``; sides that a join fills up with NULL are not gone into."""
    match tree:
        case LookupJoin():
            left = _noted(tree.left, first, deterministic, ctx)
            own = range(first, first + len(ctx.names.sources(tree.left)))
            more = tuple(c for c, found in deterministic if found <= set(own) and c not in tree.only)
            return tree if left is tree.left and not more else replace(tree, left=left, only=(*tree.only, *more))
        case Nested() if not tree.alias:
            child = _noted(tree.child, first, deterministic, ctx)
            return tree if child is tree.child else replace(tree, child=child)
        case Join():
            left, right = tree.left, tree.right
            if tree.kind in ("inner", "cross", "left", "semi", "anti"):
                left = _noted(left, first, deterministic, ctx)
            if tree.kind in ("inner", "cross", "right"):
                right = _noted(right, first + len(ctx.names.sources(tree.left)), deterministic, ctx)
            return tree if left is tree.left and right is tree.right else replace(tree, left=left, right=right)
    return tree
