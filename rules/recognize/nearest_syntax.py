"""Recognizes joins that Spark's syntax limits to the nearest rows: ASOF JOIN, and NEAREST BY."""

from __future__ import annotations

from dataclasses import replace

from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar
from dovetail.planner.logical import Join, LateralView, Logical, Nested, Project, Sort
from dovetail.planner.logical.nearest_join import NearestJoin
from dovetail.planner.logical.nearest_syntax import AsofJoin, NearestByJoin, NearestSyntax
from dovetail.rules.context import Context
from dovetail.rules.nearest.asof_join import nearest_of_asof_join
from dovetail.rules.nearest.nearest_by import nearest_of_nearest_by
from dovetail.rules.nearest.shown_columns import all_readers_of, joins_of
from dovetail.rules.query.query_block import QueryBlock, where
from dovetail.rules.rule import rule


@rule(Project, Sort, block=True, needs=(NearestSyntax,))
def nearest_syntax(block: QueryBlock, ctx: Context) -> Logical | None:
    """Join each row only with the right rows that ASOF JOIN or NEAREST BY picks, on every version of Spark."""
    tree = _over_nearest(block.tree, block, ctx)
    return None if tree is block.tree else block.put(block.over(where(tree, block.condition)))


def _over_nearest(tree: Logical, block: QueryBlock, ctx: Context) -> Logical:
    """A FROM with the nearest rows of every such join, where that is possible."""
    if isinstance(tree, LateralView) or (isinstance(tree, Nested) and tree.alias is None):
        child = _over_nearest(tree.child, block, ctx)
        return tree if child is tree.child else replace(tree, child=child)
    if not isinstance(tree, Join | NearestSyntax):
        return tree
    left, right = (_over_nearest(side, block, ctx) for side in (tree.left, tree.right))
    new = tree if left is tree.left and right is tree.right else replace(tree, left=left, right=right)
    if not isinstance(new, AsofJoin | NearestByJoin):
        return new
    below = tuple(one for one in joins_of(tree) if isinstance(one, AsofJoin))  # they compare before columns travel
    try:
        return _nearest(new, block, tuple(all_readers_of(block, below)), ctx)
    except Refused as no:
        name = "as-of join" if isinstance(new, AsofJoin) else "NEAREST BY join"
        ctx.decline(f"the {name} is left to Spark: {no.reason}", no.place or new.match.place)
        return new


def _nearest(
    join: AsofJoin | NearestByJoin, block: QueryBlock, readers: tuple[Scalar, ...], ctx: Context
) -> NearestJoin:
    """The join with its nearest rows.  Raises ``Refused``."""
    if isinstance(join, AsofJoin):
        new = nearest_of_asof_join(join, block, readers, ctx)
    else:
        new = nearest_of_nearest_by(join, block, readers, ctx)
    if new.foreign:
        if "VIEW" in ctx.statement.upper().split():
            raise Refused("a view would keep the types that its tables have today; create a table")
        _check_tables(join, ctx)
    return new


def _check_tables(join: NearestSyntax, ctx: Context) -> None:
    """Raise ``Refused`` where a side reads a stream; nobody has counted those of a statement that Spark rejects."""
    for side in (join.left, join.right):
        if ctx.catalog.streams(ctx.query(side)):
            raise Refused("the statement reads a stream, and this rewriting is for tables")
