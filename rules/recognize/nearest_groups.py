"""Recognizes joins that are grouped for the nearest row: ``max_by(q.price, q.ts) … GROUP BY t.id``."""

from __future__ import annotations

from dataclasses import replace

from dovetail.planner.band.comparisons import looks_like_band
from dovetail.planner.errors import Refused
from dovetail.planner.logical import Join, LateralView, Logical, Project, Sort
from dovetail.rules.context import Context
from dovetail.rules.nearest.extremes import may_take_a_distance, wanted_by_aggregates
from dovetail.rules.nearest.joins_above import BottomJoin, bottom_joins
from dovetail.rules.nearest.kept_rows import kept_above
from dovetail.rules.nearest.pairs import Pairs, may_be_nearest, nearest_join
from dovetail.rules.nearest.shown_columns import readers_of
from dovetail.rules.query.grouping import grouping_expressions
from dovetail.rules.query.query_block import block_with_order, in_place, where
from dovetail.rules.rule import rule


@rule(Project, Sort)
def nearest_groups(node: Project | Sort, ctx: Context) -> Logical | None:
    """Join each row only with its nearest row, where aggregates take the last or the first of them.

    The aggregates stay, over fewer rows: the greatest time of all pairs is the greatest of the nearest pairs, and so is
    the least distance.
    """
    block = block_with_order(node, ctx)
    if block is None or not block.is_grouped or not isinstance(block.tree, Join | LateralView):
        return None
    for bottom in bottom_joins(block):
        if new := _nearest(bottom, ctx):
            return in_place(node, block.project, new)
    return None


def _nearest(bottom: BottomJoin, ctx: Context) -> Project | None:
    """The block with only the nearest rows of one of its joins; None, with a reason, where others count as well."""
    block, join = bottom.whole, bottom.join
    if not may_be_nearest(block, join, by_distance=may_take_a_distance(block)):
        return None
    if bottom.above and not any(map(looks_like_band, (*join.condition, *block.condition))):
        return None
    try:
        whole = block.tree if bottom.above else None
        wanted = wanted_by_aggregates(block, Pairs.of_block(block, join, ctx, whole))
        if wanted is None:
            return None
        inner = bottom.block(ctx)
        pairs = Pairs.of_block(inner, join, ctx, whole)
        pairs.check_where(inner)
        readers = (*readers_of(block), *bottom.readers)
        excluded = () if bottom.above else pairs.excluded()
        nearest = replace(pairs.nearest(wanted, readers, excluded), kept=kept_above(inner, pairs.join, ctx))
        for key in grouping_expressions(block, ctx.scope(block.tree)):
            pairs.check_fixed(key)
    except Refused as no:
        return ctx.decline(f"not only the nearest rows: {no.reason}", no.place)
    tested = (*block.condition, *(c for c in excluded if c not in block.condition))
    return block.over(where(bottom.over(nearest_join(join, nearest)), tested))
