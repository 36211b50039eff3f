"""Rewrites a join with an aggregate of the block's own rows, by its groups, as windows over the block.

    FROM t x JOIN (SELECT k, max(ts) AS m FROM t GROUP BY k) y ON x.k = y.k AND x.ts = y.m
    FROM t x WHERE (x.k, x.ts) IN (SELECT k, max(ts) FROM t GROUP BY k)

Every row of the block matches the one group of its key, so the aggregate is a window over the block's rows.  A relation
becomes columns of each row, and IN a comparison with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, output_name, quote
from dovetail.planner.expr.aggregate_calls import aggregate_arguments
from dovetail.planner.expr.subqueries import SubqueryTest, subquery_test
from dovetail.planner.expr.substitution import without_alias
from dovetail.planner.logical import Derived, Logical, Scan
from dovetail.planner.tree import Node
from dovetail.rules.analysis.containment_mapping import ContainmentMapping, Term, containment_mappings, read_first
from dovetail.rules.analysis.correlation_keys import CorrelationKey, correlation_key, plainly_compared
from dovetail.rules.context import Context
from dovetail.rules.query.aggregates import WindowColumn, check_aggregates
from dovetail.rules.query.decorrelation import check_inner, more_than_a_block
from dovetail.rules.query.definitions import definition_of
from dovetail.rules.query.grouping import grouping_expressions
from dovetail.rules.query.inner_joins import InnerJoins, inner_joins
from dovetail.rules.query.operands import as_operand
from dovetail.rules.query.query_block import QueryBlock, read_block
from dovetail.rules.query.tables import tables
from dovetail.rules.window.correlated_aggregate import CorrelatedAggregate, Group


def may_be_joined(relation: Node, read: frozenset[str], ctx: Context) -> QueryBlock | None:
    """Return the query of a relation if it may aggregate rows that the block reads as well.  Looks nothing up."""
    query = _grouped(relation, ctx)
    block = read_block(query) if query else None
    if block is None or block.aggregate is None or block.clauses != (block.aggregate,):
        return None
    return block if tables(block.tree, ctx.definitions) <= read else None


def _grouped(relation: Node, ctx: Context) -> Logical | None:
    """Return the query of a subquery or CTE that does not rename its columns."""
    if not isinstance(relation, Derived | Scan) or relation.renames or not relation.alias:
        return None
    if isinstance(relation, Scan) and relation.cte in ctx.definitions and ctx.definitions[relation.cte].renames:
        return None
    return definition_of(relation, ctx)


def joined_aggregate(number: int, outer: InnerJoins, ctx: Context) -> CorrelatedAggregate | None:
    """Read a relation as an aggregate of the rows of the others; None if it is not.

    Raises ``Refused``, ``Unsupported`` where it is one, and may not be a window.
    """
    relation = outer.relations[number]
    read = frozenset(name for n, r in enumerate(outer.relations) if n != number for name in tables(r, ctx.definitions))
    block = may_be_joined(relation, read, ctx)
    if block is None or not isinstance(relation, Derived | Scan):
        return None

    def read_over(mapped: ContainmentMapping) -> CorrelatedAggregate:
        ctx.scope(relation).sources[0].check_distinct_columns()
        names = [output_name(item) for item in block.project.items]
        groups = _Reader(mapped, ctx)
        shown = groups.read([Scalar(f"{quote(relation.alias or '')}.{quote(name)}") for name in names])
        return groups.request(Group(number, tuple(zip(names, shown, strict=True))))

    mappings = containment_mappings(inner_joins(block, ctx.names), outer, ctx)
    return read_first((mapped for mapped in mappings if number not in mapped.to), read_over)


def may_be_in_groups(conjunct: Scalar, read: frozenset[str], ctx: Context) -> tuple[SubqueryTest, QueryBlock] | None:
    """Return a conjunct as ``x IN (SELECT … GROUP BY …)`` over tables of the block.  Looks nothing up."""
    test = subquery_test(conjunct)
    block = read_block(test.query) if test and test.value and not test.negated else None
    if test is None or block is None or block.aggregate is None or not tables(block.tree, ctx.definitions) <= read:
        return None
    return test, block


def in_groups(conjunct: Scalar, outer: InnerJoins, ctx: Context) -> CorrelatedAggregate | None:
    """Read IN over groups of the block's own rows; None if a conjunct is none.

    Raises ``Refused``, ``Unsupported`` where it is one, and may not be a window.
    """
    read = frozenset(name for relation in outer.relations for name in tables(relation, ctx.definitions))
    found = may_be_in_groups(conjunct, read, ctx)
    if found is None:
        return None
    test, block = found
    if block.clauses != (block.aggregate,):
        raise Refused(more_than_a_block(block.clauses[0]))
    if len(test.values) != len(block.project.items):
        raise Refused(f"it compares {len(test.values)} values with {len(block.project.items)} columns")

    def read_over(mapped: ContainmentMapping) -> CorrelatedAggregate:
        groups = _Reader(mapped, ctx)
        shown = groups.read(test.values)
        added = {call.name for call in groups.added}
        pairs = [(v, i, w) for v, i, w in zip(test.values, block.project.items, shown, strict=True) if w in added]
        for value, item, _ in pairs:
            types = outer.scope.type_of(value.tree), mapped.inner.scope.type_of(without_alias(item).tree)
            if not plainly_compared(*types):
                raise Refused(f"IN compares {value.shown} with {item.shown}, which may be of another type")
            if groups.own and item.tree.find(exp.Count, exp.Coalesce, exp.Null):
                raise Refused(f"{item.shown} of no rows is a value, and such a group is not in the subquery")
        if not pairs:
            raise Refused("it compares no aggregate")
        text = " AND ".join(f"{as_operand(value.text)} = {column}" for value, _, column in pairs)
        return groups.request((conjunct, replace(conjunct, text=text, plans=())))

    return read_first(containment_mappings(inner_joins(block, ctx.names), outer, ctx), read_over)


class _Reader:
    """The groups of a query over one mapping; its methods raise ``Refused`` where they are not those of each row."""

    def __init__(self, mapped: ContainmentMapping, ctx: Context):
        self.mapped, self.ctx = mapped, ctx
        self.own: list[Term] = []
        self.keys: list[CorrelationKey] = []
        self.added: list[WindowColumn] = []

    def read(self, compared: Sequence[Scalar]) -> list[str]:
        """Return what stands for each column of the query; ``compared`` are what equals those that it groups by."""
        block = self.mapped.inner.block
        if block.project.hint or block.project.quantifier:
            raise Refused("the subquery is more than an aggregate by groups")
        check_inner(block.tree, self.ctx.names)
        self.own += self.mapped.filters()
        for conjunct in self.mapped.inner.conjuncts:
            if self.mapped.scope.bind(conjunct).levels - {0}:
                raise Refused(f"{conjunct.shown} uses no relation of the subquery")
            self.own.append(self.mapped.term(conjunct))
        groups = self._groups(block)
        shown: list[str] = []
        for item, other in zip(block.project.items, compared, strict=True):
            value = without_alias(item)
            if aggregate_arguments(item.text):
                outside = self.mapped.outside(value)
                check_aggregates(outside)
                self.added.append(WindowColumn(self.ctx.fresh("w"), outside.text))
                shown.append(self.added[-1].name)
            else:
                self.keys.append(self._key(value, other, groups))
                shown.append(self.keys[-1].text)
        if {k.value for k in self.keys} != set(groups):
            raise Refused("it groups by a column that no equality compares with the outer query")
        return shown

    def request(self, answer: tuple[Scalar, Scalar] | Group) -> CorrelatedAggregate:
        """The query that was read, with what stands for it."""
        place, relations = self.mapped.inner.block.project.items[0].place, tuple(sorted(self.mapped.to))
        return CorrelatedAggregate(
            place, answer, relations, tuple(self.keys), tuple(self.own), tuple(self.added), True, False, self.mapped
        )

    def _groups(self, block: QueryBlock) -> dict[str, str]:
        """Return the columns of GROUP BY, by their canonical form, as SQL over the block."""
        found = {}
        for key in grouping_expressions(block, self.mapped.inner.scope):
            if key.plans or not isinstance(key.tree, exp.Column):
                raise Refused(f"{key.shown} is not a column to group by", key.place)
            found[self.mapped.inner_value(key)] = self.mapped.outside(key).text
        return found

    def _key(self, value: Scalar, other: Scalar, groups: dict[str, str]) -> CorrelationKey:
        """A column that is a group of the query, and equal in every row of the outer query."""
        if not isinstance(value.tree, exp.Column) or self.mapped.inner_value(value) not in groups:
            raise Refused(f"{value.shown} is not grouped by")
        type_ = self.mapped.scope.column(value.tree).column.type
        if type_ is None or type_.approximate:
            raise Refused(f"{value.shown} may have equal values that are not identical")
        return correlation_key(value, other, self.mapped)
