"""Writes semi and anti joins of a table with itself as EXISTS and NOT EXISTS.

FROM t x LEFT SEMI JOIN t y ON x.k = y.k AND x.v <> y.v
FROM t x WHERE EXISTS (SELECT 1 FROM t y WHERE x.k = y.k AND x.v <> y.v)
"""

from __future__ import annotations

from dataclasses import replace

from dovetail.planner.errors import Refused
from dovetail.planner.expr import HOLE, Scalar
from dovetail.planner.logical import Filter, Join, Logical, Project
from dovetail.rules.analysis.speculation import check_speculation
from dovetail.rules.context import Context
from dovetail.rules.query.correlation import references_left
from dovetail.rules.query.decorrelation import bounds, check_deterministic
from dovetail.rules.query.query_block import QueryBlock, read_block, where
from dovetail.rules.query.tables import tables


def semi_joins_as_exists(block: QueryBlock, ctx: Context) -> QueryBlock | None:
    """Return the block with EXISTS in WHERE in the place of its semi joins; None if it has none over its own tables.

    A semi join below inner joins filters the rows of its left side, as WHERE does later.  Every name of its condition
    must mean the same column in the subquery.
    """
    joins: list[Join] = []
    above: list[Join] = []
    tree = _without_semi_joins(block.tree, joins, above, ctx)
    if not joins:
        return None
    try:
        tests = [_as_exists(join, tree, ctx) for join in reversed(joins)]  # in the order in which they are written
        for join in above:
            check_speculation(join.condition, ctx.scope(join).type_of, ctx)  # on rows that a semi join drops before it
    except Refused as no:
        return ctx.decline(f"not a window: {no}", joins[-1].condition[0].place)
    return read_block(block.over(where(tree, (*block.condition, *tests))))


def _without_semi_joins(tree: Logical, joins: list[Join], above: list[Join], ctx: Context) -> Logical:
    """Return FROM without the semi joins of its left side.

    These are then in ``joins``, the last one first, and the inner joins of their rows in ``above``.
    """
    if not isinstance(tree, Join) or tree.using or tree.natural or references_left(tree.right):
        return tree
    if tree.kind in ("inner", "cross"):
        left = _without_semi_joins(tree.left, joins, above, ctx)
        if left is not tree.left:
            tree = replace(tree, left=left)
            above.append(tree)
        return tree
    if tree.kind not in ("semi", "anti") or not tree.condition or bounds(tree.condition) > 1:
        return tree  # two bounds are a band
    if not tables(tree.right, ctx.definitions) <= tables(tree.left, ctx.definitions):
        return tree
    joins.append(tree)
    return _without_semi_joins(tree.left, joins, above, ctx)


def _as_exists(join: Join, tree: Logical, ctx: Context) -> Scalar:
    """Write a join as a test of the rows of ``tree``.  Raises ``Refused`` if a name would mean another column."""
    left = len(ctx.scope(join.left).sources)
    both, inner = ctx.scope(join.left, join.right), ctx.scope(join.right, outer=ctx.scope(tree))
    for conjunct in join.condition:
        if conjunct.plans:
            raise Refused(f"{conjunct.shown} contains a subquery")
        check_deterministic(conjunct)
        for ref in conjunct.columns:
            column = both.column(ref)
            place = (1, column.relation) if column.relation < left else (0, column.relation - left)
            if inner.column(ref).owner != place:
                raise Refused(f"{ref.text} would mean another column in EXISTS; write it with the name of its relation")
    query = Project(Filter(join.right, join.condition), (Scalar("1"),))
    word = "EXISTS" if join.kind == "semi" else "NOT EXISTS"
    return Scalar(f"{word} ({HOLE}0)", (query,), join.condition[0].place)
