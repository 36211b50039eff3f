"""Recognizes scalar aggregates over one table: ``(SELECT count(*) FROM t WHERE a), (SELECT sum(v) FROM t)``."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from sqlglot import exp

from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, quote
from dovetail.planner.expr.calls import unknown
from dovetail.planner.expr.subqueries import replace_scalar_subqueries
from dovetail.planner.logical import Join, Logical, OneRow, Project
from dovetail.planner.logical.self_join import MergedScalarAggregates, ScalarAggregates, ScalarAggregatesRow
from dovetail.planner.sql.to_sql import refuse_stars, star_items
from dovetail.planner.tree import Node
from dovetail.rules.context import Context
from dovetail.rules.query.decorrelation import has_lateral_view
from dovetail.rules.query.definitions import definition_of
from dovetail.rules.query.from_items import FromItem
from dovetail.rules.query.query_block import read_block, where
from dovetail.rules.rule import rule
from dovetail.rules.shared_scan.scalar_aggregates import (
    Member,
    Merged,
    ScalarAggregate,
    may_be_scalar_aggregate,
    mergeable,
    scalar_aggregate,
)


@dataclass(frozen=True)
class Candidate:
    """A query that may be a scalar aggregate: a relation in FROM, or a subquery in an expression."""

    query: Logical
    from_item: FromItem | None


Waiting = list[tuple[ScalarAggregate, Candidate]]


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
        ctx.check_not_correlated()
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


def candidates(project: Project, ctx: Context) -> list[Candidate]:
    """The queries of a SELECT that may be scalar aggregates.  Looks nothing up."""
    block, found = read_block(project), []
    named = [item for item in project.items if _named(item)]
    plain = bool(named) and _is_per_row(project)
    for from_item in block.from_items.found if block else ():
        query = definition_of(from_item.relation, ctx) if from_item.kind == "inner" else None
        if query is not None and may_be_scalar_aggregate(query, ctx):
            found.append(Candidate(query, from_item))
    for scalar in (*(block.condition if block else ()), *(named if plain else ())):

        def note(plan: Node) -> None:
            if may_be_scalar_aggregate(plan, ctx):
                found.append(Candidate(plan, None))  # type: ignore[arg-type]

        replace_scalar_subqueries(scalar, note)
    return found


def unnamed(project: Project, ctx: Context) -> list[Candidate]:
    """The scalar subqueries of items without an alias: Spark names such an item after its text.  Looks nothing up."""
    plans = [plan for item in project.items if not _named(item) for plan in item.plans]
    if not plans or not _is_per_row(project):
        return []
    return [Candidate(p, None) for p in plans if isinstance(p, Logical) and may_be_scalar_aggregate(p, ctx)]


def _is_per_row(project: Project) -> bool:
    """Whether the select list is computed for each row of FROM and WHERE, or for one row where there is no FROM."""
    block = read_block(project)
    plain = not block.clauses if block else isinstance(project.child, OneRow)
    return plain and not any(map(_may_aggregate, project.items))


def _may_aggregate(item: Scalar) -> bool:
    """Whether an item has an aggregate, or a function that is not known and could be one."""
    if item.known is None:
        return True
    found = (*item.tree.find_all(exp.AggFunc), *([odd] if (odd := unknown(item.tree)) else ()))
    return any(not call.find_ancestor(exp.Window) for call in found)


def _named(item: Scalar) -> bool:
    return bool(item.plans) and isinstance(item.known, exp.Alias)


class MergedSelect:
    """Rewrites a SELECT whose scalar aggregates are merged."""

    def __init__(self, project: Project, ctx: Context):
        self.project, self.ctx = project, ctx
        self.block = read_block(project)
        self.from_items = self.block.from_items if self.block else None
        self.values: list[tuple[Logical, str]] = []  # of the subqueries in expressions
        self.instead: dict[int, Logical] = {}

    def merged(self, groups: list[tuple[Merged, tuple[Candidate, ...]]]) -> Project:
        """The SELECT with the aggregates of each group in a relation.  Raises ``Refused``, ``Unsupported``."""
        if self.from_items and has_lateral_view(self.from_items.tree):
            raise Refused("FROM has a LATERAL VIEW")
        tree: Logical = OneRow()
        for merged, group in groups:
            totals = self._add(merged, group)
            if not any(one.from_item for one in group):
                tree = self._beside(totals, tree)
        moved: tuple[Scalar, ...] = ()
        if self.from_items:
            tree, moved = self.from_items.rebuilt(self.instead, lambda conjunct: conjunct)
        condition = self.block.condition if self.block else ()
        condition = tuple(replace_scalar_subqueries(c, self._value) for c in condition)
        items = tuple(replace_scalar_subqueries(i, self._value) for i in self.project.items)
        for item in items:
            if item.text == "*":
                star_items(tree)
            else:
                refuse_stars(item)
        rows = where(tree, (*condition, *moved))
        return self.block.over(rows, items=items) if self.block else replace(self.project, child=rows, items=items)

    def _value(self, plan: Node) -> str | None:
        return next((text for query, text in self.values if query is plan), None)

    def _beside(self, totals: ScalarAggregates, tree: Logical) -> Logical:
        """Put the scalar aggregates that replace no relation of FROM before its first relation."""
        if self.from_items is None:
            return totals if isinstance(tree, OneRow) else Join(tree, totals, "cross", "CROSS JOIN")
        first = self.instead.get(0) or self.from_items.found[0].relation
        self.instead[0] = Join(totals, first, "cross", "CROSS JOIN")
        return tree

    def _add(self, merged: Merged, group: tuple[Candidate, ...]) -> ScalarAggregates:
        """Record the replacement of each total; return the relation that computes them all."""
        for index, one in enumerate(group):
            texts = merged.values(index)
            if one.from_item is None:
                text = texts[0] if merged.nullable(index) else f"if(true, {texts[0]}, NULL)"
                self.values.append((one.query, text))
            else:
                self.instead[one.from_item.number] = self._row(one.from_item, texts, merged.describe_rows(index))
        totals = ScalarAggregates(merged.query, merged.name, (), f"AS {merged.name}")
        from_items = [one.from_item for one in group if one.from_item]
        if from_items:
            first = from_items[0].number
            if any(not from_item.free or from_item.first > first for from_item in from_items[1:]):
                raise Refused("one of them is in parentheses, where LATERAL cannot see the others")
            self.instead[first] = Join(totals, self.instead[first], "cross", "CROSS JOIN")
        return totals

    def _row(self, from_item: FromItem, texts: list[str], description: str) -> ScalarAggregatesRow:
        """Return a relation of one row with these columns."""
        (source,) = self.ctx.names.sources(from_item.relation)
        columns, alias = source.known_columns(len(texts)), source.only_name
        source.check_distinct_columns(named=True)
        items = tuple(Scalar(f"{text} AS {quote(column.name)}") for text, column in zip(texts, columns, strict=True))
        query = Project(OneRow(), items)
        return ScalarAggregatesRow(query, alias, (), f"AS {quote(alias)}", True, columns, description)
