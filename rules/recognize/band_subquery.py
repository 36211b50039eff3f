"""Recognizes scalar subqueries that aggregate a band of the same source.

SELECT x.id, (SELECT count(*) FROM t y WHERE y.k = x.k AND y.ts BETWEEN x.ts - 600 AND x.ts) AS n FROM t x
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from dovetail.planner.band.comparisons import looks_like_band
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, is_star, output_name
from dovetail.planner.expr.aggregate_calls import Call, calls, outside, replaced
from dovetail.planner.expr.subqueries import replace_scalar_subqueries
from dovetail.planner.expr.substitution import without_alias
from dovetail.planner.logical import LateralView, Limit, Logical, Project, Sort
from dovetail.planner.logical.band_window import BandWindow, WindowedSource
from dovetail.planner.sql.to_sql import refuse_stars
from dovetail.planner.tree import Node
from dovetail.rules.analysis.same_source import same_source
from dovetail.rules.context import Context
from dovetail.rules.query.decorrelation import check_deterministic
from dovetail.rules.query.from_items import leaves, with_leaves
from dovetail.rules.query.inner_joins import InnerJoins, inner_joins
from dovetail.rules.query.query_block import QueryBlock, read_block
from dovetail.rules.query.query_block import where as filtered
from dovetail.rules.query.star_columns import expand_items
from dovetail.rules.rule import rule
from dovetail.rules.window.frame_aggregates import FrameAggregates
from dovetail.rules.window.self_band import Pair


@rule(Project, block=True, needs=("subquery",))
def band_subquery(block: QueryBlock, ctx: Context) -> BandWindow | None:
    """Recognize a subquery that aggregates the rows of the same table within a band of each row.

    Spark would join the table with itself on the equal keys and aggregate the pairs.  A window with a RANGE frame
    reads the table once (Leis et al., "Efficient Processing of Window Functions in Analytical SQL Queries", VLDB
    2015).
    """
    project = block.project
    plans = [plan for scalar in (*project.items, *block.condition) for plan in scalar.plans]
    for plan in plans:
        _report_one_row(plan, block, ctx)
    if not any(map(_is_candidate, plans)):
        return None
    found = _Found(inner_joins(block, ctx.names), ctx)
    items = tuple(found.rewritten(item, item=True) for item in project.items)
    where = tuple(found.rewritten(c, item=False) for c in block.condition)
    if not found.totals:
        return None
    try:
        other = found.block(items, where)
    except Refused as no:
        return ctx.decline(f"it cannot become a window: {no}", None)
    return BandWindow(project, other, "; ".join(dict.fromkeys(found.descriptions)), tuple(found.sources.values()))


def _report_one_row(plan: Node, outer: QueryBlock, ctx: Context) -> None:
    """Decline for ``(SELECT y.v FROM t y WHERE y.ts <= x.ts ORDER BY y.ts DESC LIMIT 1)``: the row before another."""
    inner = read_block(plan)
    if inner is None or [type(node) for node in inner.clauses] != [Limit, Sort]:
        return
    with suppress(Refused):
        scope = ctx.scope(inner.tree, outer=ctx.scope(outer.tree))
        for c in filter(looks_like_band, inner.condition):
            if len(scope.bind(c).levels) > 1:
                ctx.decline(
                    "it cannot become a window: ORDER BY … LIMIT picks one row, and only aggregates (count, sum, avg, "
                    "min, max) become windows",
                    c.place,
                )


def _is_candidate(plan: Node) -> bool:
    """Cheap: one aggregate over one relation, with a comparison by order in WHERE."""
    inner = read_block(plan)
    if inner is None or inner.clauses or len(inner.project.items) != 1 or len(inner.condition) < 1:
        return False
    return any(looks_like_band(c) for c in inner.condition) and "(" in inner.project.items[0].text


@dataclass
class _Found:
    """The subqueries of one block that become columns of a relation in its FROM."""

    joins: InnerJoins
    ctx: Context

    def __post_init__(self) -> None:
        self.relations: dict[int, Logical] = {}  # by the number of the first source
        number = 0
        for relation in leaves(self.joins.block.tree, named=True):
            self.relations[number] = relation
            number += 1 if isinstance(relation, LateralView) else len(self.ctx.names.sources(relation))
        self.totals: dict[int, list[FrameAggregates]] = {}
        self.sources: dict[int, WindowedSource] = {}
        self.descriptions: list[str] = []

    def rewritten(self, scalar: Scalar, *, item: bool) -> Scalar:
        """An expression with columns in the place of subqueries, where they are such; else itself."""
        return replace_scalar_subqueries(scalar, lambda plan: self._value(plan, scalar, item))

    def _value(self, plan: Node, scalar: Scalar, item: bool) -> str | None:
        if not _is_candidate(plan):
            return None
        inner = read_block(plan)
        assert inner is not None
        place = inner.condition[0].place
        try:
            if item and self.joins.block.clauses:
                raise Refused("the query around it groups or sorts rows", place)
            if item:
                output_name(scalar)
            return self._as_column(inner)
        except Refused as no:
            self.ctx.decline(f"it cannot become a window: {no.reason}", no.place or place)
        return None

    def _as_column(self, block: QueryBlock) -> str | None:
        if block.project.quantifier or block.project.hint:
            return None
        scope = self.ctx.scope(block.tree, outer=self.joins.scope)
        if len(scope.sources) != 1:
            raise Refused("the subquery reads more than one relation")
        found = calls(block.project.items[0])
        if not found:
            return None
        for at, relation in self.relations.items():
            readings = same_source(relation, block.tree, self.ctx)
            if readings is None:
                continue
            pair = Pair(self.ctx, relation, (1, at), (0, 0), readings, scope)
            if not any(pair.side(c.tree) == "both" for c in block.condition if not c.plans):
                continue
            for conjunct in block.condition:
                check_deterministic(conjunct)
            band = pair.read(block.condition)
            if band is None:
                return None
            own = (*self._own(at), *map(pair.text, band.row_filters))
            totals = next((x for x in self.totals.get(at, []) if x.band == band), None)
            totals = totals or FrameAggregates(pair, band, nulls=True)
            value = self._over_windows(block.project.items[0], found, totals)
            if not any(totals is known for known in self.totals.setdefault(at, [])):
                self.totals[at].append(totals)
            source = self.sources.get(at, WindowedSource(relation, band.keys, own, band.match_conditions))
            self.sources[at] = replace(source, rescans_frame=source.rescans_frame or totals.rescans_frame)
            self.descriptions.append(f"{relation.detail}: {band.description}")
            return value
        return None

    def _own(self, at: int) -> tuple[Scalar, ...]:
        """The conditions of the block on this relation alone."""
        own = []
        for conjunct in self.joins.conjuncts:
            if conjunct.plans:
                continue
            try:
                found = self.joins.scope.bind(conjunct).relations
            except Refused:
                continue
            if found == {at}:
                own.append(conjunct)
        return tuple(own)

    def _over_windows(self, item: Scalar, found: tuple[Call, ...], totals: FrameAggregates) -> str:
        """Return the value of the subquery, which Spark considers nullable in any case."""
        inner = without_alias(item)
        rest = outside(inner, found)
        check_deterministic(rest)
        if rest.columns:
            raise Refused(f"{item.shown} is more than an aggregate", item.place)
        texts = {call: self._total(call, totals) for call in found}
        if len(found) == 1 and inner.text == found[0].text:
            return texts[found[0]]
        return f"if(true, {replaced(inner, found, lambda c: texts[c]).text}, NULL)"

    @staticmethod
    def _total(call: Call, totals: FrameAggregates) -> str:
        argument = totals.argument(call)
        if call.function == "count":
            count = totals.count(argument)
            return f"nvl2({count}, {count}, 0)"
        type_ = totals.type_of(argument)
        if call.function == "sum":
            text, _ = totals.sum(argument, type_)
            return f"CAST({text} AS BIGINT)" if type_.name == "bigint" else text
        if call.function == "avg":
            return totals.mean(argument, type_)
        return totals.extreme(call.function, argument)

    def block(self, items: tuple[Scalar, ...], where: tuple[Scalar, ...]) -> Logical:
        """Return the block over relations with additional columns, which no ``*`` returns.

        Where a relation is on the side of an outer join that gets NULL rows, they have no value in the band either.
        """
        for scalar in (*items, *where, *self.joins.conjuncts):
            self._check_names(scalar)
            if scalar not in items or not is_star(scalar.known):
                refuse_stars(scalar)
        block = self.joins.block
        new: list[tuple[Logical, Logical]] = []
        for at, totals in self.totals.items():
            relation = self.relations[at]
            for total in totals:
                relation = total.relation(relation)
            new.append((self.relations[at], relation))
        tree = filtered(with_leaves(block.tree, new), where)
        return block.over(tree, items=expand_items(items, block.tree, self.ctx.names))

    def _check_names(self, scalar: Scalar) -> None:
        """A relation that gets columns has one name only."""
        names = {self.joins.scope.sources[at].names for at in self.totals}
        if any(len(n) > 1 for n in names) and any(len(c.parts) > 2 for c in scalar.columns):
            raise Refused(f"{scalar.shown} may refer to a relation by more than one name")
