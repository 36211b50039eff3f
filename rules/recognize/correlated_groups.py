"""Turns subqueries over a band of another table, which are values of each row, into joins with its groups.

SELECT s.at, (SELECT count(*) FROM runs x WHERE s.at BETWEEN x.st AND x.et) AS n FROM slots s
→
SELECT s.at, nvl2(g.v, g.v, 0) AS n FROM slots s LEFT JOIN (
SELECT d.at, count(*) AS v FROM (SELECT DISTINCT at FROM slots) d JOIN runs x ON d.at BETWEEN x.st AND x.et
GROUP BY d.at) g ON g.at <=> s.at

EXISTS in a select list, a CASE or an OR is such a value, too: whether there is a group.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlglot import exp

from dovetail.planner.band.comparisons import looks_like_band
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, quote
from dovetail.planner.expr.aggregate_calls import Call, calls, outside, replaced
from dovetail.planner.expr.subqueries import Subquery, replace_subqueries
from dovetail.planner.expr.substitution import without_alias
from dovetail.planner.logical import Aggregate, Join, Project
from dovetail.planner.logical.relations import subquery_as
from dovetail.planner.sql.join_scope import scope_of
from dovetail.planner.sql.scope import BoundColumn
from dovetail.planner.tree import Node
from dovetail.rules.context import Context
from dovetail.rules.query.correlation import check_not_correlated, leans_on_left
from dovetail.rules.query.decorrelation import (
    bounds,
    check_deterministic,
    check_inner,
    has_lateral_view,
    why_not_rows,
)
from dovetail.rules.query.exists_tests import simple_test
from dovetail.rules.query.query_block import QueryBlock, read_block, where
from dovetail.rules.query.star_columns import expand_items
from dovetail.rules.rule import rule


@rule(Project)
def correlated_groups(project: Project, ctx: Context) -> Project | None:
    """Join the groups of a band with each row, in the place of a subquery that aggregates or tests them.

    Spark does this as well, but later; the rules need to see the band now.  (Neumann and Kemper, "Unnesting Arbitrary
    Queries", BTW 2015.)
    """
    block = read_block(project)
    if block is None or not any(_band_block(p) for s in (*project.items, *block.condition) for p in s.plans):
        return None
    found = _Groups(block, ctx)
    items = tuple(map(found.item, project.items))
    condition = tuple(c if simple_test(c) else found.rewritten(c) for c in block.condition)
    if found.tree is block.tree:
        return None
    try:
        shown = expand_items(items, scope_of(ctx.names, block.tree), ctx.names)
    except Refused as no:
        return ctx.decline(f"the subquery stays: {no.reason}", no.place)
    return block.over(where(found.tree, condition), items=shown, names=project.output)


def _band_block(plan: Node) -> QueryBlock | None:
    """The block of a subquery that may read a band; cheap, and never looks anything up."""
    block = read_block(plan)
    return block if block and block.is_plain and any(map(looks_like_band, block.condition)) else None


@dataclass(frozen=True)
class _Correlation:
    """A subquery as a join: ``pairs`` of the distinct rows that it reads of the block around it, and its own rows.

    ``keys``: the columns of the former, ``names``: their names by the columns of the block.
    """

    pairs: Join
    keys: tuple[Scalar, ...]
    names: dict[BoundColumn, str]


class _Groups:
    """A block on its way to one over groups."""

    def __init__(self, block: QueryBlock, ctx: Context):
        self.block, self.ctx, self.tree = block, ctx, block.tree
        self.scope = ctx.scope(block.tree)

    def item(self, item: Scalar) -> Scalar:
        """An item with columns in the place of subqueries; itself where it has no name of its own."""
        if item.plans and not isinstance(item.tree, exp.Alias):
            for block in filter(None, map(_band_block, item.plans)):
                self.ctx.decline("the subquery stays: it has no name; give it one with AS", block.condition[0].place)
            return item
        return self.rewritten(item)

    def rewritten(self, scalar: Scalar) -> Scalar:
        """An expression with columns in the place of subqueries."""
        return replace_subqueries(scalar, self._value)

    def _value(self, used: Subquery) -> str | None:
        inner = _band_block(used.plan)
        if inner is None or (used.kind == "scalar" and "(" not in inner.project.items[0].text):
            return None
        try:
            correlation = self._correlation(inner)
            if correlation is None:
                return None
            return (self._exists if used.kind == "exists" else self._aggregate)(inner, correlation)
        except Refused as no:
            self.ctx.decline(f"the subquery stays: {no.reason}", no.place or inner.condition[0].place)
        return None

    def _correlation(self, inner: QueryBlock) -> _Correlation | None:
        """What a subquery reads of the block; None where it has no band with it."""
        ctx, scope = self.ctx, self.ctx.scope(inner.tree, outer=self.scope)
        across = [c for c in inner.condition if scope.bind(c).levels - {0}]
        band = tuple(filter(looks_like_band, across))
        if bounds(band) < 2:
            if not band:
                return None
            raise Refused(f"{band[0].shown} bounds its rows on one side only; add the other bound", band[0].place)
        self._check(inner)
        outer = list(dict.fromkeys(c for conjunct in across for c in scope.bind(conjunct).columns if c.level))
        rows = ctx.fresh("outer")
        names = {column: f"{rows}_c{number}" for number, column in enumerate(outer)}

        def inside(column: BoundColumn) -> str | None:
            return f"{rows}.{names[column]}" if column.level else None

        domain = subquery_as(self._domain(names.items()), rows)
        on = tuple(scope.bind(c).substitute(inside) for c in inner.condition)
        pairs = Join(domain, inner.tree, "inner", "JOIN", on)
        for conjunct in on:
            check_deterministic(conjunct, lambda tree: ctx.volatile_call(tree, pairs))
        return _Correlation(pairs, tuple(Scalar(f"{rows}.{name}") for name in names.values()), names)

    def _exists(self, inner: QueryBlock, found: _Correlation) -> str:
        """Join the rows for which a subquery returns some; return whether there is one."""
        if why := why_not_rows(inner.project.items):
            raise Refused(why, inner.project.items[0].place)
        groups = self.ctx.fresh("groups")
        items = (*found.keys, Scalar(f"true AS {groups}_v0"))
        self._join(Project(found.pairs, items, quantifier="DISTINCT"), groups, found)
        return f"{groups}.{groups}_v0 IS NOT NULL"

    def _aggregate(self, inner: QueryBlock, found: _Correlation) -> str:
        """Join the groups of a subquery; return its value over them."""
        if len(inner.project.items) != 1:
            raise Refused("it has several columns")
        (item,) = inner.project.items
        value, aggregates = without_alias(item), calls(item)
        if not aggregates or outside(value, aggregates).columns:
            raise Refused(f"{item.shown} is more than aggregates of the subquery's rows", item.place)
        if self.ctx.scope(inner.tree, outer=self.scope).bind(item).levels - {0}:
            raise Refused(f"{item.shown} reads columns of the query around it", item.place)
        groups = self.ctx.fresh("groups")
        values = {call: f"{groups}_v{number}" for number, call in enumerate(aggregates)}
        items = (*found.keys, *(Scalar(f"{call.text} AS {name}") for call, name in values.items()))
        self._join(Project(Aggregate(found.pairs, found.keys), items), groups, found)

        def total(call: Call) -> str:
            """An aggregate of rows that may be none; to Spark, a subquery may be NULL in any case."""
            text = f"{groups}.{values[call]}"
            return f"nvl2({text}, {text}, 0)" if call.function == "count" else text

        text = replaced(value, aggregates, total).text
        return text if value.text == aggregates[0].text else f"if(true, {text}, NULL)"

    def _join(self, rows: Project, name: str, found: _Correlation) -> None:
        """Join rows of the subquery with the block, by what it reads of the block."""
        same = tuple(Scalar(f"{name}.{own} <=> {self._reference(column)}") for column, own in found.names.items())
        self.tree = Join(self.tree, subquery_as(rows, name), "left", "LEFT JOIN", same)

    def _check(self, inner: QueryBlock) -> None:
        """Raise ``Refused`` where the block cannot be read twice, or the subquery is no join with it."""
        block = self.block
        check_not_correlated(self.ctx)
        check_inner(inner.tree, self.ctx.names)
        if block.below or block.project.hint:
            raise Refused("the query around it groups or ranks rows, or has a hint; compute it in a query below that")
        if leans_on_left(block.tree) or has_lateral_view(block.tree):
            raise Refused("FROM around it has a LATERAL item")
        if reason := self.ctx.nonrepeatable_reason(block.tree):
            raise Refused(f"the rows around it would be read twice, and {reason}")

    def _domain(self, columns: Iterable[tuple[BoundColumn, str]]) -> Project:
        """The distinct values of the columns that a subquery reads of the block."""
        items = []
        for column, name in columns:
            type_ = column.check_no_field().column.type
            if type_ is None or not (type_.exact or type_.approximate):
                raise Refused(f"{column.ref.text} is {type_ or 'of a type that is not known'}, which has no groups")
            items.append(Scalar(f"{self._reference(column)} AS {name}"))
        tree, ctx = self.block.tree, self.ctx
        known = tuple(c for c in self.block.condition if not c.plans and not ctx.volatile_call(c.tree, tree))
        return Project(where(tree, known), tuple(items), quantifier="DISTINCT")

    def _reference(self, column: BoundColumn) -> str:
        names = self.scope.sources[column.relation].names
        if not names:
            raise Refused(f"{column.ref.text} is of a relation without a name; give it an alias")
        return f"{quote(names[-1])}.{quote(column.column.name)}"
