"""Reads the analyzed plan of a DataFrame of a classic session as query blocks: its joins, and what is above them.

What has no join below it is a relation, however it was made: its plan is carried over as it is.  Where a table is read
more than once, rules for self-joins need more: filters of tables are read, too, and aggregates over a table that is
read in more than one way.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from dovetail.executor.dataframes.catalyst_tree import Catalyst, read_catalyst
from dovetail.executor.dataframes.expressions import ExpressionReader
from dovetail.executor.dataframes.function_registry import function_registry
from dovetail.executor.dataframes.jvm_plan import PlanNode, columns_only, read_expressions, read_named
from dovetail.executor.dataframes.window_expressions import read_order
from dovetail.executor.frame_sql.query_blocks import Block, Item, QueryBlocks, Trees, scalar
from dovetail.executor.frame_sql.shape import PlanShape, below_aliases, cached_rows
from dovetail.executor.session.settings import all_settings, name_case
from dovetail.planner.errors import Refused
from dovetail.planner.logical import JoinKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_JOINS: dict[str, JoinKind] = {
    "Inner": "inner",
    "Cross": "cross",
    "LeftOuter": "left",
    "RightOuter": "right",
    "FullOuter": "full",
    "LeftSemi": "semi",
    "LeftAnti": "anti",
}
_SET_OPERATIONS = {"Union": "UNION ALL", "Except": "EXCEPT", "Intersect": "INTERSECT"}


class PlanReader:
    """Reads the plan of a DataFrame.

    ``coerced``: leave out the casts that Spark adds itself; ``left_out`` has them.  ``groups``: read all aggregates,
    and not only those over tables that are read again; ``has_groups``: there are some.
    """

    def __init__(self, frame: DataFrame, *, coerced: bool, groups: bool = True) -> None:
        session = frame.sparkSession
        self.blocks = QueryBlocks(name_case(all_settings(session)))
        jvm: Any = session._jvm
        self.registry = function_registry(jvm)
        self.jvm_zone = str(jvm.java.util.TimeZone.getDefault().getID())
        self.coerced, self.groups = coerced, groups
        self.has_groups = False
        self.left_out: list[Catalyst] = []
        has_cached = not session._jsparkSession.sharedState().cacheManager().isEmpty()
        plan = PlanNode(frame._jdf.queryExecution().analyzed())
        self.shape = PlanShape(plan, cached_rows(session, has_cached=has_cached))

    def read(self) -> Block:
        """Return the query block of the plan.  Raises ``Refused``."""
        self.shape.check()
        self.tables = TablesReadAgain(self.shape)
        return self._read(self.shape.plan)

    def _read(self, node: PlanNode, alias: str = "") -> Block:
        """Read an operator; ``alias``: its name in FROM."""
        if node.kind == "alias":
            own = str(node.java.alias()) if node.name == "SubqueryAlias" else ""
            return self._read(node.child, alias or own)
        if not self.shape.has_join(node):
            return replace(self._read_table(node, alias), alias=alias)
        try:
            return replace(self._read_operator(node), alias=alias)
        except Refused:
            self.shape.refused_at = self.shape.refused_at or node  # the innermost one
            raise

    def _read_operator(self, node: PlanNode) -> Block:
        blocks = self.blocks
        match node.kind:
            case "join":
                return self._join(node)
            case "filter":
                return self._filter(node)
            case "select":
                return self._select(node)
            case "window":
                return self._window(node)
            case "aggregate":
                return self._aggregate(node)
            case "limit":
                is_local = node.name == "GlobalLimit" and node.child.name == "LocalLimit"
                block = self._read(node.child.child if is_local else node.child)
                return blocks.limit(block, self._reader({}).tree(read_catalyst(node.java.limitExpr().toJSON())))
            case "sort":
                block = blocks.sortable(self._read(node.child))
                reader = self._reader(block.named)
                keys = read_expressions(node.java.order())
                return replace(block, order=tuple(read_order(reader.tree, key) for key in keys))
            case "distinct":
                return self._distinct(node)
        keyword = _SET_OPERATIONS[node.name]
        if keyword != "UNION ALL" and node.java.isAll():
            keyword += " ALL"
        operands = [blocks.operand(self._read(child)) for child in node.children]
        return blocks.set_operation(operands, keyword, _columns(node))

    def _read_table(self, node: PlanNode, alias: str) -> Block:
        """Read what has no join: a relation, or operators over a table."""
        if node.kind == "aggregate" and (self.groups or self.tables.has_other_rows(node)):
            with suppress(Refused), self.blocks.undone_if_refused():
                block = self._aggregate(node)  # its keys are then known to be unique
                self.has_groups = True
                return block
        if node.kind == "select" and self.tables.has_columns(node) and columns_only(node, renamed=True):
            return self.blocks.subquery(replace(self._select(node), alias=alias))
        if node.kind == "filter" and self.tables.any and not below_aliases(node.child).children:
            return self._filter(node, alias)
        return self.blocks.scan(node, _columns(node), alias)

    def _aggregate(self, node: PlanNode) -> Block:
        block = self.blocks.simple(self._read(node.child))
        reader = self._reader(block.trees)
        keys = tuple(scalar(reader.tree(key)) for key in read_expressions(node.java.groupingExpressions()))
        return replace(block, items=self._items(node.java.aggregateExpressions(), block), keys=keys)

    def _filter(self, node: PlanNode, alias: str = "") -> Block:
        block = self.blocks.simple(self._read(node.child, alias))
        return block.filtered(self._conjuncts(node.java.condition(), block.trees))

    def _join(self, node: PlanNode) -> Block:
        kind = _JOINS.get(re.sub(r"\W.*", "", str(node.java.joinType().toString())))
        if kind is None:
            raise Refused(f"a {node.java.joinType().toString()} join is not written as SQL")
        if str(node.java.hint().toString()) != "":
            raise Refused("a join has hints")
        left, right = (self.blocks.item_of_from(self._read(child), kind) for child in node.children)
        found = node.java.condition()
        condition = self._conjuncts(found.get(), {**left.trees, **right.trees}) if found.isDefined() else ()
        return self.blocks.join(left, right, kind, condition)

    def _distinct(self, node: PlanNode) -> Block:
        if node.name == "Deduplicate":
            keys = {key.id for key in read_named(node.java.keys())}
            if keys != {attribute.id for attribute in node.output()}:
                raise Refused("dropDuplicates() of some columns is not written as SQL")
        return self.blocks.distinct(self._read(node.child))

    def _select(self, node: PlanNode) -> Block:
        """Read a select list; it has the window functions below it."""
        block = self.blocks.selectable(self._read(node.child))
        has_windows = block.has_windows and columns_only(node, renamed=True) is not None
        return replace(block, items=self._items(node.java.projectList(), block), has_windows=has_windows)

    def _window(self, node: PlanNode) -> Block:
        """Read an operator of windows: one select list has them, unless one is computed from another."""
        below = below_aliases(node.child)
        if below.kind == "select" and columns_only(below, extracted=True):
            block = replace(self._select(below), has_windows=True)
        elif below.kind == "select":  # Spark keeps renamed columns below a window apart
            block = self.blocks.subquery(self._read(below))
        else:
            block = self.blocks.selectable(self._read(below))
        functions = read_named(node.java.windowExpressions(), block.trees)
        made = {id_ for id_, tree in block.trees.items() if tree.find(exp.Window)}
        if any(id_ in made for function in functions for id_ in function.references()):
            block = self.blocks.subquery(block)
        new = self._items(node.java.windowExpressions(), block)
        return replace(block, items=(*block.items, *new), has_windows=True)

    def _items(self, found: Any, below: Block) -> tuple[Item, ...]:
        """Read the items of a select list over a block."""
        reader = self._reader(below.trees)
        items = read_named(found, below.trees)
        return tuple(Item(item.id, str(item.fields["name"]), reader.tree(item)) for item in items)

    def _conjuncts(self, condition: Any, trees: Trees) -> list[exp.Expression]:
        return list(map(self._reader(trees).tree, _split(read_catalyst(condition.toJSON()))))

    def _reader(self, trees: Trees) -> ExpressionReader:
        return ExpressionReader(trees, self.coerced, self.jvm_zone, self.registry, self.left_out)


def _columns(node: PlanNode) -> list[tuple[int, str]]:
    return [(attribute.id, str(attribute.fields["name"])) for attribute in node.output()]


def _split(node: Catalyst) -> list[Catalyst]:
    return [part for child in node.children for part in _split(child)] if node.name == "And" else [node]


class TablesReadAgain:
    """The relations of a plan, each with its table; ``any``: whether a table is read more than once."""

    def __init__(self, shape: PlanShape[PlanNode]) -> None:
        self._is_cached = shape.is_cached
        self._tables = [(relation, table) for relation in shape.relations() if (table := self._table_of(relation))]
        self.any = any(one.has_rows_of(other) for (_, one), (_, other) in combinations(self._tables, 2))

    def has_columns(self, node: PlanNode) -> bool:
        """Whether the columns of a table are written, since there is a table that is read again."""
        return self.any and self._table_of(node) is not None and not self._is_cached(node)

    def has_other_rows(self, node: PlanNode) -> bool:
        """Whether another relation reads other rows or columns of the table below a relation."""
        table = self._table_of(node)
        return table is not None and any(
            table.has_rows_of(other) and not node.has_rows_of(relation) for relation, other in self._tables
        )

    def _table_of(self, node: PlanNode) -> PlanNode | None:
        """The leaf below filters, columns and aggregates; None if there is another operator, or rows are cached."""
        while not self._is_cached(node):
            if not node.children:
                return node
            if node.kind not in ("alias", "filter", "aggregate", "select"):
                return None
            node = node.child
        return None
