"""Makes an outer join an inner join where an equality drops every row without a match.

    FROM a LEFT JOIN b ON a.b_id = b.id JOIN c ON b.k = c.k       without a match b.k is NULL, and equals nothing
    FROM a JOIN b ON a.b_id = b.id JOIN c ON b.k = c.k

Optimizers call it outer join elimination (Galindo-Legaria and Rosenthal, 1997).  Spark does it, too, but not before
state modules have read the query.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dovetail.planner.expr import Scalar
from dovetail.planner.logical import JOIN_KEYWORDS, Join, Logical
from dovetail.planner.state.bounds import equalities
from dovetail.planner.tree import transform_up
from dovetail.rules.context import Context
from dovetail.rules.query.from_items import INNER, read_from_items
from dovetail.rules.query.query_block import read_block


def outer_to_inner(query: Logical, ctx: Context) -> Logical:
    """Return a query of one SELECT with inner joins for the outer ones whose unmatched rows are dropped."""
    while join := _without_unmatched_rows(query, ctx):
        inner = replace(join, kind="inner", keyword=JOIN_KEYWORDS["inner"])
        query = _replaced(query, join, inner)
    return query


def _replaced(query: Logical, old: Join, new: Join) -> Logical:
    return transform_up(query, lambda node: new if node is old else node)  # type: ignore[return-value]


def _without_unmatched_rows(query: Logical, ctx: Context) -> Join | None:
    """Find an outer join of whose rows without a match none is left."""
    block = read_block(query)
    if block is None:
        return None
    from_items = read_from_items(block.tree, INNER | {"left", "right"})
    if not from_items.outer:
        return None
    scope = ctx.scope(*from_items.relations)
    dropped = {
        scope.item(found)
        for conjunct in (*from_items.conjuncts, *block.condition)
        for column in _compared_columns(conjunct)
        if (found := scope.find(column))
    }
    optional = [item.relation for item in from_items.outer if item.number in dropped]
    for node in block.tree.walk():
        if isinstance(node, Join) and any(
            relation is (node.left if node.kind == "right" else node.right) for relation in optional
        ):
            return node
    return None


def _compared_columns(conjunct: Scalar) -> list[exp.Column]:
    """Return the columns that an equality compares as they are: with NULL in one of them it does not hold."""
    operands = [operand.unnest() for operand in equalities(conjunct) or ()]
    return [operand for operand in operands if isinstance(operand, exp.Column)]
