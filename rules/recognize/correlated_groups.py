"""Turns scalar subqueries that aggregate a band of another table into joins with its groups.

SELECT s.at, (SELECT count(*) FROM runs x WHERE s.at BETWEEN x.st AND x.et) AS n FROM slots s
→
SELECT s.at, nvl2(g.v, g.v, 0) AS n FROM slots s LEFT JOIN (
SELECT d.at, count(*) AS v FROM (SELECT DISTINCT at FROM slots) d JOIN runs x ON d.at BETWEEN x.st AND x.et
GROUP BY d.at) g ON g.at <=> s.at
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from dovetail.planner.band.comparisons import looks_like_band
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, quote
from dovetail.planner.expr.aggregate_calls import Call, calls, outside, replaced
from dovetail.planner.expr.subqueries import replace_scalar_subqueries
from dovetail.planner.expr.substitution import without_alias
from dovetail.planner.logical import Aggregate, Join, Project
from dovetail.planner.logical.relations import subquery_as
from dovetail.planner.sql.join_scope import scope_of
from dovetail.planner.sql.scope import BoundColumn
from dovetail.planner.tree import Node
from dovetail.rules.context import Context
from dovetail.rules.query.correlation import check_not_correlated, leans_on_left
from dovetail.rules.query.decorrelation import bounds, check_deterministic, check_inner, has_lateral_view
from dovetail.rules.query.query_block import QueryBlock, read_block, where
from dovetail.rules.query.star_columns import expand_items
from dovetail.rules.rule import rule


@rule(Project)
def correlated_groups(project: Project, ctx: Context) -> Project | None:
    """Join the groups of a band with each row, in the place of a subquery that aggregates them.

    Spark does this as well, but later; the rules need to see the band now.  (Neumann and Kemper, "Unnesting Arbitrary
    Queries", BTW 2015.)
    """
    block = read_block(project)
    if block is None or not any(_aggregates(p) for s in (*project.items, *block.condition) for p in s.plans):
        return None
    found = _Groups(block, ctx)
    items = tuple(map(found.item, project.items))
    condition = tuple(map(found.rewritten, block.condition))
    if found.tree is block.tree:
        return None
    try:
        shown = expand_items(items, scope_of(ctx.names, block.tree), ctx.names)
    except Refused as no:
        return ctx.decline(f"the subquery stays: {no.reason}", no.place)
    return block.over(where(found.tree, condition), items=shown, names=project.output)


def _aggregates(plan: Node) -> QueryBlock | None:
    """The block of a subquery that may aggregate a band; cheap, and never looks anything up."""
    block = read_block(plan)
    if block is None or not block.is_plain or len(block.project.items) != 1 or "(" not in block.project.items[0].text:
        return None
    return block if any(map(looks_like_band, block.condition)) else None


class _Groups:
    """A block on its way to one over groups."""

    def __init__(self, block: QueryBlock, ctx: Context):
        self.block, self.ctx, self.tree = block, ctx, block.tree
        self.scope = ctx.scope(block.tree)

    def item(self, item: Scalar) -> Scalar:
        """An item with columns in the place of subqueries; itself where it has no name of its own."""
        if item.plans and not isinstance(item.tree, exp.Alias):
            for block in filter(None, map(_aggregates, item.plans)):
                self.ctx.decline("the subquery stays: it has no name; give it one with AS", block.condition[0].place)
            return item
        return self.rewritten(item)

    def rewritten(self, scalar: Scalar) -> Scalar:
        """An expression with columns in the place of subqueries."""
        return replace_scalar_subqueries(scalar, self._value)

    def _value(self, plan: Node) -> str | None:
        inner = _aggregates(plan)
        if inner is None:
            return None
        try:
            return self._join(inner)
        except Refused as no:
            self.ctx.decline(f"the subquery stays: {no.reason}", no.place or inner.condition[0].place)
        return None

    def _join(self, inner: QueryBlock) -> str | None:
        """Join the groups of a subquery; return its value over them, None where it has no band with the block."""
        ctx, scope = self.ctx, self.ctx.scope(inner.tree, outer=self.scope)
        across = [c for c in inner.condition if scope.bind(c).levels - {0}]
        band = tuple(filter(looks_like_band, across))
        if bounds(band) < 2:
            if not band:
                return None
            raise Refused(f"{band[0].shown} bounds its rows on one side only; add the other bound", band[0].place)
        self._check(inner)
        (item,) = inner.project.items
        value, found = without_alias(item), calls(item)
        if not found or outside(value, found).columns:
            raise Refused(f"{item.shown} is more than aggregates of the subquery's rows", item.place)
        if scope.bind(item).levels - {0}:
            raise Refused(f"{item.shown} reads columns of the query around it", item.place)
        outer = list(dict.fromkeys(c for conjunct in across for c in scope.bind(conjunct).columns if c.level))
        rows, groups = ctx.fresh("outer"), ctx.fresh("groups")
        names = {column: f"{rows}_c{number}" for number, column in enumerate(outer)}
        domain = subquery_as(self._domain(names.items()), rows)

        def inside(column: BoundColumn) -> str | None:
            return f"{rows}.{names[column]}" if column.level else None

        on = tuple(scope.bind(c).substitute(inside) for c in inner.condition)
        join = Join(domain, inner.tree, "inner", "JOIN", on)
        for conjunct in on:
            check_deterministic(conjunct, lambda tree: ctx.volatile_call(tree, join))
        keys = tuple(Scalar(f"{rows}.{name}") for name in names.values())
        values = {call: f"{groups}_v{number}" for number, call in enumerate(found)}
        items = (*keys, *(Scalar(f"{call.text} AS {name}") for call, name in values.items()))
        grouped = Project(Aggregate(join, keys), items)
        same = tuple(Scalar(f"{groups}.{name} <=> {self._reference(column)}") for column, name in names.items())
        self.tree = Join(self.tree, subquery_as(grouped, groups), "left", "LEFT JOIN", same)

        def total(call: Call) -> str:
            """An aggregate of rows that may be none; to Spark, a subquery may be NULL in any case."""
            text = f"{groups}.{values[call]}"
            return f"nvl2({text}, {text}, 0)" if call.function == "count" else text

        text = replaced(value, found, total).text
        return text if value.text == found[0].text else f"if(true, {text}, NULL)"

    def _check(self, inner: QueryBlock) -> None:
        """Raise ``Refused`` where the block cannot be read twice, or the subquery is no join with it."""
        block = self.block
        check_not_correlated(self.ctx)
        check_inner(inner.tree, self.ctx.names)
        if block.below or block.project.hint:
            raise Refused("the query around it groups or ranks rows, or has a hint")
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
