"""Chooses between one sort of both sides and the pairs of a join of which only the nearest counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from dovetail.planner.catalog.cost import count_pairs, describe_pairs, describe_rows, sort_seconds
from dovetail.planner.catalog.stats import Statistics
from dovetail.planner.explain.records import CandidatePlan
from dovetail.planner.logical import Logical
from dovetail.planner.logical.nearest_join import Nearest, NearestJoin, NearestSubquery, NearestTies, NearestVersions
from dovetail.planner.physical.base import Rewriting, Spark
from dovetail.planner.physical.nearest_join import NearestJoin as SortedNearestJoin
from dovetail.planner.physical.nearest_union import right_row
from dovetail.planner.types.schema import SqlType
from dovetail.rules.analysis.sizes import Sizes, estimated, own_conditions, sizes_of
from dovetail.rules.band_join.keys import pair_counter
from dovetail.rules.band_join.spark_join import pairwise_plan
from dovetail.rules.context import Context
from dovetail.rules.nearest.time_ranges import time_ranges
from dovetail.rules.query.rows_inside import rows_inside
from dovetail.rules.rule import rule

_PAIRS_PER_ROW = 20.0
"""Sorting a row of either side in a union costs as much as so many pairs with equal keys, of which half match."""

_PAIRS_PER_ROW_OF_VERSIONS = 60.0
"""The same where Spark keeps one pair of a row at most, and neither sorts nor groups the others."""

_FEW_VERSIONS, _PAIRS_PER_ROW_OF_FEW_VERSIONS = 10, 200.0
"""The same with so many times as many rows on the left: Spark broadcasts the versions, and sorts nothing."""


@rule(NearestJoin)
def lower_nearest_join(join: NearestJoin, ctx: Context) -> SortedNearestJoin | Spark:
    """Find the nearest row of each row in one sort of both sides, unless there are few pairs.

    A join makes every pair of a row with all earlier rows, of which the query keeps one.  A union of both sides, sorted
    by key and time, has the last right row so far beside each left row.
    """
    if _spark_join_suffices(join, ctx, may_stay=not (join.foreign or join.certain), passes=join.nearest.sorts):
        return Spark(join.plain)
    kind: Literal["inner", "left"] = "left" if join.kind == "left" else "inner"
    engine = ctx.catalog.settings.engine
    nearest, of_row = (join.nearest, None) if engine.types_nulls else _with_types(join, ctx)
    ranges = time_ranges(join, ctx)
    return SortedNearestJoin(
        join.left, join.right, kind, nearest, join.foreign, join.turned, of_row, engine.merges_runs, ranges
    )


def _with_types(join: NearestJoin, ctx: Context) -> tuple[Nearest, SqlType | None]:
    """The nearest rows with the type of a difference of both times, and the type of a right row as a struct."""
    nearest = join.nearest
    time = ctx.spark_type(nearest.times[0], join.left) if nearest.difference == "number" else None
    if time is not None and not time.integral:
        nearest = replace(nearest, time_type=time)
    if nearest.direction == "both" and (nearest.count > 1 or nearest.ties):
        # the engine refuses rows without types, so the query runs as written
        why = "the windows of a distance and a further sort key are not tested" if nearest.ties else ""
        why = why or "lead(…, 2) IGNORE NULLS returns other rows"
        ctx.decline(f"{why} on {ctx.catalog.settings.engine.name}")
        return nearest, None
    return nearest, ctx.spark_type(right_row(nearest), join.right)


@rule(NearestTies)
def lower_nearest_ties(node: NearestTies, ctx: Context) -> Logical | Rewriting:
    """Join the right rows of the nearest time, unless there are few pairs.

    The right side is read twice: sorted with the left one for the nearest time, and joined by this time.
    """
    if all(_spark_join_suffices(join, ctx, passes=2) for join in node.joins.found):
        return node.written
    return Rewriting(node.other, "NearestTies", node.description, node.output)


@rule(NearestVersions)
def lower_nearest_versions(node: NearestVersions, ctx: Context) -> Logical | Rewriting:
    """Join the version that is valid at a time by one sort of both sides, unless there are few pairs.

    Then the join stays as written, or is one over bins.
    """
    if all(_are_few_versions(join, ctx) for join in node.joins.found):
        return node.written
    return Rewriting(node.other, "NearestVersions", node.description, node.output)


def _are_few_versions(join: NearestJoin, ctx: Context) -> bool:
    """Choose between all versions of a key, as written, and a sort of both sides."""
    left, right = ctx.statistics_of(join.left, join.right)
    if right.rows is None and (inside := rows_inside(join.right, ctx)):
        (right,) = ctx.statistics_of(inside.table)
    sizes = left, right
    pairs: float | None = count_pairs(left, right)
    is_small = left.rows is not None and right.rows is not None and right.rows * _FEW_VERSIONS <= left.rows
    per_row = _PAIRS_PER_ROW_OF_FEW_VERSIONS if is_small else _PAIRS_PER_ROW_OF_VERSIONS
    if not ctx.force and not _are_few(pairs, sizes, ctx, per_row=per_row):
        pairs = _pair_counter(join, sizes, ctx)(sizes) or pairs
    written = pairwise_plan(_total(sizes), pairs, "all versions of a key", keyed=True)
    are_few = not ctx.force and _are_few(pairs, sizes, ctx, per_row=per_row)
    reason = "so few versions of a key that comparing all of them is as good" if are_few else None
    return _record_choice(join, sizes, written, reason, ctx)


def _spark_join_suffices(join: NearestJoin, ctx: Context, *, may_stay: bool = True, passes: int = 1) -> bool:
    """Choose between the pairs of a join and a sort of both sides; ``passes``: how often that sorts both sides."""
    sides = join.left, join.right
    sizes = sizes_of(sides, ctx)
    count, reason = _pair_counter(join, sizes, ctx), None

    def decide(sizes: Sizes) -> str | None:
        pairs = count(sizes)
        few = _are_few(pairs, sizes, ctx, passes)
        return f"{describe_pairs(pairs)}, so few that Spark's own join is as good" if few else None

    if may_stay and not ctx.force:
        own = own_conditions(join.nearest, outer=join.kind == "left")
        reason, sizes = estimated(sides, own, sizes, decide, ctx)
    written = pairwise_plan(_total(sizes), count(sizes), keyed=bool(join.nearest.keys))
    return _record_choice(join, sizes, written, reason, ctx)


def _record_choice(join: NearestJoin, sizes: Sizes, written: CandidatePlan, reason: str | None, ctx: Context) -> bool:
    """Record the choice between a join as written, for a ``reason``, and one sort; return whether it stays so."""
    rows = _total(sizes)
    union = CandidatePlan(f"one sort of {describe_rows(Statistics(rows))} rows", rows, seconds=sort_seconds(rows))
    if reason is None:
        ctx.choose(union, written)
        return False
    ctx.choose(written, union)
    ctx.decline(reason, join.condition[0].place if join.condition else None, "few_rows")
    return True


def _pair_counter(join: NearestJoin, sizes: Sizes, ctx: Context) -> Callable[[Sizes], float | None]:
    """Estimates the pairs with equal keys for any sizes."""
    return pair_counter((join.left, join.right), [(key.left, key.right) for key in join.nearest.keys], sizes, ctx)


def _are_few(pairs: float | None, sizes: Sizes, ctx: Context, passes: int = 1, per_row: float = _PAIRS_PER_ROW) -> bool:
    """Whether making so many pairs costs less than sorting both sides, so often."""
    rows = _total(sizes)
    if pairs is None or rows is None:
        return False
    return pairs < max(ctx.thresholds.nested_loop_pairs, per_row * passes * rows)


def _count_subquery_pairs(join: NearestJoin, ctx: Context) -> tuple[float | None, bool]:
    """The pairs of rows that a subquery compares, after the conditions on either side alone; whether these are few."""
    sides = join.left, join.right
    sizes = sizes_of(sides, ctx)
    if not ctx.force:
        own = own_conditions(join.nearest, outer=True)
        _, sizes = estimated(sides, own, sizes, lambda sizes: _are_few(count_pairs(*sizes), sizes, ctx) or None, ctx)
    pairs = count_pairs(*sizes)
    return pairs, _are_few(pairs, sizes, ctx)


def _total(sizes: Sizes) -> int | None:
    left, right = (size.rows for size in sizes)
    return None if left is None or right is None else left + right


@rule(NearestSubquery)
def lower_nearest_subquery(node: NearestSubquery, ctx: Context) -> Logical | Rewriting:
    """Join the nearest row that a subquery picks, unless there are few pairs.

    Spark compares every row of the inner relation with every distinct row of the outer one, equalities or not.
    """
    compared = [_count_subquery_pairs(join, ctx) for join in node.joins.found]
    if not ctx.force and all(few for _, few in compared):
        pairs = describe_pairs(max(n or 0 for n, _ in compared))
        ctx.choose(f"subqueries, {pairs}", "one sort of both sides")
        ctx.decline(f"{pairs}, so few rows that Spark's own join is as good (nested_loop_pairs)", code="few_rows")
        return node.written
    ctx.choose("one sort of both sides", "subqueries, which compare every pair")
    return Rewriting(node.other, "NearestSubquery", node.description, node.output)
