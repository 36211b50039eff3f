"""Chooses between subqueries, which scan the table again, and one scan: with windows, or with merged aggregates."""

from __future__ import annotations

from contextlib import suppress
from math import prod

from dovetail.planner.conditions.compared import compared
from dovetail.planner.errors import Refused, Unsupported
from dovetail.planner.expr import Scalar
from dovetail.planner.logical import Logical
from dovetail.planner.logical.self_aggregate import Rows, SelfAggregate
from dovetail.planner.logical.self_join import MergedScalarAggregates
from dovetail.planner.physical.base import Rewriting
from dovetail.rules.analysis.same_source import reading
from dovetail.rules.context import Context
from dovetail.rules.rule import rule
from dovetail.rules.window.self_join_cost import self_join_suffices

_SMALL = 4  # a relation of so many times fewer rows is counted while planning
_WORTH_COUNTING = 100_000  # fewer rows are sorted in less time than a count takes


@rule(MergedScalarAggregates)
def lower_merged_scalar_aggregates(node: MergedScalarAggregates, ctx: Context) -> Rewriting:
    """Compute the merged scalar aggregates in one scan, since a FILTER costs less than another scan."""
    return Rewriting(node.other, "MergedScalarAggregates", node.description, node.output)


@rule(SelfAggregate)
def lower_self_aggregate(node: SelfAggregate, ctx: Context) -> Logical | Rewriting:
    """Use window functions instead of another scan of the table if they are estimated to cost less.

    A window sorts every row, where an aggregate sends only its groups.  So it pays where other relations leave few of
    the rows, among them the filtered ones with which the largest relation is joined, or the rows are themselves
    computed; and for EXISTS, which joins all rows as they are, where there are two or nothing but the rows.
    """
    window, rows = Rewriting(node.other, "SelfWindow", node.description, node.output), node.rows
    is_one_test = rows.exists == 1 and rows.alone and len(rows.relations) == 1
    if is_one_test and not ctx.force and (reason := self_join_suffices(rows.relations[0], rows.keys, ctx)):
        ctx.choose(f"the rows read once more: {reason}", "a window over all rows")
        ctx.decline(reason, code="few_rows")
        return node.written
    if ctx.force or rows.exists > 1 or (rows.exists and rows.alone) or all(_computed(r, ctx) for r in rows.relations):
        return window
    filtered = (*rows.kept, *_beside_the_largest(rows, ctx))
    share = prod(_share(relation, conditions, rows, ctx) for relation, conditions in filtered)
    windows, subqueries = f"windows over {share:.2g} of the rows", "the rows read once more for each subquery"
    if share <= ctx.thresholds.window_share:
        ctx.choose(windows, subqueries)
        return window
    ctx.choose(subqueries, windows)
    ctx.decline("a second scan is cheaper than a window, which would sort most of the rows (window_share)")
    return node.written


def _computed(relation: Logical, ctx: Context) -> bool:
    """Whether a relation is more than a table filtered, so that reading it once more costs more than a scan."""
    try:
        return reading(relation, ctx).key[0] == "query"
    except Refused:
        return False


def _beside_the_largest(rows: Rows, ctx: Context) -> list[tuple[Logical, tuple[Scalar, ...]]]:
    """The relations with which the largest one is joined, and the conditions on them; none if a size is not known."""
    sizes = [found.rows for found in ctx.statistics_of(*rows.relations)]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return []
    largest = known.index(max(known))
    pairs = enumerate(zip(rows.relations, rows.filters, strict=True))
    return [pair for number, pair in pairs if number != largest and pair[1]]


def _share(relation: Logical, conditions: tuple[Scalar, ...], rows: Rows, ctx: Context) -> float:
    """Estimate the selectivity of a relation's conditions: counted if it is small, else by System R's defaults."""
    own, *others = ctx.statistics_of(relation, *rows.relations)
    here, most = own.rows, max((found.rows or 0 for found in others), default=0)
    if here is not None and own.plain and most >= _WORTH_COUNTING and here * _SMALL <= most:
        conjunction = " AND ".join(f"({c.text})" for c in conditions)
        with suppress(Unsupported):
            counted = ctx.measure(ctx.query(relation, f"count(*), count_if({conjunction})"))
            if counted and counted[0][0]:
                return (counted[0][1] or 0) / counted[0][0]
    return prod(map(_guess, conditions))


def _guess(condition: Scalar) -> float:
    """A tenth for an equality, a third for anything else (Selinger et al., SIGMOD 1979)."""
    try:
        comparison = compared(condition)
    except Unsupported:
        return 1 / 3
    return 0.1 if comparison and comparison.sign == "=" else 1 / 3
