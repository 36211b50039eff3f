"""Chooses between one sort of both sides and the pairs of a join of which only the nearest counts."""

from __future__ import annotations

from typing import Literal

from planner.catalog.cost import count_pairs, describe_pairs
from planner.logical import Logical
from planner.logical.nearest_join import NearestJoin, NearestSubquery
from planner.physical.base import Rewriting, Spark
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
    if few and not ctx.force and not (join.foreign or join.certain):
        ctx.choose(f"Spark's own join, {describe_pairs(pairs)}", union)
        ctx.decline(
            "so few pairs that Spark's own join is as good", join.condition[0].place if join.condition else None
        )
        return Spark(join.plain)
    ctx.choose(union, f"Spark's own join, {describe_pairs(pairs)}")
    kind: Literal["inner", "left"] = "left" if join.kind == "left" else "inner"
    return SortedNearestJoin(join.left, join.right, kind, join.nearest, join.foreign)


@rule(NearestSubquery)
def lower_nearest_subquery(node: NearestSubquery, ctx: Context) -> Logical | Rewriting:
    """Join the nearest row that a subquery picks, unless there are few pairs.

    Spark compares every row of the inner relation with every distinct row of the outer one, equalities or not.
    """
    counted = [count_pairs(*ctx.statistics_of(*pair)) for pair in node.sides.pairs]
    if not ctx.force and all(n is not None and n < ctx.thresholds.nested_loop_pairs for n in counted):
        ctx.choose(f"subqueries, {describe_pairs(max(n or 0 for n in counted))}", "one sort of both sides")
        ctx.decline("so few rows that Spark's own join is as good (nested_loop_pairs)")
        return node.written
    ctx.choose("one sort of both sides", "subqueries, which compare every pair")
    return Rewriting(node.other, "NearestSubquery", node.description, node.output)
