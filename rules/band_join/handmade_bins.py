"""Finds bins that the user has made: ``explode(sequence(lo DIV 1000, hi DIV 1000)) AS bin``, joined by an equality."""

from __future__ import annotations

from contextlib import suppress

from sqlglot import exp

from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar
from dovetail.planner.expr.calls import call_parts
from dovetail.planner.logical import Join, LateralView, Logical, Opaque
from dovetail.rules.context import Context
from dovetail.rules.query.condition_scope import condition_scope, equalities
from dovetail.rules.query.definitions import definition_of
from dovetail.rules.query.from_items import bare, leaves
from dovetail.rules.query.query_block import read_block
from dovetail.rules.query.subquery_columns import columns_inside


def handmade_bins(join: Join, ctx: Context) -> Scalar | None:
    """The equality of a join on bins that the user has made; None if it has none."""
    for conjunct in join.condition:
        with suppress(Refused):
            for equality in equalities((conjunct,), condition_scope(join, ctx)):
                ends = zip(equality.operands, (join.left, join.right), strict=True)
                if any(_is_bin(end, side, ctx) for end, side in ends):
                    return conjunct
    return None


def _is_bin(tree: exp.Expression, side: Logical, ctx: Context) -> bool:
    """Whether an expression is one of the numbers from one to another, each in a row of its own."""
    if isinstance(tree, exp.Explode):
        name, _ = call_parts(tree.this) or (tree.this.name, [])
        return name.lower() == "sequence"
    if not isinstance(tree, exp.Column):
        return False
    scope, relations = ctx.scope(side), leaves(side, named=True)
    column = scope.column(tree)
    if len(relations) != len(scope.sources):
        return False
    relation = bare(relations[column.relation])
    if isinstance(relation, LateralView | Opaque):
        text = relation.text.text.lower()
        return "explode" in text and "sequence" in text
    query = definition_of(relation, ctx)
    block = None if query is None else read_block(query)
    if block is None:
        return False
    inside = columns_inside(block, scope.sources[column.relation], ctx, computed=True)
    text = inside.get(column.name, "")
    return bool(text) and _is_bin(Scalar(text).tree, block.tree, ctx)
