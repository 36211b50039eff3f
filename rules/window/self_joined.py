"""A relation in FROM that is an aggregate of rows which the block reads itself, joined to them by its groups.

    FROM t x JOIN (SELECT k, max(ts) AS m FROM t GROUP BY k) y ON x.k = y.k AND x.ts = y.m

Every row of the block meets the one group of its own key: the aggregate is a window over the block's rows, and the
relation one row beside each of them.
"""

from __future__ import annotations

from planner.expr import Scalar, column_ref, quote
from planner.expr.tokens import tokenize
from planner.logical import Aggregate, Derived, Logical, Scan
from planner.sql.names import Unresolved
from planner.tree import Node
from rules.analysis.containment_mapping import ContainmentMapping, containment_mappings, is_column
from rules.analysis.correlation_keys import CorrelationKey, correlation_key
from rules.context import Context
from rules.query.aggregates import WindowColumn, aggregate_positions, check_aggregates, without_alias
from rules.query.inner_joins import InnerJoins, inner_joins
from rules.query.moving import block_of, check_inner
from rules.query.standing_for import definition_of
from rules.query.tables import tables
from rules.window.correlated_aggregate import CorrelatedAggregate, Group


def may_be_joined(relation: Node, read: frozenset[str], ctx: Context) -> bool:
    """Whether a relation may be an aggregate of what a block reads besides.  Never looks anything up."""
    query = _grouped(relation, ctx)
    block = block_of(query) if query else None
    return (
        block is not None
        and len(block.more) == 1
        and isinstance(block.more[0], Aggregate)
        and tables(block.tree, ctx.definitions) <= read
    )


def _grouped(relation: Node, ctx: Context) -> Logical | None:
    """The query of a subquery, or of a WITH name, that shows its own columns under their names."""
    if not isinstance(relation, Derived | Scan) or relation.renames or not relation.alias:
        return None
    if isinstance(relation, Scan) and relation.cte in ctx.definitions and ctx.definitions[relation.cte].renames:
        return None
    return definition_of(relation, ctx)


def joined_aggregate(number: int, outer: InnerJoins, ctx: Context) -> CorrelatedAggregate | None:
    """What the relation of this number asks of the rows of others; None where it is no aggregate of them.

    Raises ``Unresolved``, ``Unsupported`` where it is one, and may not be a window.
    """
    relation = outer.relations[number]
    read = frozenset(name for n, r in enumerate(outer.relations) if n != number for name in tables(r, ctx.definitions))
    if not may_be_joined(relation, read, ctx):
        return None
    query = _grouped(relation, ctx)
    inner = query and inner_joins(query, ctx.names)
    if not inner or not isinstance(relation, Derived | Scan):
        return None
    refused: Unresolved | None = None
    for mapped in containment_mappings(inner, outer, ctx):
        if number in mapped.to:
            continue
        try:
            return _Reader(number, relation, mapped, ctx).read()
        except Unresolved as no:
            refused = refused or no
    if refused:
        raise refused
    return None


class _Reader:
    """One relation over one mapping; its methods raise ``Unresolved`` where it is not the group of each row."""

    def __init__(self, number: int, relation: Derived | Scan, mapped: ContainmentMapping, ctx: Context):
        self.number, self.relation, self.mapped, self.ctx = number, relation, mapped, ctx

    def read(self) -> CorrelatedAggregate:
        block = self.mapped.inner.block
        if block.project.hint or block.project.quantifier:
            raise Unresolved("the subquery is more than an aggregate by groups")
        check_inner(block.tree, self.ctx.names)
        own = [*self.mapped.filters()]
        for conjunct in self.mapped.inner.conjuncts:
            if self.mapped.scopes(conjunct) - {0}:
                raise Unresolved(f"{conjunct.shown} names no relation of its own")
            own.append(self.mapped.term(conjunct))
        aggregate = block.more[0]
        assert isinstance(aggregate, Aggregate)
        groups = self._groups(aggregate)
        shown: dict[str, str] = {}
        keys: list[CorrelationKey] = []
        added: list[WindowColumn] = []
        for item in block.project.items:
            name, value = item.tree.alias_or_name, without_alias(item)
            if not name or name in shown or item.plans:
                raise Unresolved(f"{item.shown} is not one column with a name of its own")
            if aggregate_positions(item.text):
                outside = self.mapped.outside(value)
                check_aggregates(outside)
                added.append(WindowColumn(self.ctx.fresh("w"), outside.text))
                shown[name] = added[-1].name
            else:
                keys.append(self._key(name, value, groups))
                shown[name] = keys[-1].text
        if {k.value for k in keys} != set(groups):
            raise Unresolved("it groups by a column that no equality compares with the outer query")
        answer, relations = Group(self.number, tuple(shown.items())), tuple(sorted(self.mapped.to))
        place = block.project.items[0].place
        return CorrelatedAggregate(
            place, answer, relations, tuple(keys), tuple(own), tuple(added), True, False, self.mapped
        )

    def _groups(self, aggregate: Aggregate) -> dict[str, str]:
        """The columns of GROUP BY, in the one spelling and over the block."""
        t = tokenize(aggregate.groups.text)
        found = {}
        for lo, hi in t.split(0, len(t)):
            scalar = Scalar(t.slice(lo, hi), (), aggregate.groups.place)
            if not is_column(scalar.tree):
                raise Unresolved(f"{scalar.shown} is not a column to group by")
            found[self.mapped.inner_value(scalar)] = self.mapped.outside(scalar).text
        return found

    def _key(self, name: str, value: Scalar, groups: dict[str, str]) -> CorrelationKey:
        """A column that is a group of the relation, and equal in every row of the outer query."""
        if not is_column(value.tree) or self.mapped.inner_value(value) not in groups:
            raise Unresolved(f"{value.shown} is not grouped by")
        ref = column_ref(value.tree)
        type_ = self.ctx.names.resolve(ref, self.mapped.inner.sources)[1].type
        if type_ is None or type_.name in ("float", "double"):
            raise Unresolved(f"{value.shown} may be shown in another way than it is compared")
        shown = Scalar(f"{quote(self.relation.alias or '')}.{quote(name)}")
        return correlation_key(value, shown, self.mapped, self.ctx)
