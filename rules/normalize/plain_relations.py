"""Unwraps plain tables: ``(t) x`` and ``(SELECT * FROM t) x`` become ``t x``."""

from __future__ import annotations

import re
from dataclasses import replace

from dovetail.planner.expr import quote
from dovetail.planner.logical import Derived, Filter, Join, Logical, Nested, Project, Scan, Sort
from dovetail.rules.context import Context
from dovetail.rules.rule import rule


@rule(Nested, Derived, Filter, Project, Join, needs=(Nested, Derived), streams="one")
def plain_relations(node: Logical, ctx: Context) -> Logical | None:
    """Remove parentheses around a table, and subqueries that return a whole table unchanged.

    Spark does this as well, but later; the rules for self-joins need to see that two relations are one table.
    Parentheses around the whole FROM clause are removed too, and so is an ORDER BY in one side of a join, since a
    join keeps no order.
    """
    match node:
        case Nested():
            return _nested(node)
        case Derived():
            return _derived(node)
        case Filter() | Project():
            child = _opened(node.child)
            return None if child is node.child else replace(node, child=child)
        case Join():
            left, right = _unsorted(_opened(node.left)), _unsorted(node.right)
            return None if left is node.left and right is node.right else replace(node, left=left, right=right)
    return None


def _opened(tree: Logical) -> Logical:
    """Return the relation inside parentheses without an alias."""
    return (
        tree.child if isinstance(tree, Nested) and tree.alias is None and isinstance(tree.child, Join | Scan) else tree
    )


def _nested(node: Nested) -> Scan | None:
    """The table of ``(t) AS x``."""
    child = node.child
    if node.alias is None or not isinstance(child, Scan) or not child.plain or child.renames or child.as_of:
        return None
    text = ".".join(map(quote, child.name)) if re.match(r"(?i)TABLE[\s`/]", child.text) else child.text  # TABLE t
    return replace(child, text=text, alias=node.alias, renames=node.renames, suffix=node.suffix)


def _derived(node: Derived) -> Logical | None:
    """The table of ``(SELECT * FROM t) AS x``."""
    query = node.query
    if node.lateral or not node.alias or not isinstance(query, Project) or query.quantifier or query.hint:
        return None
    table = query.child
    if not isinstance(table, Scan) or not table.plain or table.renames or table.as_of:
        return None
    if [item.text for item in query.items] != ["*"]:
        return None
    return replace(table, alias=node.alias, renames=node.renames, suffix=node.suffix)


def _unsorted(side: Logical) -> Logical:
    """A side of a join without its ORDER BY."""
    if not isinstance(side, Derived) or side.lateral or not isinstance(side.query, Sort):
        return side
    query = side.query
    if not query.is_order_by or not isinstance(query.child, Project):
        return side
    return replace(side, query=query.child)
