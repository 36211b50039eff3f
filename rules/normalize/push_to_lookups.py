"""Pushes conditions of WHERE down to lookup joins: ``FROM Orders o, Customers FOR … c WHERE …``."""

from dataclasses import replace

from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar
from dovetail.planner.logical import Filter, Join, Logical, Scan
from dovetail.rules.context import Context
from dovetail.rules.query.decorrelation import check_deterministic
from dovetail.rules.query.query_block import move_conjuncts
from dovetail.rules.rule import rule


@rule(Filter, streams="any")
def push_to_lookups(node: Filter, ctx: Context) -> Logical | None:
    """Move a WHERE condition on a lookup's columns into its inner join, where it becomes a key or limits the fetch.

    Nothing moves into an outer, semi or anti join, where a condition in ON means something else.
    """
    if node.clause != "WHERE" or not _lookups(node.child, ctx):
        return None
    return move_conjuncts(node.child, node.condition, lambda conjunct, tree: _place(conjunct, tree, ctx))


def _is_lookup(join: Join, ctx: Context) -> bool:
    return isinstance(join.right, Scan) and ctx.names.lookup(join.right) is not None


def _lookups(tree: Logical, ctx: Context) -> bool:
    """Whether a FROM tree has an inner lookup join on its left spine."""
    while isinstance(tree, Join):
        if tree.kind in ("inner", "cross") and _is_lookup(tree, ctx):
            return True
        tree = tree.left
    return False


def _place(conjunct: Scalar, tree: Logical, ctx: Context) -> Join | None:
    """The tree with the conjunct in the lookup join that brings its last column; None if there is none."""
    if not isinstance(tree, Join) or tree.natural:
        return None
    try:
        check_deterministic(conjunct)
        middle = len(ctx.names.sources(tree.left))
        sides = {number >= middle for number in ctx.scope(tree).bind(conjunct).relations}
    except Refused:
        return None
    if True in sides:
        if tree.kind not in ("inner", "cross") or tree.using or not _is_lookup(tree, ctx):
            return None
        keyword = "JOIN" if tree.kind == "cross" else tree.keyword
        return Join(tree.left, tree.right, "inner", keyword, (*tree.condition, conjunct))
    if not sides or tree.kind in ("right", "full"):
        return None  # what WHERE drops, such a join would bring back with nulls
    below = _place(conjunct, tree.left, ctx)
    return below and replace(tree, left=below)
