"""Chooses between the pairs of a semi or anti join and the least or greatest value of each key."""

from __future__ import annotations

from dovetail.planner.catalog.cost import count_pairs, describe_pairs, describe_rows, sort_seconds
from dovetail.planner.explain.records import CandidatePlan
from dovetail.planner.logical import Logical
from dovetail.planner.logical.extreme_semi_join import ExtremeSemiJoin, ExtremeValues
from dovetail.planner.physical.base import Rewriting, Spark
from dovetail.rules.analysis.sizes import Sizes, estimated, sizes_of
from dovetail.rules.band_join.keys import pair_counter
from dovetail.rules.band_join.spark_join import pairwise_plan
from dovetail.rules.context import Context
from dovetail.rules.nearest.extreme_groups import over_groups
from dovetail.rules.rule import rule

_PAIRS_PER_ROW = 10.0
"""Grouping a row of the right side costs about as much as comparing so many pairs with equal keys.

Measured: with half a pair for each row grouping takes 1 to 2 times as long, with 20 pairs 0.3 to 0.6 times.
"""


@rule(ExtremeSemiJoin)
def lower_extreme_exists(join: ExtremeSemiJoin, ctx: Context) -> Rewriting | Spark:
    """Group the right side to its least or greatest value of each key, unless there are few pairs.

    Spark compares a left row with the right rows of its key until one fits; with all of them where none does.
    """
    if _spark_join_suffices(join, ctx):
        return Spark(join.plain)
    return Rewriting(over_groups(join, ctx), "ExtremeSemiJoin", f"{join.kind}, with {join.extreme.shown}", join.output)


@rule(ExtremeValues)
def lower_extreme_values(node: ExtremeValues, ctx: Context) -> Logical | Rewriting:
    """The same for EXISTS that is a value of each row."""
    if all(_spark_join_suffices(join, ctx) for join in node.joins.found):
        return node.written
    return Rewriting(node.other, "ExtremeSemiJoin", node.description, node.output)


def _spark_join_suffices(join: ExtremeSemiJoin, ctx: Context) -> bool:
    """Choose between the pairs of a join and groups of its right side."""
    sides, keys = (join.left, join.right), [(key.left, key.right) for key in join.extreme.keys]
    sizes = sizes_of(sides, ctx)
    count_equal, reason = pair_counter(sides, keys, sizes, ctx), None

    def count(sizes: Sizes) -> float | None:
        pairs = count_pairs(*sizes)
        return count_equal(sizes) if pairs is None or pairs >= ctx.thresholds.nested_loop_pairs else pairs

    if not ctx.force:
        own = (join.extreme.left, join.extreme.right)
        reason, sizes = estimated(sides, own, sizes, lambda sizes: _reason(count(sizes), sizes, ctx), ctx)
    right, pairs = sizes[1], count(sizes)
    grouped = CandidatePlan(
        f"grouping {describe_rows(right)} rows of the right side", right.rows, seconds=sort_seconds(right.rows)
    )
    spark_join = pairwise_plan(right.rows, pairs, keyed=bool(join.extreme.keys))
    if reason:
        ctx.choose(spark_join, grouped)
        ctx.decline(reason, join.condition[0].place if join.condition else None, "few_rows")
        return True
    ctx.choose(grouped, spark_join)
    return False


def _reason(pairs: float | None, sizes: Sizes, ctx: Context) -> str | None:
    """The reason why making so many pairs costs less than grouping the right side; None if it does not."""
    rows = sizes[1].rows
    if pairs is None or rows is None or pairs >= max(ctx.thresholds.nested_loop_pairs, _PAIRS_PER_ROW * rows):
        return None
    return f"{describe_pairs(pairs)}, so few that Spark's own join is as good"
