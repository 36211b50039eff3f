"""Reads the plan of a DataFrame of Spark Connect as query blocks: its joins, and what is above them.

What has no join below it is a relation, and its part of the plan is carried over as it is.  The plan of a client names
its columns, and does not number them, so each column gets an ID here, and each name is bound to one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from dovetail.executor.connect.expressions import ProtoExpressionReader, SelectItem
from dovetail.executor.connect.names import Attribute, Attributes, name_parts
from dovetail.executor.connect.plan import RelationNode, check_fields, column_names, enum_name
from dovetail.executor.connect.tables import WrittenOperators
from dovetail.executor.connect.windows import read_order
from dovetail.executor.frame_sql.query_blocks import Block, Item, QueryBlocks, Trees, scalar
from dovetail.executor.frame_sql.shape import PlanShape
from dovetail.planner.catalog.settings import NameCase
from dovetail.planner.conditions.compared import flat
from dovetail.planner.errors import Refused
from dovetail.planner.logical import JoinKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession


_JOINS: dict[str, JoinKind] = {
    "INNER": "inner",
    "CROSS": "cross",
    "LEFT_OUTER": "left",
    "RIGHT_OUTER": "right",
    "FULL_OUTER": "full",
    "LEFT_SEMI": "semi",
    "LEFT_ANTI": "anti",
}
_SET_OPERATIONS = ("UNION", "EXCEPT", "INTERSECT")
_PASS_ROWS = (  # relations that return columns of what is below them, with its alias
    *("filter", "sort", "limit", "offset", "tail", "sample", "deduplicate", "repartition", "hint", "project"),
    *("repartition_by_expression", "with_columns", "drop", "drop_na"),
)
Read = tuple[Block, Attributes]


class ConnectPlanReader:
    """Reads the plan of a DataFrame; ``columns``: the names of its columns."""

    def __init__(
        self, session: SparkSession, shape: PlanShape[RelationNode], columns: Sequence[str], case: NameCase
    ) -> None:
        self.session, self.shape, self.columns, self.case = session, shape, columns, case
        self.blocks = QueryBlocks(case)
        self._ids = count(1)
        self._names: dict[bytes, list[str]] = {}  # those that the server has, by the identity of their operator

    def read(self) -> Block:
        """Return the query block of the plan.  Raises ``Refused``."""
        self.shape.check()
        self.written = WrittenOperators(self.shape)
        self._name(self.written.unnamed())
        block, _ = self._read(self.shape.plan)
        if len(block.items) != len(self.columns):
            raise Refused("the number of columns is not certain")
        return block

    def _name(self, nodes: Iterable[RelationNode]) -> None:
        """Note the names of the columns of operators."""
        found = {node.identity: node.message for node in nodes}
        self._names.update(zip(found, column_names(self.session, list(found.values())), strict=True))

    def _read(self, node: RelationNode, alias: str = "") -> Read:
        """Return the block and the columns of an operator; ``alias``: its name in FROM."""
        if node not in self.written:
            return self._relation(node, alias)
        try:
            with self.blocks.undone_if_refused():
                block, columns = self._read_operator(node, alias)
        except Refused:
            if not self.written.is_relation(node):
                raise
            self._name([node])
            return self._relation(node, alias)
        return block if node.kind == "alias" else replace(block, alias=alias), columns.above(node.plan_id)

    def _relation(self, node: RelationNode, alias: str) -> Read:
        """Carry a relation over."""
        qualifier = _qualifier(node)
        plans: dict[int, int] = {}
        for part, depth in node.walk():
            if part.plan_id is not None:
                plans[part.plan_id] = min(depth, plans.get(part.plan_id, depth))
        columns = [Attribute(next(self._ids), name, qualifier, plans) for name in self._names[node.identity]]
        block = self.blocks.scan(node, _named(columns), alias or (qualifier[-1] if qualifier else ""))
        return replace(block, alias=alias), Attributes(tuple(columns), self.case)

    def _read_operator(self, node: RelationNode, alias: str) -> Read:
        operator, blocks = node.operator, self.blocks
        match node.kind:
            case "join":
                return self._join(node)
            case "set":
                return self._set_operation(node)
            case "alias":
                check_fields(operator, "an alias", "input", "alias")
                block, columns = self._read(node.child, alias or str(operator.alias))
                return block, columns.qualified(operator.alias)
            case "filter":
                check_fields(operator, "a filter", "input", "condition")
                reader, block = self._reader(node.child, "" if self.shape.has_join(node) else alias)
                return block.filtered(_conjuncts(operator.condition, reader)), reader.columns
            case "sort":
                check_fields(operator, "a sort", "input", "order", "is_global")
                block, columns = self._read(node.child)
                block = blocks.sortable(block)
                reader = ProtoExpressionReader(columns, block.named)
                order = tuple(read_order(reader.tree, key) for key in operator.order)
                _check_keys([key.this for key in order])
                return replace(block, order=order), columns
            case "limit":
                check_fields(operator, "a limit", "input", "limit")
                block, columns = self._read(node.child)
                return blocks.limit(block, exp.Literal.number(int(operator.limit))), columns
            case "distinct":
                block, columns = self._read(node.child)
                return blocks.distinct(block), columns
        reader, block = self._reader(node.child)
        if node.kind == "aggregate":
            return self._aggregate(node, block, reader)
        return self._select(node, block, reader.columns, project_items(node, reader))

    def _reader(self, node: RelationNode, alias: str = "") -> tuple[ProtoExpressionReader, Block]:
        """Read an operator as a block that any clause can be added to, and what reads expressions over it."""
        block, columns = self._read(node, alias)
        if not (block.is_simple and block.keeps_columns):  # Spark keeps other columns below a window apart
            block = self.blocks.subquery(block)
        return ProtoExpressionReader(columns, block.trees), block

    def _aggregate(self, node: RelationNode, block: Block, reader: ProtoExpressionReader) -> Read:
        operator = node.operator
        check_fields(operator, "an aggregate", "input", "group_type", "grouping_expressions", "aggregate_expressions")
        grouped = [item for message in operator.grouping_expressions for item in reader.items(message)]
        items = [*grouped, *(item for message in operator.aggregate_expressions for item in reader.items(message))]
        _check_keys([item.tree for item in grouped])
        block = replace(block, keys=tuple(scalar(item.tree) for item in grouped))
        return self._select(node, block, reader.columns, items)

    def _select(self, node: RelationNode, block: Block, columns: Attributes, items: Sequence[SelectItem]) -> Read:
        """Select items, of which those without a name have the server's names for the columns of the node."""
        names = [item.name for item in items]
        if None in names:
            names = list(self.columns if node is self.shape.plan else self._names[node.identity])
            if len(names) != len(items):
                raise Refused("the number of columns is not certain")
        selected = [
            replace(item.attribute, name=str(name)) if item.attribute else Attribute(next(self._ids), str(name))
            for item, name in zip(items, names, strict=True)
        ]
        written = (Item(a.id, a.name, item.tree) for a, item in zip(selected, items, strict=True))
        return replace(block, items=tuple(written)), columns.of(selected)

    def _join(self, node: RelationNode) -> Read:
        operator = node.operator
        name = enum_name(operator, "join_type").removeprefix("JOIN_TYPE_")
        if name not in _JOINS:
            raise Refused(f"a {name} join is not written as SQL")
        kind = _JOINS[name]
        check_fields(operator, "a join", "left", "right", "join_type", "join_condition", "using_columns")
        (left, left_columns), (right, right_columns) = (
            (self.blocks.item_of_from(block, kind), columns) for block, columns in map(self._read, node.children)
        )
        trees = {**left.trees, **right.trees}
        both = left_columns.of((*left_columns.all, *right_columns.all))
        sides = left_columns if kind in ("semi", "anti") else both
        if not operator.using_columns:
            reader = ProtoExpressionReader(both, trees)
            condition = _conjuncts(operator.join_condition, reader) if operator.HasField("join_condition") else []
            return self.blocks.join(left, right, kind, condition), sides
        names = [(name,) for name in operator.using_columns]
        pairs = [(left_columns.find_parts(name)[0], right_columns.find_parts(name)[0]) for name in names]
        equal = [exp.EQ(this=trees[a.id].copy(), expression=trees[b.id].copy()) for a, b in pairs]
        used = {a.id for pair in pairs for a in pair}
        others = (SelectItem(trees[a.id], a.name, a) for a in sides.all if a.id not in used)
        items = [*(using_item(kind, trees, *pair) for pair in pairs), *others]  # each such column once, and first
        return self._select(node, self.blocks.join(left, right, kind, equal), sides, items)

    def _set_operation(self, node: RelationNode) -> Read:
        operator = node.operator
        name = enum_name(operator, "set_op_type").removeprefix("SET_OP_TYPE_")
        if name not in _SET_OPERATIONS:
            raise Refused(f"the set operation {name} is not written as SQL")
        keyword = name + (" ALL" if operator.is_all else "")
        (left, columns), (right, others) = (
            (self.blocks.operand(block), columns) for block, columns in map(self._read, node.children)
        )
        if len(columns.all) != len(others.all):
            raise Refused("the operands of a set operation have several numbers of columns")
        new = [Attribute(next(self._ids), a.name) for a in columns.all]
        return self.blocks.set_operation((left, right), keyword, _named(new)), columns.of(new)


def _qualifier(node: RelationNode) -> tuple[str, ...]:
    """Return the alias of the columns of a relation, or the name of its table; empty if there is none."""
    while node.name in _PASS_ROWS and len(node.children) == 1:
        node = node.child
    if node.name == "subquery_alias":
        return (str(node.operator.alias),)
    if node.name == "read" and node.operator.WhichOneof("read_type") == "named_table":
        return name_parts(node.operator.named_table.unparsed_identifier)
    return ()


def _named(columns: Sequence[Attribute]) -> list[tuple[int, str]]:
    return [(column.id, column.name) for column in columns]


def _conjuncts(condition: Any, reader: ProtoExpressionReader) -> list[exp.Expression]:
    return list(flat(reader.tree(condition), exp.And))


def _check_keys(keys: Sequence[exp.Expression]) -> None:
    """Raise ``Refused`` for a key of GROUP BY or ORDER BY that would be a place in the select list."""
    if any(isinstance(key, exp.Literal) for key in keys):
        raise Refused("a literal as a key of groupBy() or orderBy() is not written as SQL")


def project_items(node: RelationNode, reader: ProtoExpressionReader) -> list[SelectItem]:
    """Read the select list of select, withColumns, withColumnsRenamed, drop or toDF.  Raises ``Refused``."""
    operator, columns = node.operator, reader.columns
    same = [SelectItem(reader.trees[a.id], a.name, a) for a in columns.all]
    match node.name:
        case "project":
            check_fields(operator, "select", "input", "expressions")
            return [item for message in operator.expressions for item in reader.items(message)]
        case "with_columns":
            check_fields(operator, "withColumns", "input", "aliases")
            return _with_columns(same, operator.aliases, reader)
        case "with_columns_renamed":
            check_fields(operator, "withColumnsRenamed", "input", "renames")
            return _renamed(same, operator.renames, columns.case)
        case "drop":
            check_fields(operator, "drop", "input", "columns", "column_names")
            named = [a for name in operator.column_names for a in columns.named(name)]
            others = [item.attribute for message in operator.columns for item in reader.items(message)]
            dropped = {a.id for a in (*named, *others) if a}
            return [item for item in same if item.attribute and item.attribute.id not in dropped]
    check_fields(operator, "toDF", "input", "column_names")
    if len(operator.column_names) != len(same):
        raise Refused("toDF() has another number of columns")
    return [SelectItem(item.tree, name) for item, name in zip(same, operator.column_names, strict=True)]


def _renamed(items: list[SelectItem], renames: Sequence[Any], case: NameCase) -> list[SelectItem]:
    for rename in renames:
        old, new = rename.col_name, rename.new_col_name
        items = [SelectItem(i.tree, new) if case.is_same(i.name, old) else i for i in items]
    return items


def _with_columns(
    same: Sequence[SelectItem], aliases: Sequence[Any], reader: ProtoExpressionReader
) -> list[SelectItem]:
    """Read columns in the place of those of the same name, and others behind them."""
    items, case = list(same), reader.columns.case
    for alias in aliases:
        check_fields(alias, "withColumns", "expr", "name")
        (name,) = alias.name
        new = SelectItem(reader.tree(alias.expr), str(name))
        places = [n for n, item in enumerate(same) if case.is_same(item.name, name)]
        for place in places:
            items[place] = new
        items += [] if places else [new]
    return items


def using_item(kind: JoinKind, trees: Trees, left: Attribute, right: Attribute) -> SelectItem:
    """Read what a join by names returns of two columns."""
    if kind == "full":
        operands = [trees[a.id].copy() for a in (left, right)]
        return SelectItem(exp.Anonymous(this="coalesce", expressions=operands), left.name)
    one = right if kind == "right" else left
    return SelectItem(trees[one.id], one.name, one)
