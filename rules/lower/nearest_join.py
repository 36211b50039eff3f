"""Chooses between one sort of both sides and the pairs of a join of which only the nearest counts."""

from __future__ import annotations

from typing import Literal

from planner.catalog.cost import count_pairs, describe_pairs
from planner.logical.nearest_join import NearestJoin
from planner.physical.base import Spark
from planner.physical.nearest_join import NearestJoin as SortedNearestJoin
from rules.band_join.keys import key_pairs
from rules.context import Context
from rules.rule import rule

_PAIRS_PER_ROW = 20.0
"""Sorting a row of either side in a union costs as much as so many pairs with equal keys, of which half match."""


@rule(NearestJoin)
def lower_nearest_join(join: NearestJoin, ctx: Context) -> SortedNearestJoin | Spark:
    """Find the nearest row of each row in one sort of both sides, unless there are few pairs.

    A join makes every pair of a row with all earlier rows, of which the query keeps one.  A union of both sides, sorted
    by key and time, has the last right row so far beside each left row.
    """
    left, right = ctx.statistics_of(join.left, join.right)
    pairs: float | None = count_pairs(left, right)
    keys = [(key.left, key.right) for key in join.nearest.keys]
    if pairs is not None and keys and not ctx.force:
        pairs = key_pairs((join.left, join.right), keys, left, right, ctx)
    rows = None if left.rows is None or right.rows is None else left.rows + right.rows
    few = (
        pairs is not None and rows is not None and pairs < max(ctx.thresholds.nested_loop_pairs, _PAIRS_PER_ROW * rows)
    )
    union = f"one sort of {'an unknown number of' if rows is None else f'about {rows:,}'} rows"
    if few and not ctx.force and not join.foreign:
        ctx.choose(f"Spark's own join, {describe_pairs(pairs)}", union)
        ctx.decline(
            "so few pairs that Spark's own join is as good", join.condition[0].place if join.condition else None
        )
        return Spark(join.plain)
    ctx.choose(union, f"Spark's own join, {describe_pairs(pairs)}")
    kind: Literal["inner", "left"] = "left" if join.kind == "left" else "inner"
    return SortedNearestJoin(join.left, join.right, kind, join.nearest, join.foreign)
