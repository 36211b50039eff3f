"""Rewrites a join with an aggregate of the block's own rows, by its groups, as windows over the block.

    FROM t x JOIN (SELECT k, max(ts) AS m FROM t GROUP BY k) y ON x.k = y.k AND x.ts = y.m

Every row of the block matches the one group of its key, so the aggregate is a window over the block's rows, and the
relation becomes columns of each row.
"""

from __future__ import annotations

from sqlglot import exp

from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, output_name, quote
from dovetail.planner.expr.aggregate_calls import aggregate_arguments
from dovetail.planner.expr.substitution import without_alias
from dovetail.planner.logical import Derived, Logical, Scan
from dovetail.planner.tree import Node
from dovetail.rules.analysis.containment_mapping import ContainmentMapping, containment_mappings, read_first
from dovetail.rules.analysis.correlation_keys import CorrelationKey, correlation_key
from dovetail.rules.context import Context
from dovetail.rules.query.aggregates import WindowColumn, check_aggregates
from dovetail.rules.query.decorrelation import check_inner
from dovetail.rules.query.definitions import definition_of
from dovetail.rules.query.grouping import grouping_expressions
from dovetail.rules.query.inner_joins import InnerJoins, inner_joins
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
    inner = inner_joins(block, ctx.names)
    mappings = (mapped for mapped in containment_mappings(inner, outer, ctx) if number not in mapped.to)
    return read_first(mappings, lambda mapped: _Reader(number, relation, mapped, ctx).read())


class _Reader:
    """One relation over one mapping; its methods raise ``Refused`` where it is not the group of each row."""

    def __init__(self, number: int, relation: Derived | Scan, mapped: ContainmentMapping, ctx: Context):
        self.number, self.relation, self.mapped, self.ctx = number, relation, mapped, ctx

    def read(self) -> CorrelatedAggregate:
        block = self.mapped.inner.block
        if block.project.hint or block.project.quantifier:
            raise Refused("the subquery is more than an aggregate by groups")
        check_inner(block.tree, self.ctx.names)
        self.ctx.scope(self.relation).sources[0].check_distinct_columns()
        own = [*self.mapped.filters()]
        for conjunct in self.mapped.inner.conjuncts:
            if self.mapped.scope.bind(conjunct).levels - {0}:
                raise Refused(f"{conjunct.shown} uses no relation of the subquery")
            own.append(self.mapped.term(conjunct))
        groups = self._groups(block)
        shown: dict[str, str] = {}
        keys: list[CorrelationKey] = []
        added: list[WindowColumn] = []
        for item in block.project.items:
            name, value = output_name(item), without_alias(item)
            if aggregate_arguments(item.text):
                outside = self.mapped.outside(value)
                check_aggregates(outside)
                added.append(WindowColumn(self.ctx.fresh("w"), outside.text))
                shown[name] = added[-1].name
            else:
                keys.append(self._key(name, value, groups))
                shown[name] = keys[-1].text
        if {k.value for k in keys} != set(groups):
            raise Refused("it groups by a column that no equality compares with the outer query")
        answer, relations = Group(self.number, tuple(shown.items())), tuple(sorted(self.mapped.to))
        place = block.project.items[0].place
        return CorrelatedAggregate(
            place, answer, relations, tuple(keys), tuple(own), tuple(added), True, False, self.mapped
        )

    def _groups(self, block: QueryBlock) -> dict[str, str]:
        """Return the columns of GROUP BY, by their canonical form, as SQL over the block."""
        found = {}
        for key in grouping_expressions(block, self.mapped.inner.scope):
            if key.plans or not isinstance(key.tree, exp.Column):
                raise Refused(f"{key.shown} is not a column to group by", key.place)
            found[self.mapped.inner_value(key)] = self.mapped.outside(key).text
        return found

    def _key(self, name: str, value: Scalar, groups: dict[str, str]) -> CorrelationKey:
        """A column that is a group of the relation, and equal in every row of the outer query."""
        if not isinstance(value.tree, exp.Column) or self.mapped.inner_value(value) not in groups:
            raise Refused(f"{value.shown} is not grouped by")
        type_ = self.mapped.scope.column(value.tree).column.type
        if type_ is None or type_.approximate:
            raise Refused(f"{value.shown} may have equal values that are not identical")
        shown = Scalar(f"{quote(self.relation.alias or '')}.{quote(name)}")
        return correlation_key(value, shown, self.mapped)
