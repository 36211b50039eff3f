"""Recognizes EXISTS, semi and anti joins that one row of each key decides: ``l.user = o.user AND l.ts <= o.ts``."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial

from sqlglot import exp

from dovetail.planner.band.comparisons import is_or_of_comparisons, looks_like_band
from dovetail.planner.conditions.compared import Comparison
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, output_name, sql
from dovetail.planner.expr.subqueries import Subquery, SubqueryTest, replace_subqueries
from dovetail.planner.expr.substitution import operand
from dovetail.planner.logical import Filter, Join, Logical, Project
from dovetail.planner.logical.extreme_semi_join import Bound, Extreme, ExtremeSemiJoin, ExtremeValues, SemiJoins
from dovetail.planner.logical.joins import EqualKey
from dovetail.planner.logical.relations import references_left
from dovetail.planner.sql.to_sql import refuse_stars
from dovetail.rules.analysis.float_groups import check_groups
from dovetail.rules.context import Context
from dovetail.rules.nearest.extreme_groups import over_groups
from dovetail.rules.nearest.pairs import Pairs
from dovetail.rules.query.decorrelation import bounds, has_band_or_keys
from dovetail.rules.query.exists_as_join import exists_as_join
from dovetail.rules.query.exists_tests import simple_test
from dovetail.rules.query.query_block import QueryBlock, move_conjuncts, read_block, where
from dovetail.rules.query.star_columns import expand_items
from dovetail.rules.rule import rule


@rule(Join, Filter, needs=("semi_join", "subquery"))
def extreme_exists(node: Join | Filter, ctx: Context) -> Logical | None:
    """Recognize a semi or anti join whose condition the least or the greatest value of each key decides.

    Some row has a value up to a bound if and only if the least value is up to it.  The same holds for EXISTS and IN in
    WHERE, which are semi joins.
    """
    if isinstance(node, Join):
        try:
            return extreme_semi_join(node, ctx)
        except Refused as no:
            if bounds(node.condition) < 2:  # otherwise it may be a band
                ctx.decline(f"not only the least or the greatest value: {no.reason}", no.place, no.code)
            return None
    return move_conjuncts(node, lambda test, tree: _joined(test, tree, ctx) if test.plans else None)


def _joined(conjunct: Scalar, tree: Logical, ctx: Context) -> ExtremeSemiJoin | None:
    """Join the relations of a query with those of the subquery in a conjunct; None if the rule does not apply."""
    test = simple_test(conjunct)
    block = read_block(test.query) if test else None
    if test is None or block is None:
        return None
    if not (across := _across(block, tree, ctx)):
        return None
    if not any(map(looks_like_band, across)):
        reason = f"{across[0].shown} is an OR, so no single value of the subquery decides"
        return ctx.decline(f"{test} stays a subquery: {reason}", across[0].place, "or_condition")
    try:
        return extreme_semi_join(exists_as_join(test, block, tree, ctx), ctx)
    except Refused as no:
        if bounds(across) < 2:  # otherwise exists_to_join has a reason
            ctx.decline(f"{test} stays a subquery: {no.reason}", no.place or across[0].place, no.code)
        return None


def _across(block: QueryBlock, tree: Logical, ctx: Context) -> tuple[Scalar, ...]:
    """The comparisons of a subquery's rows with those of ``tree``, and ORs of them."""
    if candidates := tuple(c for c in block.condition if looks_like_band(c) or is_or_of_comparisons(c)):
        with suppress(Refused):
            scope = ctx.scope(block.tree, outer=ctx.scope(tree))
            return tuple(c for c in candidates if len(scope.bind(c).levels) > 1)
    return ()


@rule(Project, block=True, needs=("subquery",))
def extreme_exists_value(block: QueryBlock, ctx: Context) -> ExtremeValues | None:
    """Join the least or the greatest value of each key, in the place of EXISTS in a select list, a CASE or an OR.

    Spark compares a row with the rows of its key until one fits.
    """
    found = _Values(block, ctx)
    items = tuple(replace_subqueries(item, partial(found.value, item)) for item in block.project.items)
    condition = tuple(
        c if simple_test(c) else replace_subqueries(c, partial(found.value, None)) for c in block.condition
    )
    if not found.joins:
        return None
    try:
        shown = expand_items(items, block.tree, ctx.names)
        for scalar in (*shown, *condition, *block.in_clauses):
            refuse_stars(scalar)
    except Refused as no:
        return ctx.decline(f"EXISTS stays a subquery: {no.reason}", no.place)
    other = block.over(where(found.tree, condition), items=shown, names=block.project.output)
    description = f"EXISTS, with {' and '.join(join.extreme.shown for join in found.joins)}"
    return ExtremeValues(block.project, other, description, SemiJoins(tuple(found.joins)))


class _Values:
    """A FROM on its way to one that is joined with the values that decide about EXISTS, and these joins."""

    def __init__(self, block: QueryBlock, ctx: Context):
        self.block, self.ctx, self.tree = block, ctx, block.tree
        self.joins: list[ExtremeSemiJoin] = []

    def value(self, item: Scalar | None, used: Subquery) -> str | None:
        """Whether a value of the subquery fits; None where the subquery stays.  ``item``: of the select list."""
        inner = read_block(used.plan) if used.kind == "exists" else None
        across = _across(inner, self.block.tree, self.ctx) if inner else ()
        if inner is None or not any(map(looks_like_band, across)):
            return None
        try:
            exists = exists_as_join(SubqueryTest(None, False, used.plan), inner, self.block.tree, self.ctx)
            if (join := extreme_semi_join(exists, self.ctx)) is None:
                return None
            if item:
                output_name(item)
            if self.block.below or self.block.project.hint:
                raise Refused(
                    "the query around it groups or ranks rows, or has a hint; compute it in a query below that"
                )
        except Refused as no:
            if not has_band_or_keys(across):  # otherwise correlated_groups takes it, or has a reason
                self.ctx.decline(f"EXISTS stays a subquery: {no.reason}", no.place or across[0].place, no.code)
            return None
        self.joins.append(join)
        groups = over_groups(replace(join, left=self.tree, kind="left", keyword="LEFT JOIN"), self.ctx)
        keys, bounds_end = len(join.extreme.keys), len(join.extreme.keys) + len(join.extreme.bounds)
        self.tree = replace(groups, condition=groups.condition[:keys])
        fits = " AND ".join(test.text for test in groups.condition[keys:bounds_end])
        left = [operand(test.text) for test in groups.condition[bounds_end:]]  # of rows with a match alone
        return f"({' AND '.join((f'coalesce({fits}, false)', *left)) if left else fits}) IS TRUE"


def extreme_semi_join(join: Join, ctx: Context) -> ExtremeSemiJoin | None:
    """The join with the value that decides about its matches; None where no condition is a bound from one end.

    Raises ``Refused`` where other values of the right side count as well.
    """
    if join.kind not in ("semi", "anti") or join.using or join.natural or not any(map(looks_like_band, join.condition)):
        return None
    if references_left(join.right):
        raise Refused("the right side is LATERAL and is computed for each left row")
    ctx.check_not_correlated()
    extreme = _Condition(join, ctx).read()
    if extreme is None:
        return None
    return ExtremeSemiJoin(join.left, join.right, join.kind, join.keyword, join.condition, extreme)


class _Condition:
    """The conditions of a join, by the sides that they are of."""

    def __init__(self, join: Join, ctx: Context):
        self.join = join
        self.pairs = Pairs(join, join.condition, ctx)
        self.keys: list[EqualKey] = []
        self.bounds: list[tuple[exp.Expression, Bound, Scalar]] = []
        self.filters: tuple[list[Scalar], list[Scalar]] = ([], [])

    def read(self) -> Extreme | None:
        for conjunct in self.join.condition:
            self.add(conjunct)
        if not self.bounds:
            return None
        value, first, _ = self.bounds[0]
        function = {"<": "min", ">": "max"}[first.sign[0]]
        canonical = self.pairs.scope.canonical
        for other, bound, conjunct in self.bounds[1:]:
            if canonical(other) != canonical(value):
                raise Refused(f"it compares {sql(value)} and {sql(other)}, which may be of two rows", conjunct.place)
            if bound.sign[0] != first.sign[0]:
                return None  # a band
        return Extreme(
            function,  # type: ignore[arg-type]
            self.pairs.safe(value),
            tuple(bound for _, bound, _ in self.bounds),
            tuple(self.keys),
            tuple(self.filters[0]),
            tuple(self.filters[1]),
        )

    def add(self, conjunct: Scalar) -> None:
        for side, text, part in self.pairs.parts(conjunct):
            if part is None:
                self.filters[side == "right"].append(self.pairs.filter(text) if side == "right" else text)
                continue
            try:
                self.add_comparison(part, conjunct)
            except Refused as no:
                raise Refused(no.reason, no.place or conjunct.place) from no

    def add_comparison(self, part: Comparison, conjunct: Scalar) -> None:
        if key := self.pairs.key(part):
            self.keys.append(key)
        elif part.by_order and (one := self.pairs.scope.compare_sides(part)):
            self.pairs.check_types(part.left, part.right, conjunct)
            check_groups(self.pairs.scope.type_of(one.right), sql(one.right), self.pairs.ctx)
            self.bounds.append((one.right, Bound(one.turned.sign, sql(one.left)), conjunct))
        else:
            raise Refused(f"{conjunct.shown} depends on both rows of a pair", conjunct.place)
