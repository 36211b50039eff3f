"""Recognizes correlated aggregates over the outer query's table: ``x.v > (SELECT avg(v) FROM t y WHERE y.k = x.k)``."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.planner.errors import Refused
from dovetail.planner.expr import output_name
from dovetail.planner.expr.aggregate_calls import aggregate_arguments
from dovetail.planner.logical import Project, expressions
from dovetail.planner.logical.self_aggregate import Rows, SelfAggregate
from dovetail.rules.context import Context
from dovetail.rules.query.inner_joins import InnerJoins, inner_joins
from dovetail.rules.query.query_block import QueryBlock
from dovetail.rules.query.tables import tables
from dovetail.rules.rule import rule
from dovetail.rules.window.anti_join import as_not_exists, refused_anti_join, semi_joins_as_exists
from dovetail.rules.window.correlated_aggregate import CorrelatedAggregate, correlated_aggregate, correlated_form
from dovetail.rules.window.self_joined import in_groups, joined_aggregate, may_be_in_groups, may_be_joined
from dovetail.rules.window.self_window import WindowedBlock


@rule(Project, block=True, needs=("self_join",))
def self_aggregate(block: QueryBlock, ctx: Context) -> SelfAggregate | None:
    """Replace a correlated subquery over the same table with a window function.

    A window over the key replaces an aggregate of the rows with the same key.  It also replaces EXISTS and NOT EXISTS
    of a row with the same key that is greater, less or different, which may be written as a semi or anti join, and a
    join with, or IN over, a subquery that groups the table by the key.  The table is then read once (Zuzarte et al.,
    "WinMagic: Subquery Elimination Using Window Aggregation", SIGMOD 2003).
    """
    found = None
    if not_exists := semi_joins_as_exists(block, ctx) or as_not_exists(block, ctx.names):
        found = _recognized(not_exists, block.project, ctx)
    elif no := refused_anti_join(block, ctx.names):
        ctx.decline(f"not a window: {no.reason}", no.place)
    return found or _recognized(block, block.project, ctx)


def _recognized(block: QueryBlock, written: Project, ctx: Context) -> SelfAggregate | None:
    """Return a block with windows that is equivalent to ``written``."""
    if block.project.hint:
        return None
    read = tables(block.tree, ctx.definitions)
    nodes = (block.project, *block.tree.walk())
    held = [*(s for node in nodes for s in expressions(node) if s.plans), *block.condition]
    joined = any(may_be_joined(node, read, ctx) for node in block.tree.walk())
    if not joined and not any(correlated_form(s, read, ctx) or may_be_in_groups(s, read, ctx) for s in held):
        return None
    outer = inner_joins(block, ctx.names)
    for group in _by_relations(_requests(outer, ctx)):
        try:
            _check_place(outer, group, ctx)
            return _choice(WindowedBlock(outer, group, ctx), written)
        except Refused as no:
            ctx.decline(f"not a window: {no}", group[0].place)
    return None


def _requests(outer: InnerJoins, ctx: Context) -> Iterator[CorrelatedAggregate]:
    """Collect the requests of the conjuncts, and of items with a name if the block does not group."""
    block = outer.block
    grouped = any(aggregate_arguments(i.text) for i in block.project.items) or block.clauses or block.project.quantifier
    items = [item for item in block.project.items if item.plans]
    for scalar in dict.fromkeys((*outer.conjuncts, *items)):
        try:
            request = correlated_aggregate(scalar, outer, ctx)
            if not request and scalar not in items:
                request = in_groups(scalar, outer, ctx)
            if not request:
                continue
            if scalar in items:
                if grouped:
                    raise Refused("its SELECT has other aggregates or DISTINCT")
                output_name(scalar)
        except Refused as no:
            ctx.decline(f"not a window: {no}", scalar.place)
        else:
            yield request
    for number in range(len(outer.relations)):
        try:
            if request := joined_aggregate(number, outer, ctx):
                yield request
        except Refused as no:
            ctx.decline(f"not a window: {no}")


def _by_relations(requests: Iterator[CorrelatedAggregate]) -> list[tuple[CorrelatedAggregate, ...]]:
    """Requests for rows of the same relations together."""
    found: dict[tuple[int, ...], list[CorrelatedAggregate]] = {}
    for request in requests:
        found.setdefault(request.relations, []).append(request)
    return [tuple(group) for group in found.values()]


def _check_place(outer: InnerJoins, group: tuple[CorrelatedAggregate, ...], ctx: Context) -> None:
    """Raise ``Refused`` if the block is itself a subquery that may be correlated."""
    if not ctx.enclosing:
        return
    answered = {r.answer[0] for r in group if isinstance(r.answer, tuple)}
    for scalar in (*outer.conjuncts, *outer.block.project.items, *outer.block.in_clauses):
        if scalar in answered:
            continue
        if scalar.plans:
            raise Refused("it is in a subquery that contains other subqueries")
        for ref in scalar.columns:
            if ref.parts[-1] != "*":
                outer.scope.column(ref)


def _choice(block: WindowedBlock, written: Project) -> SelfAggregate:
    group, semis = block.requests, block.semis()
    count = "a window" if len(group) == 1 else f"windows for {len(group)} subqueries"
    keys = tuple(dict.fromkeys(k.text for r in group for k in r.keys))
    kept = tuple(condition for semi in semis for condition in semi.conditions)
    before = f", after {', '.join(c.shown for _, conditions in kept for c in conditions)}" if kept else ""
    rows = Rows(block.sources(), block.filters(), kept, sum(r.exists for r in group), block.alone, keys)
    return SelfAggregate(written, block.windowed(semis), f"{count} by {', '.join(keys)}{before}", rows)
