"""Turns subqueries over a band or keys of another table, which are values of each row, into joins with its groups.

SELECT s.at, (SELECT count(*) FROM runs x WHERE s.at BETWEEN x.st AND x.et) AS n FROM slots s
→
SELECT s.at, nvl2(g.v, g.v, 0) AS n FROM slots s LEFT JOIN (
SELECT d.at, count(*) AS v FROM (SELECT DISTINCT at FROM slots) d JOIN runs x ON d.at BETWEEN x.st AND x.et
GROUP BY d.at) g ON g.at <=> s.at

EXISTS in a select list, a CASE or an OR is such a value, too: whether there is a group.  A LATERAL subquery of FROM
that aggregates has such values, one for each of its columns: LATERAL (SELECT coalesce(g.v, 0) AS n).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sqlglot import exp

from dovetail.planner.band.comparisons import comparisons
from dovetail.planner.bind.scope import BoundColumn, Scope
from dovetail.planner.errors import Refused
from dovetail.planner.expr import HOLE, Scalar, output_name, quote
from dovetail.planner.expr.aggregate_calls import Call, calls_of_groups, outside, replaced
from dovetail.planner.expr.subqueries import Subquery, replace_subqueries
from dovetail.planner.expr.substitution import without_alias
from dovetail.planner.keys.comparable import common_cast
from dovetail.planner.logical import Aggregate, Derived, Join, Logical, OneRow, Project
from dovetail.planner.logical.relations import references_left, subquery_as
from dovetail.planner.sql.to_sql import refuse_stars
from dovetail.planner.tree import Node
from dovetail.rules.context import Context
from dovetail.rules.nearest.kept_rows import kept_rows
from dovetail.rules.query.decorrelation import (
    check_deterministic,
    check_inner,
    has_band_or_keys,
    has_lateral_view,
    may_have_band_or_keys,
    why_not_rows,
)
from dovetail.rules.query.exists_tests import simple_test
from dovetail.rules.query.grouping import grouping_expressions
from dovetail.rules.query.query_block import QueryBlock, read_block, where
from dovetail.rules.query.star_columns import expand_items
from dovetail.rules.rule import rule

_KEEPS_LEFT = ("inner", "cross", "left")


@rule(Project, block=True, needs=("subquery",))
def correlated_groups(block: QueryBlock, ctx: Context) -> Project | None:
    """Join the groups of a band or of keys with each row, in the place of a subquery that aggregates or tests them.

    Spark does this as well, but later; the rules need to see the condition now.  (Neumann and Kemper, "Unnesting
    Arbitrary Queries", BTW 2015.)
    """
    if not any(map(_candidate, block.subqueries)):
        return None
    found = _Groups(_without_laterals(block.tree, block, ctx), block, ctx)
    items = tuple(map(found.item, block.project.items))
    condition = tuple(c if simple_test(c) else found.rewritten(c) for c in block.condition)
    if found.tree is block.tree:
        return None
    try:
        shown = expand_items(items, block.tree, ctx.names)
        for scalar in (*shown, *condition, *block.in_clauses):
            refuse_stars(scalar)
    except Refused as no:
        return ctx.decline(f"the subquery stays: {no.reason}", no.place)
    return block.over(where(found.tree, condition), items=shown, names=block.project.output)


def _without_laterals(tree: Logical, block: QueryBlock, ctx: Context, *, keeps: bool = True) -> Logical:
    """FROM with groups in the place of LATERAL subqueries that aggregate, the first one first.

    ``keeps``: whether no join above fills the rows of ``tree`` with NULL.
    """
    if not isinstance(tree, Join):
        return tree
    keeps = keeps and tree.kind in _KEEPS_LEFT
    left, right = _without_laterals(tree.left, block, ctx, keeps=keeps), tree.right
    if isinstance(right, Derived) and right.lateral and tree.kind in _KEEPS_LEFT:
        inner, groups = _candidate(right.query), _Groups(left, block, ctx, keeps=keeps)
        if inner and inner.is_aggregated and (items := groups.columns(inner, named=not right.renames)):
            return replace(tree, left=groups.tree, right=replace(right, query=Project(OneRow(), items)))
    return tree if left is tree.left else replace(tree, left=left)


def _candidate(plan: Node) -> QueryBlock | None:
    """The block of a subquery that may have a band or keys; cheap, and never looks anything up."""
    block = read_block(plan)
    return block if block and block.is_plain and any(map(may_have_band_or_keys, block.condition)) else None


def _is_bound(conjunct: Scalar, scope: Scope) -> bool:
    """Whether a conjunct compares a value of the subquery's rows with one of the rows around it."""
    ends = [tuple(scope.bind(end).levels for end in pair) for pair in comparisons(conjunct.tree)]
    return any(len(one) == len(other) == 1 and one != other for one, other in ends)


@dataclass(frozen=True)
class _Correlation:
    """A subquery as a join: ``pairs`` of the distinct rows that it reads of the block around it, and its own rows.

    ``keys``: the columns of the former, ``names``: their names by the columns of the block.
    """

    pairs: Join
    keys: tuple[Scalar, ...]
    names: dict[BoundColumn, str]


class _Groups:
    """A FROM of a block, or its first relations, on its way to one that is joined with groups.

    ``keeps``: whether each row that fails a condition of WHERE is in no result.
    """

    def __init__(self, tree: Logical, block: QueryBlock, ctx: Context, *, keeps: bool = True):
        self.rows = self.tree = tree
        self.block, self.ctx, self.keeps = block, ctx, keeps
        self.scope = ctx.scope(tree)

    def item(self, item: Scalar) -> Scalar:
        """An item with columns in the place of subqueries; itself where it has no name of its own."""
        is_row_value = not self.block.below or self._is_row_value(item)
        return replace_subqueries(item, lambda used: self._value(used, is_row_value=is_row_value, item=item))

    def rewritten(self, scalar: Scalar, *, is_row_value: bool = True) -> Scalar:
        """An expression with columns in the place of subqueries; itself unless it is computed of each row."""
        return replace_subqueries(scalar, lambda used: self._value(used, is_row_value=is_row_value))

    def _is_row_value(self, item: Scalar) -> bool:
        """Whether the subqueries of an item are computed before the block groups its rows.

        They are where GROUP BY names the item or its number, and inside of an aggregate.
        """
        block = self.block
        if not item.plans or not block.is_grouped or any(key.plans for key in block.in_clauses):
            return False
        used = [column for column in item.tree.find_all(exp.Column) if column.name.startswith(HOLE)]
        if used and all(one.find_ancestor(exp.AggFunc) and not one.find_ancestor(exp.Window) for one in used):
            return True
        try:
            return without_alias(item) in grouping_expressions(block, self.scope)
        except Refused:
            return False

    def _value(self, used: Subquery, *, is_row_value: bool, item: Scalar | None = None) -> str | None:
        inner = _candidate(used.plan)
        if inner is None or (used.kind == "scalar" and "(" not in inner.project.items[0].text):
            return None
        try:
            if (correlation := self._correlation(inner, exists=used.kind == "exists")) is None:
                return None
            if item:
                output_name(item)
            if not is_row_value or self.block.project.hint:
                raise Refused(
                    "the query around it groups or ranks rows, or has a hint; compute it in a query below that"
                )
            if used.kind == "exists":
                return self._exists(inner, correlation)
            if len(inner.project.items) != 1:
                raise Refused("it has several columns")
            return self._aggregates(inner, correlation, nullable=True)[0]
        except Refused as no:
            self.ctx.decline(f"the subquery stays: {no.reason}", no.place or inner.condition[0].place)
        return None

    def columns(self, inner: QueryBlock, *, named: bool) -> tuple[Scalar, ...]:
        """The columns of a LATERAL subquery that aggregates, over its groups; empty where it stays.

        ``named``: they have the names of its items.
        """
        items = inner.project.items
        try:
            if (correlation := self._correlation(inner)) is None:
                return ()
            names = [f" AS {quote(output_name(item))}" if named else "" for item in items]
            values = self._aggregates(inner, correlation, nullable=False)
        except Refused as no:
            self.ctx.decline(f"the subquery stays: {no.reason}", no.place or inner.condition[0].place)
            return ()
        return tuple(Scalar(f"{value}{name}") for value, name in zip(values, names, strict=True))

    def _correlation(self, inner: QueryBlock, *, exists: bool = False) -> _Correlation | None:
        """What a subquery reads of the block; None where it has no band and no keys with it."""
        ctx, scope = self.ctx, self.ctx.scope(inner.tree, outer=self.scope)
        across = tuple(c for c in inner.condition if scope.bind(c).levels - {0})
        candidates = tuple(filter(may_have_band_or_keys, across))
        if not candidates:
            return None
        if not has_band_or_keys(candidates):
            first = next((c for c in candidates if _is_bound(c, scope)), None)
            if first is None:
                what = "compares values that depend on both rows, so every pair is compared"
                advice = "write an equality, a band, a prefix or a test of an element (docs/key-joins.md)"
                raise Refused(f"{candidates[0].shown} {what}; {advice}", candidates[0].place)
            if exists:
                return None  # extreme_exists_value has the reason
            advice = "add the other bound, or compute running totals over a UNION ALL of both tables by a window"
            raise Refused(f"{first.shown} bounds its rows on one side only; {advice}", first.place)
        outer = list(dict.fromkeys(c for conjunct in across for c in scope.bind(conjunct).columns if c.level))
        source = self._source(outer)
        self._check(inner, source)
        rows = ctx.fresh("outer")
        names = {column: f"{rows}_c{number}" for number, column in enumerate(outer)}
        ctx.written |= {f"{rows}.{name}": column.ref.text for column, name in names.items()}

        def inside(column: BoundColumn) -> str | None:
            return f"{rows}.{names[column]}" if column.level else None

        domain = subquery_as(self._domain(source, names.items()), rows)
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

    def _aggregates(self, inner: QueryBlock, found: _Correlation, *, nullable: bool) -> list[str]:
        """Join the groups of a subquery; return the values of its items over them.

        ``nullable``: to Spark they may be NULL in any case, as those of scalar subqueries.
        """
        scope, items = self.ctx.scope(inner.tree, outer=self.scope), inner.project.items
        read = [(without_alias(item), calls_of_groups(item)) for item in items]
        for item, (value, aggregates) in zip(items, read, strict=True):
            if not aggregates or outside(value, aggregates).columns:
                raise Refused(f"{item.shown} is more than aggregates of the subquery's rows", item.place)
            if scope.bind(item).levels - {0}:
                raise Refused(f"{item.shown} reads columns of the query around it", item.place)
        groups = self.ctx.fresh("groups")
        every = dict.fromkeys(call.text for _, aggregates in read for call in aggregates)
        names = {text: f"{groups}_v{number}" for number, text in enumerate(every)}
        keyed = (*found.keys, *(Scalar(f"{text} AS {name}") for text, name in names.items()))
        self._join(Project(Aggregate(found.pairs, found.keys), keyed), groups, found)

        def total(call: Call) -> str:
            """An aggregate of rows that may be none."""
            text = f"{groups}.{names[call.text]}"
            if not call.of_none:
                return text
            filled = f"nvl2({text}, {text}, {call.of_none})" if nullable else f"coalesce({text}, {call.of_none})"
            return f"array_compact({filled})" if call.of_none == "array()" else filled  # elements are never NULL

        def shown(value: Scalar, aggregates: tuple[Call, ...]) -> str:
            text = replaced(value, aggregates, total).text
            return text if value.text == aggregates[0].text or not nullable else f"if(true, {text}, NULL)"

        return [shown(*one) for one in read]

    def _join(self, rows: Project, name: str, found: _Correlation) -> None:
        """Join rows of the subquery with the block, by what it reads of the block."""
        same = tuple(Scalar(f"{name}.{own} <=> {self._reference(column)}") for column, own in found.names.items())
        self.ctx.written |= {f"{name}.{own}": column.ref.text for column, own in found.names.items()}
        self.tree = Join(self.tree, subquery_as(rows, name), "left", "LEFT JOIN", same)

    def _source(self, columns: list[BoundColumn]) -> Logical:
        """The relations whose columns a subquery reads: all, or the first ones where others are LATERAL."""
        tree, names = self.rows, self.ctx.names
        last = max((column.relation for column in columns), default=0)
        if references_left(tree):
            while isinstance(tree, Join) and tree.kind in _KEEPS_LEFT and last < len(names.sources(tree.left)):
                tree = tree.left
        return tree

    def _check(self, inner: QueryBlock, source: Logical) -> None:
        """Raise ``Refused`` where a source cannot be read twice, or the subquery is no join with it."""
        self.ctx.check_not_correlated()
        check_inner(inner.tree, self.ctx.names)
        if references_left(source) or has_lateral_view(self.rows):
            raise Refused("it reads columns of a LATERAL item")
        if reason := self.ctx.nonrepeatable_reason(source):
            raise Refused(f"the rows around it would be read twice, and {reason}")

    def _domain(self, source: Logical, columns: Iterable[tuple[BoundColumn, str]]) -> Project:
        """The distinct values of the columns that a subquery reads of its source."""
        items, ctx = [], self.ctx
        for column, name in columns:
            type_ = column.check_no_field().column.type
            if type_ is None or not (type_.exact or type_.approximate or type_.name in ("array", "struct")):
                raise Refused(f"{column.ref.text} is {type_ or 'of a type that is not known'}, which has no groups")
            common_cast((type_,), ansi=True)  # refuses values that are equal, and may differ in another comparison
            items.append(Scalar(f"{self._reference(column)} AS {name}"))
        condition = self.block.condition
        if source is self.block.tree:
            known = tuple(c for c in condition if not c.plans and not ctx.volatile_call(c.tree, source))
        else:
            known = kept_rows(condition, (self.block.tree,), source, 0, ctx) if self.keeps else ()
        return Project(where(source, known), tuple(items), quantifier="DISTINCT")

    def _reference(self, column: BoundColumn) -> str:
        return self.scope.sources[column.relation].reference(column.column.name)
