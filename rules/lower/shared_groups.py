"""Chooses for a CTE with several readers: one shared exchange, or a copy per reader with its constants pushed down."""

from __future__ import annotations

from math import prod

from planner.errors import Unsupported
from planner.logical import Logical
from planner.logical.self_join import SharedGroups
from planner.physical.base import Rewriting
from rules.context import Context
from rules.rule import rule

_MOST_RELATIONS = 6  # to ask about the sizes of


@rule(SharedGroups)
def lower_shared_groups(node: SharedGroups, ctx: Context) -> Logical | Rewriting:
    """Share one aggregate among all readers of a CTE if its groups are few compared to the rows.

    That the copies are one, all but the largest relation have to be small enough to broadcast: a join that exchanges
    rows by the groups leaves no exchange above it.
    """
    shared = Rewriting(node.other, "SharedGroups", node.description, node.output)
    why = None if ctx.force else _why_not(node, ctx)
    if why is None:
        ctx.choose("one aggregation for all copies", "an aggregation for each copy")
        return shared
    reason, figures = why
    ctx.choose(f"an aggregation for each copy: {figures or reason}", "one aggregation for all copies")
    ctx.decline(f"an aggregation for each copy: {reason}")
    return node.written


def _why_not(node: SharedGroups, ctx: Context) -> tuple[str, str] | None:
    """Why each copy aggregates for itself, and the figures; None where one aggregation is sooner."""
    at = ctx.thresholds
    if len(node.relations) > _MOST_RELATIONS:
        return f"it joins {len(node.relations)} relations, and probably not all of them by broadcast", ""
    known = dict(zip(node.relations, ctx.statistics_of(*node.relations), strict=True))
    largest = max(node.relations, key=lambda r: known[r].rows or 0)
    rows = known[largest].rows
    if rows is None or any(known[r].bytes is None for r in node.relations):
        return "the number of aggregated rows is not known", ""
    if any((known[r].bytes or 0) > at.broadcast_bytes for r in node.relations if r is not largest):
        return "a joined relation is too large to broadcast (broadcast_bytes)", ""
    if any(relation is largest for relation, _ in node.keys):
        return "how many groups there are is not known", ""
    bound: float = node.constants * prod(known[relation].rows or 1 for relation, _ in node.keys)
    if bound > rows * at.shared_groups_share:
        bound = node.constants * prod(
            _values(relation, keys, ctx) or known[relation].rows or 1 for relation, keys in node.keys
        )
    if bound > rows * at.shared_groups_share:
        return (
            "too many groups compared with the rows (shared_groups_share)",
            f"up to {bound:,.0f} groups of {rows:,} rows",
        )
    return None


def _values(relation: Logical, keys: tuple[str, ...], ctx: Context) -> float | None:
    """How many different keys a small relation has."""
    try:
        counted = ctx.measure(ctx.query(relation, f"approx_count_distinct(struct({', '.join(keys)}))"))
    except Unsupported:
        return None
    return counted[0][0] if counted else None
