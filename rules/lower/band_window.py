"""Chooses between a self-join within a band and windows over its source."""

from __future__ import annotations

from dovetail.planner.catalog.cost import KEY_SAMPLE, describe_rows
from dovetail.planner.errors import Unsupported
from dovetail.planner.expr import Scalar
from dovetail.planner.logical import Logical
from dovetail.planner.logical.band_window import BandWindow, WindowedSource
from dovetail.planner.physical.base import Rewriting
from dovetail.rules.context import Context
from dovetail.rules.rule import rule
from dovetail.rules.window.self_join_cost import self_join_suffices


@rule(BandWindow)
def lower_band_window(node: BandWindow, ctx: Context) -> Logical | Rewriting:
    """Compute aggregates over a band of the same table with RANGE windows, without a join.

    A window sorts all rows of the source, each once.  A join looks at every pair of rows with equal keys; it wins only
    where there are few rows, or few with an answer, or no keys that spread them over tasks.
    """
    reason = None if ctx.force else next(filter(None, (_why_not(source, ctx) for source in node.sources)), None)
    if reason:
        ctx.choose(f"the join as it is written: {', '.join(filter(None, reason))}", "RANGE windows over the source")
        ctx.decline(f"a window is not worth its cost: {reason[0]}")
        return node.written
    ctx.choose("RANGE windows over the source", "the join as it is written")
    return Rewriting(node.other, "BandWindow", node.description, node.output)


def _why_not(source: WindowedSource, ctx: Context) -> tuple[str, str] | None:
    """Why the join is as good, and the figures; None where it is not."""
    at, found = ctx.thresholds, ctx.statistics(source.relation)
    if found.rows is not None and found.rows**2 < at.nested_loop_pairs:
        return "so few rows that Spark's own join is as good (nested_loop_pairs)", ""
    if source.joined and (reason := self_join_suffices(source.relation, source.keys, ctx)):
        return reason, ""
    if not source.keys and (found.rows is None or found.rows > at.one_task_window_rows):
        return "one task would sort all rows (one_task_window_rows)", f"{describe_rows(found)} rows"
    if source.rescans_frame and (source.row_filters or source.match_filters):
        return "a condition may leave few pairs, and its frames are read again for each row of the source", ""
    for conditions, what in ((source.row_filters, "asks about"), (source.match_filters, "counts")):
        share = _share(source.relation, conditions, ctx) if found.plain and conditions else None
        if conditions and share is None:
            return f"how many rows it {what} is not known", ""
        if share is not None and share < at.window_own_share:
            return f"it {what} few rows (window_own_share)", f"{share:.1%} of a sample"
    return None


def _share(relation: Logical, conditions: tuple[Scalar, ...], ctx: Context) -> float | None:
    """Estimate the share of rows that pass the conditions, from the first rows; None if unknown."""
    condition = " AND ".join(f"({c.text})" for c in conditions)
    try:
        found = ctx.sample(relation, f"CASE WHEN {condition} THEN 1 END", KEY_SAMPLE)
    except Unsupported:
        return None
    return sum(value is not None for value in found) / len(found) if found else None
