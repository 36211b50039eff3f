"""Recognizes scalar aggregates over one table: ``(SELECT count(*) FROM t WHERE a), (SELECT sum(v) FROM t)``."""

from __future__ import annotations

from collections import Counter

from dovetail.planner.errors import Refused
from dovetail.planner.logical import Project
from dovetail.planner.logical.self_join import MergedScalarAggregates
from dovetail.rules.context import Context
from dovetail.rules.query.correlation import check_not_correlated
from dovetail.rules.rule import rule
from dovetail.rules.shared_scan.candidates import Candidate, MergedSelect, candidates, unnamed
from dovetail.rules.shared_scan.scalar_aggregates import (
    Member,
    Merged,
    ScalarAggregate,
    may_be_scalar_aggregate,
    mergeable,
    scalar_aggregate,
)


@rule(Project, needs=("self_join",))
def merge_scalar_aggregates(project: Project, ctx: Context) -> MergedScalarAggregates | None:
    """Merge several scalar aggregates over the same relations into one scan, with FILTER for their conditions.

    Scalar aggregates are subqueries in the select list and in WHERE that return one row, and subqueries and CTEs of
    one row in FROM that an inner join reads.  They may differ in their conditions on one relation.  Spark merges
    scalar subqueries only if their conditions are the same; Athena merges more (Bruno et al., "Computation Reuse
    via Fusion", ICDE 2022).
    """
    subqueries = candidates(project, ctx)
    _decline_unnamed(project, subqueries, ctx)
    times = Counter(may_be_scalar_aggregate(one.query, ctx) for one in subqueries)
    waiting = [
        (found, one)
        for one in subqueries
        if times[may_be_scalar_aggregate(one.query, ctx)] > 1 and (found := scalar_aggregate(one.query, ctx))
    ]
    groups: list[tuple[Merged, tuple[Candidate, ...]]] = []
    while len(waiting) > 1:
        group, waiting = _next(waiting, ctx)
        groups += group
    if not groups:
        return None
    try:
        if project.hint:
            raise Refused("the SELECT has a hint")
        check_not_correlated(ctx)
        other = MergedSelect(project, ctx).merged(groups)
    except Refused as no:
        return ctx.decline(f"scalar aggregates over one table are not merged: {no}", groups[0][0].first.place)
    return MergedScalarAggregates(project, other, "; ".join(merged.description for merged, _ in groups))


def _decline_unnamed(project: Project, named: list[Candidate], ctx: Context) -> None:
    """Decline for scalar aggregates that could share a scan with others if they had an alias."""
    for one in (without := unnamed(project, ctx)):
        read = may_be_scalar_aggregate(one.query, ctx)
        others = [o for o in (*named, *without) if o is not one and may_be_scalar_aggregate(o.query, ctx) == read]
        found = scalar_aggregate(one.query, ctx) if others else None
        if found and any(o.query.children != one.query.children for o in others):
            reason = "scalar aggregates over one table are not merged: the subquery has no name; give it one with AS"
            ctx.decline(reason, found.place)
            return


Waiting = list[tuple[ScalarAggregate, Candidate]]


def _next(waiting: Waiting, ctx: Context) -> tuple[list[tuple[Merged, tuple[Candidate, ...]]], Waiting]:
    """Those that can be read with the first one, if there are any, and those that have not been looked at."""
    first = waiting[0][0]
    try:
        members = mergeable(tuple(one for one, _ in waiting), ctx)
        merged = _merged(members, ctx) if members else None
    except Refused as no:
        ctx.decline(f"scalar aggregates over one table are not merged: {no}", first.place)
        return [], waiting[1:]
    own = [member.total for member in (merged.members if merged else members)]
    group = tuple(candidate for one, candidate in waiting if any(one is total for total in own))
    rest = [pair for pair in waiting[1:] if not any(pair[0] is total for total in own)]
    # Spark reads scalar subqueries with equal conditions once.
    if merged is None or (all(a.from_item is None for a in group) and len({m.terms for m in merged.members}) == 1):
        return [], rest
    return [(merged, group)], rest


def _merged(members: tuple[Member, ...], ctx: Context) -> Merged:
    """All of them at once, or else those that can each be read with the first.  Raises ``Refused``."""
    try:
        return Merged(members, ctx)
    except Refused as no:
        first, *others = members
        fit = [other for other in others if _fits(first, other, ctx)]
        if not 0 < len(fit) < len(others):
            raise
        ctx.decline(f"one scalar aggregate is not merged with the others: {no}", first.total.place)
        return Merged((first, *fit), ctx)


def _fits(first: Member, other: Member, ctx: Context) -> bool:
    try:
        Merged((first, other), ctx)
    except Refused:
        return False
    return True
