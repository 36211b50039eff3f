"""Writes the plan of a DataFrame of Spark Connect as SQL over its relations, as ``plan_writer`` does for classic ones.

What has no join below it is a relation, and its part of the plan is carried over as it is.  The plan of a client names
its columns, and does not number them, so each column gets a number here, and each name is bound to one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from dovetail.executor.connect.carried import Carried, CarriedRelations
from dovetail.executor.connect.expressions import Item, ProtoExpressionWriter
from dovetail.executor.connect.items import only_column, project_items, using_item
from dovetail.executor.connect.joins import ORDERED, WrittenJoins
from dovetail.executor.connect.names import Attribute, Scope
from dovetail.executor.connect.plan import RelationNode, check_fields, column_names, enum_name
from dovetail.executor.connect.tables import PROJECTS, TableRefused
from dovetail.executor.connect.windows import write_order
from dovetail.executor.frame_sql.query_blocks import (
    MOST_OPERATORS,
    TOO_DEEP,
    Aliases,
    Columns,
    Query,
    Rows,
    different,
    distinct,
    join_rows,
    select_all,
    select_from,
    select_items,
    sorted_by,
    with_filters,
)
from dovetail.planner.conditions.compared import flat
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, sql
from dovetail.planner.logical import Aggregate, JoinKind, Limit, Logical, SetOp
from dovetail.planner.sql.to_sql import to_sql

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

_KINDS: dict[str, JoinKind] = {
    "INNER": "inner",
    "CROSS": "cross",
    "LEFT_OUTER": "left",
    "RIGHT_OUTER": "right",
    "FULL_OUTER": "full",
    "LEFT_SEMI": "semi",
    "LEFT_ANTI": "anti",
}
_SET_OPERATIONS = {"UNION": "UNION", "EXCEPT": "EXCEPT", "INTERSECT": "INTERSECT"}


@dataclass
class ConnectPlanWriter:
    """Writes the plan of a DataFrame of Spark Connect.

    ``columns``: the names of the DataFrame's columns.  ``joins``: the operators that are written.
    """

    session: SparkSession
    columns: Sequence[str]
    fold: Callable[[str], str]
    joins: WrittenJoins

    def __post_init__(self) -> None:
        self.plan = self.joins.plan
        self.aliases = Aliases()
        self.last_id = 0
        self.names: dict[bytes, list[str]] = {}  # those that the server has, by the identity of their operator
        self.relations = CarriedRelations(self.names, self.aliases, self.fold, self._new_id)

    @property
    def carried(self) -> dict[str, Carried]:
        """The relation of each view in the statement."""
        return self.relations.views

    def write(self) -> str:
        """Write the plan as a statement over views, whose relations are then in ``carried``.

        Raises ``Refused``, or ``TableRefused`` if the plan may be written without the operators over a table.
        """
        if not self.joins.are_at(self.plan):
            raise Refused(self.joins.why_none())
        if self.joins.depth(self.plan) > MOST_OPERATORS:
            raise Refused(TOO_DEEP)
        unnamed = {node.identity: node.message for node in self.joins.unnamed()}
        self.names.update(zip(unnamed, column_names(self.session, list(unnamed.values())), strict=True))
        query, _ = self._query(self.plan, self.columns)
        return to_sql(query.plan)

    def _query(self, node: RelationNode, wanted: Sequence[str] | None = None) -> tuple[Query, Scope]:
        """Write a plan as a query, and return its columns; ``wanted``: the names of these, which may repeat."""
        with self._over_table(node):
            query, scope = self._query_below(node, wanted)
        return query, scope.above(node.plan_id)

    @contextmanager
    def _over_table(self, node: RelationNode) -> Iterator[None]:
        """Raise ``TableRefused`` in the place of ``Refused`` if an operator is one over a table."""
        try:
            yield
        except Refused as refused:
            if read := self.joins.read_of(node):
                raise TableRefused(read) from refused
            raise

    def _query_below(self, node: RelationNode, wanted: Sequence[str] | None) -> tuple[Query, Scope]:
        match node.name:
            case "subquery_alias" if self.joins.writes(node):
                check_fields(node.operator, "an alias", "input", "alias")
                query, scope = self._query(node.child, wanted)
                return query, scope.qualified(node.operator.alias)
            case "limit" if self.joins.writes(node):
                return self._limit(node, wanted)
            case "sort" if self.joins.writes(node):
                return self._sort(node, wanted)
            case "deduplicate" if self.joins.writes(node):
                return self._distinct(node, wanted)
            case "set_op" if self.joins.writes(node):
                return self._set_operation(node, wanted)
            case "aggregate" if self.joins.writes(node):
                return self._aggregate(node, wanted)
            case "join" if self.joins.writes(node) and node.operator.using_columns:
                rows, scope, items = self._join_using(node)
                return self._select(rows.plan, scope, items, wanted, None)
            case name if name in PROJECTS and self.joins.writes(node):
                rows, scope = self._rows(node.child)
                return self._select(rows.plan, scope, project_items(node, scope, rows.columns), wanted, node)
        return self._all_columns(*self._rows(node), wanted)

    def _all_columns(self, rows: Rows, scope: Scope, wanted: Sequence[str] | None) -> tuple[Query, Scope]:
        items = [Item(rows.columns[a.id], a.name, a) for a in scope.attributes]
        return self._select(rows.plan, scope, items, wanted, None)

    def _aggregate(self, node: RelationNode, wanted: Sequence[str] | None) -> tuple[Query, Scope]:
        operator = node.operator
        check_fields(operator, "an aggregate", "input", "group_type", "grouping_expressions", "aggregate_expressions")
        rows, scope = self._rows(node.child)
        writer = ProtoExpressionWriter(scope, rows.columns)
        grouped = [item for message in operator.grouping_expressions for item in writer.items(message)]
        items = [*grouped, *(item for message in operator.aggregate_expressions for item in writer.items(message))]
        keys = tuple(_key(item.tree) for item in grouped)
        return self._select(Aggregate(rows.plan, keys) if keys else rows.plan, scope, items, wanted, node)

    def _select(
        self,
        plan: Logical,
        scope: Scope,
        items: Sequence[Item],
        wanted: Sequence[str] | None,
        node: RelationNode | None,
    ) -> tuple[Query, Scope]:
        """Select items, of which those without a name have the server's names for the columns of a node."""
        names = [item.name for item in items]
        if None in names:
            known = self.columns if node is self.plan else self.names[node.identity] if node else ()
            if len(known) != len(items):
                raise Refused("the number of columns is not certain")
            names = list(known)
        attributes: list[Attribute] = []
        for item, name in zip(items, names, strict=True):
            known_ids = {a.id for a in attributes}
            if item.attribute and item.attribute.id not in known_ids:
                attributes.append(replace(item.attribute, name=str(name)))
            else:
                attributes.append(Attribute(self._new_id(), str(name)))
        written = self._named(attributes, wanted)
        trees = [(a.id, self._spelled(i, name)) for a, i, name in zip(attributes, items, written, strict=True)]
        renamed = [a.id for a, item in zip(attributes, items, strict=True) if not item.attribute]
        return select_items(plan, trees, written, renamed), scope.of(attributes)

    def _spelled(self, item: Item, name: str) -> exp.Expression:
        """Write a column as the select list spells it, since Spark takes its name from there."""
        tree = item.tree.copy()
        if item.attribute and isinstance(tree, exp.Column) and self.fold(tree.name) == self.fold(name):
            tree.set("this", exp.to_identifier(name, quoted=True))
        return tree

    def _named(self, attributes: Sequence[Attribute], wanted: Sequence[str] | None) -> list[str]:
        names = list(wanted) if wanted is not None else different(a.name for a in attributes)
        if len(names) != len(attributes):
            raise Refused("the number of columns is not certain")
        return names

    def _rows(self, node: RelationNode) -> tuple[Rows, Scope]:
        """Write the clauses FROM and WHERE, and return the columns of the plan."""
        if node.name == "subquery_alias" and self.joins.writes(node) and node.child.name != "join":
            rows, scope = self._rows(node.child)
            return rows, scope.qualified(node.operator.alias).above(node.plan_id)
        if node.name != "filter" or not self.joins.writes(node):
            rows, scope = self._relation(node)
            return with_filters(rows), scope
        rows, scope = self._filter(node, *self._rows(node.child))
        return with_filters(rows), scope

    def _filter(self, node: RelationNode, rows: Rows, scope: Scope) -> tuple[Rows, Scope]:
        """Add the condition of a filter to the conditions on rows that are still to be written."""
        with self._over_table(node):
            check_fields(node.operator, "a filter", "input", "condition")
            writer = ProtoExpressionWriter(scope, rows.columns)
            conjuncts = tuple(map(_scalar, flat(writer.tree(node.operator.condition), exp.And)))
        return replace(rows, filters=(*rows.filters, *conjuncts)), scope.above(node.plan_id)

    def _relation(self, node: RelationNode, alias: str = "", *, filters: bool = True) -> tuple[Rows, Scope]:
        """Write an item of FROM: a join, a relation, a subquery; ``filters``: it may leave these to be written."""
        if not self.joins.writes(node):
            return self.relations.scan(node, alias)
        if node.name == "join" and not node.operator.using_columns:
            rows, scope = self._join(node)
            if rows.filters and not filters:
                query, scope = self._all_columns(with_filters(rows), scope, None)
                rows = select_from(query, self.aliases.new(alias))
            return rows, scope.above(node.plan_id)
        if node.name == "subquery_alias":
            check_fields(node.operator, "an alias", "input", "alias")
            own = str(node.operator.alias)
            rows, scope = self._relation(node.child, alias or own, filters=filters)
            return rows, scope.qualified(own).above(node.plan_id)
        if node.name == "filter" and filters and self.joins.read_of(node):
            return self._filter(node, *self._relation(node.child, alias))
        if node.name == "join":
            rows, scope, items = self._join_using(node)
            query, scope = self._select(rows.plan, scope, items, None, None)
            return select_from(query, self.aliases.new(alias)), scope.above(node.plan_id)
        query, scope = self._query(node)
        return select_from(query, self.aliases.new(alias)), scope

    def _sides(self, node: RelationNode, kind: JoinKind) -> list[tuple[Rows, Scope]]:
        """Write the sides of a join; ON and WHERE would filter the rows that a full join preserves."""
        return [self._relation(child, filters=kind != "full") for child in node.children]

    def _join(self, node: RelationNode) -> tuple[Rows, Scope]:
        operator = node.operator
        check_fields(operator, "a join", "left", "right", "join_condition", "join_type")
        kind = _kind(operator)
        (left, left_scope), (right, right_scope) = self._sides(node, kind)
        both = left_scope.of((*left_scope.attributes, *right_scope.attributes))
        condition: tuple[Scalar, ...] = ()
        if operator.HasField("join_condition"):
            writer = ProtoExpressionWriter(both, {**left.columns, **right.columns})
            condition = tuple(map(_scalar, flat(writer.tree(operator.join_condition), exp.And)))
        return join_rows(left, right, kind, condition), left_scope if kind in ("semi", "anti") else both

    def _join_using(self, node: RelationNode) -> tuple[Rows, Scope, list[Item]]:
        """Write a join by columns of both sides, which returns each such column once, and before the others."""
        operator = node.operator
        check_fields(operator, "a join", "left", "right", "join_type", "using_columns")
        kind = _kind(operator)
        (left, left_scope), (right, right_scope) = self._sides(node, kind)
        columns = {**left.columns, **right.columns}
        pairs = [(only_column(left_scope, name), only_column(right_scope, name)) for name in operator.using_columns]
        condition = tuple(_scalar(exp.EQ(this=columns[a.id].copy(), expression=columns[b.id].copy())) for a, b in pairs)
        rows = join_rows(left, right, kind, condition)
        used = {a.id for pair in pairs for a in pair}
        sides = left_scope.attributes if kind in ("semi", "anti") else (*left_scope.attributes, *right_scope.attributes)
        keys = [using_item(kind, columns, *pair) for pair in pairs]
        items = [*keys, *(Item(columns[a.id], a.name, a) for a in sides if a.id not in used)]
        return with_filters(rows), left_scope.of(sides), items

    def _limit(self, node: RelationNode, wanted: Sequence[str] | None) -> tuple[Query, Scope]:
        check_fields(node.operator, "a limit", "input", "limit")
        nested = _below_aliases(node.child).name == "limit"
        query, scope = (self._nested if nested else self._query)(node.child, wanted)
        return Query(Limit(query.plan, "LIMIT", Scalar(str(int(node.operator.limit)))), query.names), scope

    def _sort(self, node: RelationNode, wanted: Sequence[str] | None) -> tuple[Query, Scope]:
        check_fields(node.operator, "a sort", "input", "order", "is_global")
        if wanted is not None and different(wanted) != list(wanted):  # the keys would be ambiguous
            return self._nested(node, wanted)
        nested = _below_aliases(node.child).name in ORDERED
        query, scope = (self._nested if nested else self._query)(node.child, wanted)
        columns: Columns = {id_: exp.column(name, quoted=True) for id_, name in query.names.items()}
        writer = ProtoExpressionWriter(scope, columns)
        keys = [write_order(writer, key) for key in node.operator.order]
        return sorted_by(query, [(_key(key.this), key) for key in keys]), scope

    def _distinct(self, node: RelationNode, wanted: Sequence[str] | None) -> tuple[Query, Scope]:
        nested = _below_aliases(node.child).name in (*ORDERED, "deduplicate", "set_op")
        query, scope = (self._nested if nested else self._query)(node.child, wanted)
        return distinct(query), scope

    def _set_operation(self, node: RelationNode, wanted: Sequence[str] | None) -> tuple[Query, Scope]:
        operator = node.operator
        name = enum_name(operator, "set_op_type").removeprefix("SET_OP_TYPE_")
        if name not in _SET_OPERATIONS:
            raise Refused(f"the set operation {name} is not written as SQL")
        keyword = _SET_OPERATIONS[name] + (" ALL" if operator.is_all else "")
        (left, scope), (right, _) = (self._operand(n, w) for n, w in zip(node.children, (wanted, None), strict=True))
        if len(left.names) != len(right.names):
            raise Refused("the operands of a set operation have several numbers of columns")
        attributes = [Attribute(self._new_id(), a.name) for a in scope.attributes]
        names = dict(zip((a.id for a in attributes), left.names.values(), strict=True))
        return Query(SetOp(left.plan, right.plan, keyword), names), scope.of(attributes)

    def _operand(self, node: RelationNode, wanted: Sequence[str] | None) -> tuple[Query, Scope]:
        """Write an operand of a set operation."""
        nested = self.joins.writes(node) and _below_aliases(node).name in (*ORDERED, "set_op")
        return (self._nested if nested else self._query)(node, wanted)

    def _nested(self, node: RelationNode, wanted: Sequence[str] | None) -> tuple[Query, Scope]:
        """Select all columns of a subquery."""
        query, scope = self._query(node)
        return select_all(select_from(query, self.aliases.new("")), wanted), scope

    def _new_id(self) -> int:
        self.last_id += 1
        return self.last_id


def _kind(operator: Any) -> JoinKind:
    name = enum_name(operator, "join_type").removeprefix("JOIN_TYPE_")
    if name not in _KINDS:
        raise Refused(f"a {name} join is not written as SQL")
    return _KINDS[name]


def _below_aliases(node: RelationNode) -> RelationNode:
    while node.name == "subquery_alias":
        node = node.child
    return node


def _scalar(tree: exp.Expression) -> Scalar:
    return Scalar(sql(tree))


def _key(tree: exp.Expression) -> Scalar:
    """Write a key of GROUP BY or ORDER BY, where a number would be a place in the select list."""
    if isinstance(tree, exp.Literal):
        raise Refused("a literal as a key of groupBy() or orderBy() is not written as SQL")
    return _scalar(tree)
