"""Writes the analyzed plan of a DataFrame as SQL over its relations: the joins, and the operators above them.

    events.alias("e").join(sessions.alias("s"), expr("e.ts BETWEEN s.start AND s.stop")).select("e.id")

    SELECT e.id FROM {e} e JOIN {s} s ON e.ts BETWEEN s.start AND s.stop

What has no join below it is a relation, however it was made: its plan is carried over as it is.  Where a table is read
more than once, rules for self-joins need more: filters of tables are written, too, and aggregates over a table that is
read in more than one way.
The names of columns are IDs in an analyzed plan, so that two columns of one name remain two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from dovetail.executor.dataframes.catalyst_tree import Catalyst, read_catalyst
from dovetail.executor.dataframes.expressions import ExpressionWriter
from dovetail.executor.dataframes.function_names import function_names
from dovetail.executor.dataframes.jvm_plan import PlanNode, columns_only, read_expressions, read_named
from dovetail.executor.dataframes.kept_operators import frame_of
from dovetail.executor.dataframes.plan_shape import LIMITS, SET_OPERATIONS, TRANSPARENT, PlanShape, below_aliases
from dovetail.executor.dataframes.window_expressions import write_order
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
    new_view_name,
    scan_view,
    select_all,
    select_from,
    select_items,
    sorted_by,
    with_filters,
)
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, sql
from dovetail.planner.logical import Aggregate, JoinKind, Limit, Logical, Project, SetOp, Sort
from dovetail.planner.sql.to_sql import to_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KINDS: dict[str, JoinKind] = {
    "Inner": "inner",
    "Cross": "cross",
    "LeftOuter": "left",
    "RightOuter": "right",
    "FullOuter": "full",
    "LeftSemi": "semi",
    "LeftAnti": "anti",
}


@dataclass
class PlanWriter:
    """Writes the analyzed plan of a DataFrame of a classic session.

    ``coerced``: leave out the casts that Spark adds itself; ``left_out`` has them.  ``groups``: write all aggregates,
    and not only those over tables that are read again.  ``frames``: the DataFrame of each view in the statement.
    """

    frame: DataFrame
    coerced: bool
    groups: bool = True
    frames: dict[str, DataFrame] = field(default_factory=dict)
    left_out: list[Catalyst] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.session = self.frame.sparkSession
        jvm: Any = self.session._jvm
        self.names = function_names(jvm)
        self.jvm_zone = str(jvm.java.util.TimeZone.getDefault().getID())
        self.aliases = Aliases()
        self.has_groups = False
        self.plans: dict[str, PlanNode] = {}
        self.plan = PlanNode(self.frame._jdf.queryExecution().analyzed())
        self.shape = PlanShape(self.session, self.plan)

    def write(self) -> str:
        """Write the plan as a statement over views, whose DataFrames are then in ``frames``.  Raises ``Refused``."""
        plan = self.plan
        if not self.shape.has_join(plan):
            raise Refused(self.shape.without_join(plan))
        if self.shape.depth(plan) > MOST_OPERATORS:
            raise Refused(TOO_DEEP)
        self.shape.find_tables()
        return to_sql(self._query(plan, self.frame.columns).plan)

    @contextmanager
    def _at(self, node: PlanNode) -> Iterator[None]:
        """Note the operator that is refused: the innermost one."""
        try:
            yield
        except Refused:
            self.shape.refused_at = self.shape.refused_at or node
            raise

    def _query(self, node: PlanNode, wanted: Sequence[str] | None = None) -> Query:
        """Write a plan as a query; ``wanted``: the names of its columns, which may repeat."""
        node = below_aliases(node)
        with self._at(node):
            return self._query_of(node, wanted)

    def _query_of(self, node: PlanNode, wanted: Sequence[str] | None) -> Query:
        name = node.name
        if name in LIMITS:
            return self._limit(node, wanted)
        if name == "Sort":
            return self._sort(node, wanted)
        if name in ("Distinct", "Deduplicate"):
            return self._distinct(node, wanted)
        if name in SET_OPERATIONS:
            return self._set_operation(node, wanted)
        if name == "Aggregate":
            rows = self._rows(node.child)
            items = read_named(node.java.aggregateExpressions(), rows.columns)
            keys = tuple(self._scalar(k, rows.columns) for k in read_expressions(node.java.groupingExpressions()))
            return self._project(Aggregate(rows.plan, keys) if keys else rows.plan, rows.columns, items, wanted)
        if name == "Project":
            rows = self._selectable(node.child)
            return self._project(rows.plan, rows.columns, read_named(node.java.projectList(), rows.columns), wanted)
        rows = self._selectable(node)
        return self._project(rows.plan, rows.columns, node.output(), wanted)

    def _selectable(self, node: PlanNode) -> Rows:
        """Write FROM and WHERE, with window functions among the columns, which only a select list may have."""
        node = below_aliases(node)
        if node.name == "Window" and self.shape.has_join(node):
            with self._at(node):
                return self._window(node)
        is_above = node.name == "Project" and self.shape.has_join(node) and _reaches_window(node)
        if is_above and (items := columns_only(node, renamed=True)):
            return self._renamed(self._selectable(node.child), items)
        return self._rows(node)

    def _window(self, node: PlanNode) -> Rows:
        """Write an operator of windows: one select list has them, unless one is computed from another."""
        below = below_aliases(node.child)
        if below.name == "Project" and self.shape.has_join(below):
            items = columns_only(below, extracted=True)  # Spark keeps renamed columns below a window apart
            rows = self._renamed(self._selectable(below.child), items) if items else self._selected(below)
        else:
            rows = self._selectable(below)
        functions = read_named(node.java.windowExpressions(), rows.columns)
        made = {id_ for id_, tree in rows.columns.items() if tree.find(exp.Window)}
        if any(id_ in made for function in functions for id_ in function.references()):
            rows = self._selected(node.child)
        writer = self._writer(rows.columns)
        return replace(rows, columns={**rows.columns, **{f.id: writer.tree(f) for f in functions}})

    def _renamed(self, rows: Rows, items: Sequence[Catalyst]) -> Rows:
        """The same rows, with the columns of a select list that computes nothing."""
        writer = self._writer(rows.columns)
        return replace(rows, columns={item.id: writer.tree(item) for item in items})

    def _rows(self, node: PlanNode) -> Rows:
        """Write the clauses FROM and WHERE."""
        node = below_aliases(node)
        is_simple = node.name == "Project" and self.shape.has_join(node)
        if is_simple and (items := columns_only(node, renamed=True)):
            return self._renamed(self._rows(node.child), items)
        if node.name != "Filter" or not self.shape.has_join(node):
            return with_filters(self._relation(node))
        with self._at(node):
            rows = self._rows(node.child)
            return with_filters(replace(rows, filters=self._conjuncts(node.java.condition(), rows.columns)))

    def _relation(self, node: PlanNode, alias: str = "", *, filters: bool = True) -> Rows:
        """Write an item of FROM: a join, a relation, a subquery; ``filters``: it may leave these to be written."""
        alias, node = _named(node, alias)
        is_flat = node.name == "Project" and self.shape.has_join(node) and not _reaches_window(node)
        if is_flat and (items := columns_only(node)):
            return self._renamed(self._relation(node.child, alias, filters=filters), items)
        if node.name == "Project" and self.shape.renames_again(node) and columns_only(node, renamed=True):
            return self._selected(node, alias)
        if self.shape.has_join(node):
            with self._at(node):
                rows = self._join(node) if node.name == "Join" else None
            return rows if rows and (filters or not rows.filters) else self._selected(node, alias)
        if node.name == "Aggregate" and (self.groups or self.shape.is_read_again(node)):
            with suppress(Refused):
                return self._grouped(node, alias)
        if filters and node.name == "Filter" and self.shape.reads_a_table_again:
            inner, below = _named(node.child, alias)
            if not below.children:
                rows = self._scan(below, inner)
                return replace(rows, filters=self._conjuncts(node.java.condition(), rows.columns))
        return self._scan(node, alias)

    def _grouped(self, node: PlanNode, alias: str) -> Rows:
        """Write groups over a relation, whose keys are then known to be unique; what is refused leaves no trace."""
        before = set(self.aliases.taken), dict(self.frames), dict(self.plans), list(self.left_out)
        refused_at = self.shape.refused_at
        try:
            rows = self._selected(node, alias)
        except Refused:
            self.aliases.taken, self.frames, self.plans, self.left_out[:] = before
            self.shape.refused_at = refused_at
            raise
        self.has_groups = True
        return rows

    def _join(self, node: PlanNode) -> Rows:
        kind = _KINDS.get(re.sub(r"\W.*", "", str(node.java.joinType().toString())))
        if kind is None:
            raise Refused(f"a {node.java.joinType().toString()} join is not written as SQL")
        if str(node.java.hint().toString()) != "":
            raise Refused("a join has hints")
        left, right = (self._relation(child, filters=kind != "full") for child in node.children)
        found = node.java.condition()
        both = {**left.columns, **right.columns}
        return join_rows(left, right, kind, self._conjuncts(found.get(), both) if found.isDefined() else ())

    def _scan(self, node: PlanNode, alias: str) -> Rows:
        """Carry a relation: a view of the rows that its plan returns, with columns of different names."""
        alias = self.aliases.new(alias)
        attributes = node.output()
        names = different([str(a.fields["name"]) for a in attributes])
        frame = self._as_frame(node)
        if names != frame.columns:
            frame = frame.toDF(*names)
        view = self._view(node, frame, alias)
        return scan_view(view, alias, {a.id: name for a, name in zip(attributes, names, strict=True)})

    def _view(self, node: PlanNode, frame: DataFrame, alias: str) -> str:
        """Return the name of the view of a relation: one for all whose plans return the same."""
        for view, plan in self.plans.items():
            if self.frames[view].columns == frame.columns and plan.java.sameResult(node.java):
                return view
        view = new_view_name(alias)
        self.frames[view], self.plans[view] = frame, node
        return view

    def _selected(self, node: PlanNode, alias: str = "") -> Rows:
        """Write a plan as a subquery in FROM."""
        return select_from(self._query(node), self.aliases.new(alias))

    def _limit(self, node: PlanNode, wanted: Sequence[str] | None) -> Query:
        below = node.child
        if node.name == "GlobalLimit" and below.name == "LocalLimit":
            below = below.child
        query = self._query(below, wanted)
        if isinstance(query.plan, Limit):
            query = self._nested(below, wanted)
        count = self._scalar(read_catalyst(node.java.limitExpr().toJSON()), {})
        return Query(Limit(query.plan, "LIMIT", count), query.names)

    def _sort(self, node: PlanNode, wanted: Sequence[str] | None) -> Query:
        below = node.child
        if wanted and different(wanted) != list(wanted):  # the keys would be ambiguous
            return self._nested(node, wanted)
        query = self._query(below, wanted)
        if isinstance(query.plan, Limit | Sort):
            query = self._nested(below, wanted)
        writer = self._writer({id_: exp.column(name, quoted=True) for id_, name in query.names.items()})
        keys = [write_order(writer, key) for key in read_expressions(node.java.order())]
        return sorted_by(query, [(Scalar(sql(key.this)), key) for key in keys])

    def _distinct(self, node: PlanNode, wanted: Sequence[str] | None) -> Query:
        if node.name == "Deduplicate":
            keys = {key.id for key in read_named(node.java.keys())}
            if keys != {attribute.id for attribute in node.output()}:
                raise Refused("dropDuplicates() of some columns is not written as SQL")
        query = self._query(node.child, wanted)
        if not isinstance(query.plan, Project) or query.plan.quantifier:
            query = self._nested(node.child, wanted)
        return distinct(query)

    def _set_operation(self, node: PlanNode, wanted: Sequence[str] | None) -> Query:
        attributes = node.output()
        names = list(wanted) if wanted else different([str(a.fields["name"]) for a in attributes])
        keyword = SET_OPERATIONS[node.name]
        if keyword != "UNION ALL" and node.java.isAll():
            keyword += " ALL"
        first, *others = (self._operand(child, names) for child in node.children)
        for other in others:
            first = SetOp(first, other, keyword)
        return Query(first, {a.id: name for a, name in zip(attributes, names, strict=True)})

    def _operand(self, node: PlanNode, names: Sequence[str]) -> Logical:
        """Write an operand of a set operation."""
        query = self._query(node, names)
        return query.plan if isinstance(query.plan, Project) else self._nested(node, names).plan

    def _nested(self, node: PlanNode, wanted: Sequence[str] | None) -> Query:
        """Select all columns of a subquery."""
        return select_all(self._selected(node), wanted)

    def _project(
        self, rows: Logical, columns: Columns, items: Sequence[Catalyst], wanted: Sequence[str] | None
    ) -> Query:
        names = list(wanted) if wanted else different([str(item.fields["name"]) for item in items])
        writer = self._writer(columns)
        return select_items(rows, [(i.id, writer.tree(i)) for i in items], names)

    def _conjuncts(self, condition: Any, columns: Columns) -> tuple[Scalar, ...]:
        tree = read_catalyst(condition.toJSON())
        return tuple(self._scalar(conjunct, columns) for conjunct in _split(tree))

    def _scalar(self, node: Catalyst, columns: Columns) -> Scalar:
        return Scalar(sql(self._writer(columns).tree(node)))

    def _writer(self, columns: Columns) -> ExpressionWriter:
        return ExpressionWriter(columns, self.coerced, self.jvm_zone, self.names, self.left_out)

    def _as_frame(self, node: PlanNode) -> DataFrame:
        return frame_of(self.session, node.java)


def _named(node: PlanNode, alias: str) -> tuple[str, PlanNode]:
    """A plan below its names, and the outermost of these."""
    while node.name in TRANSPARENT:
        alias = str(node.java.alias()) if node.name == "SubqueryAlias" and not alias else alias
        node = node.child
    return alias, node


def _reaches_window(node: PlanNode) -> bool:
    while node.name in (*TRANSPARENT, "Project"):
        node = node.child
    return node.name == "Window"


def _split(node: Catalyst) -> list[Catalyst]:
    return [part for child in node.children for part in _split(child)] if node.name == "And" else [node]
