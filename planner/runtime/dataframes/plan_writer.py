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
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from planner.errors import Refused
from planner.expr import Scalar, sql
from planner.logical import Aggregate, JoinKind, Limit, Logical, Project, SetOp, Sort
from planner.runtime.dataframes.catalyst_tree import Catalyst, read_catalyst
from planner.runtime.dataframes.expressions import ExpressionWriter
from planner.runtime.dataframes.jvm_plan import PlanNode, read_expressions, read_named
from planner.runtime.dataframes.query_blocks import (
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
    with_filters,
)
from planner.runtime.pyspark_versions import dataset_class
from planner.sql.to_sql import to_sql

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
_TRANSPARENT = ("SubqueryAlias", "View")
_LIMITS = ("GlobalLimit", "LocalLimit")
_SET_OPERATIONS = {"Union": "UNION ALL", "Except": "EXCEPT", "Intersect": "INTERSECT"}
_ABOVE_JOINS = (
    *_TRANSPARENT,
    *_LIMITS,
    "Project",
    "Filter",
    "Aggregate",
    "Sort",
    "Distinct",
    "Deduplicate",
    *_SET_OPERATIONS,
)


@dataclass
class PlanWriter:
    """Writes the analyzed plan of a DataFrame of a classic session.

    ``coerced``: leave out the casts that Spark adds itself; ``left_out`` has them.  ``frames``: the DataFrame of each
    view in the statement.
    """

    frame: DataFrame
    coerced: bool
    frames: dict[str, DataFrame] = field(default_factory=dict)
    left_out: list[Catalyst] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.session = self.frame.sparkSession
        jvm: Any = self.session._jvm
        self.jvm_zone = str(jvm.java.util.TimeZone.getDefault().getID())
        self.has_cached = not self.session._jsparkSession.sharedState().cacheManager().isEmpty()
        self.aliases = Aliases()
        self.plans: dict[str, PlanNode] = {}
        self.joins: dict[PlanNode, bool] = {}
        self.tables: list[tuple[PlanNode, PlanNode]] = []  # relations, with the table that each reads
        self.reads_a_table_again = False

    def write(self) -> str:
        """Write the plan as a statement over views, whose DataFrames are then in ``frames``.  Raises ``Refused``."""
        plan = PlanNode(self.frame._jdf.queryExecution().analyzed())
        if not self._has_join(plan):
            raise Refused(self._without_join(plan))
        if self._depth(plan) > MOST_OPERATORS:
            raise Refused(TOO_DEEP)
        self.tables = [(r, table) for r in self._relations(plan) if (table := self._table_of(r))]
        pairs = combinations((table.java for _, table in self.tables), 2)
        self.reads_a_table_again = any(one.sameResult(other) for one, other in pairs)
        return to_sql(self._query(plan, self.frame.columns).plan)

    def _relations(self, node: PlanNode) -> Iterator[PlanNode]:
        """The largest parts of a plan that have no join."""
        if self._has_join(node):
            for child in node.children:
                yield from self._relations(child)
        else:
            yield node

    def _table_of(self, node: PlanNode) -> PlanNode | None:
        """The leaf below filters, columns and aggregates; None if there is another operator, or rows are cached."""
        while not self._is_cached(node):
            if not node.children:
                return node
            if node.name not in (*_TRANSPARENT, "Filter", "Aggregate", "Project"):
                return None
            node = node.child
        return None

    def _is_read_again(self, node: PlanNode) -> bool:
        """Whether another relation of the DataFrame reads other rows or columns of the table below a relation."""
        table = self._table_of(node)
        return table is not None and any(
            table.java.sameResult(other.java) and not node.java.sameResult(relation.java)
            for relation, other in self.tables
        )

    def _has_join(self, node: PlanNode) -> bool:
        """Whether there is a join that is written as such."""
        if node not in self.joins:
            above = node.name in _ABOVE_JOINS and not self._is_cached(node) and not _sorts_partitions(node)
            here = node.name == "Join" and not self._is_cached(node)
            self.joins[node] = here or (above and any(map(self._has_join, node.children)))
        return self.joins[node]

    def _depth(self, node: PlanNode) -> int:
        """Return how many operators with a join below them follow each other."""
        deepest = max((self._depth(child) for child in node.children if self._has_join(child)), default=0)
        return deepest + (node.name not in _TRANSPARENT)

    def _is_cached(self, node: PlanNode) -> bool:
        """Whether Spark has the rows of an operator already."""
        if not self.has_cached or node.name in _TRANSPARENT:
            return False
        level = self._as_frame(node).storageLevel
        return bool(level.useMemory or level.useDisk or level.useOffHeap)

    def _without_join(self, node: PlanNode) -> str:
        """Return why a plan has no join that is written as such."""
        while not self._is_cached(node) and not _sorts_partitions(node):
            below = next((child for child in node.children if child.contains("Join")), None)
            if node.name not in _ABOVE_JOINS or below is None:
                break
            node = below
        if not node.contains("Join"):
            return "the plan of the DataFrame has no join"
        if self._is_cached(node):
            return "the joins of the DataFrame are cached, so Spark has their rows already"
        return f"the joins of the DataFrame are below {node.name}, which is not written as SQL"

    def _query(self, node: PlanNode, wanted: Sequence[str] | None = None) -> Query:
        """Write a plan as a query; ``wanted``: the names of its columns, which may repeat."""
        node = _below_aliases(node)
        name = node.name
        if name in _LIMITS:
            return self._limit(node, wanted)
        if name == "Sort":
            return self._sort(node, wanted)
        if name in ("Distinct", "Deduplicate"):
            return self._distinct(node, wanted)
        if name in _SET_OPERATIONS:
            return self._set_operation(node, wanted)
        if name == "Aggregate":
            rows = self._rows(node.child)
            items = read_named(node.java.aggregateExpressions(), rows.columns)
            keys = tuple(self._scalar(k, rows.columns) for k in read_expressions(node.java.groupingExpressions()))
            return self._project(Aggregate(rows.plan, keys) if keys else rows.plan, rows.columns, items, wanted)
        if name == "Project":
            rows = self._rows(node.child)
            return self._project(rows.plan, rows.columns, read_named(node.java.projectList(), rows.columns), wanted)
        rows = self._rows(node)
        return self._project(rows.plan, rows.columns, node.output(), wanted)

    def _rows(self, node: PlanNode) -> Rows:
        """Write the clauses FROM and WHERE."""
        node = _below_aliases(node)
        if node.name != "Filter" or not self._has_join(node):
            return with_filters(self._relation(node))
        rows = self._rows(node.child)
        return with_filters(replace(rows, filters=self._conjuncts(node.java.condition(), rows.columns)))

    def _relation(self, node: PlanNode, alias: str = "", *, filters: bool = True) -> Rows:
        """Write an item of FROM: a join, a relation, a subquery; ``filters``: it may leave these to be written."""
        alias, node = _named(node, alias)
        if self._has_join(node):
            rows = self._join(node) if node.name == "Join" else None
            return rows if rows and (filters or not rows.filters) else self._selected(node, alias)
        if node.name == "Aggregate" and self._is_read_again(node):
            return self._selected(node, alias)
        inner, below = _named(node.child, alias) if node.name == "Filter" else (alias, node)
        if filters and below is not node and not below.children and self.reads_a_table_again:
            rows = self._scan(below, inner)
            return replace(rows, filters=self._conjuncts(node.java.condition(), rows.columns))
        return self._scan(node, alias)

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
        found = read_expressions(node.java.order())
        columns: Columns = {id_: exp.column(name, quoted=True) for id_, name in query.names.items()}
        keys = tuple(self._scalar(key.child, columns) for key in found)
        directions = tuple(map(_direction, found))
        return Query(Sort(query.plan, "ORDER BY", keys, directions), query.names)

    def _distinct(self, node: PlanNode, wanted: Sequence[str] | None) -> Query:
        query = self._query(node.child, wanted)
        if not isinstance(query.plan, Project) or query.plan.quantifier:
            query = self._nested(node.child, wanted)
        return distinct(query)

    def _set_operation(self, node: PlanNode, wanted: Sequence[str] | None) -> Query:
        attributes = node.output()
        names = list(wanted) if wanted else different([str(a.fields["name"]) for a in attributes])
        keyword = _SET_OPERATIONS[node.name]
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
        return ExpressionWriter(columns, self.coerced, self.jvm_zone, self.left_out)

    def _as_frame(self, node: PlanNode) -> DataFrame:
        """Make a DataFrame of a part of the plan."""
        from pyspark.sql import DataFrame

        dataset = dataset_class(self.session)
        return DataFrame(dataset.ofRows(self.session._jsparkSession, node.java), self.session)


def _below_aliases(node: PlanNode) -> PlanNode:
    while node.name in _TRANSPARENT:
        node = node.child
    return node


def _named(node: PlanNode, alias: str) -> tuple[str, PlanNode]:
    """A plan below its names, and the outermost of these."""
    while node.name in _TRANSPARENT:
        alias = str(node.java.alias()) if node.name == "SubqueryAlias" and not alias else alias
        node = node.child
    return alias, node


def _sorts_partitions(node: PlanNode) -> bool:
    return node.name == "Sort" and not getattr(node.java, "global")()  # Python has no such name


def _split(node: Catalyst) -> list[Catalyst]:
    return [part for child in node.children for part in _split(child)] if node.name == "And" else [node]


def _direction(key: Catalyst) -> str:
    """Write the direction of a key of ORDER BY."""
    way, nulls = (str(key.fields[name]) for name in ("direction", "nullOrdering"))
    return f"{'ASC' if 'Ascending' in way else 'DESC'} NULLS {'FIRST' if 'NullsFirst' in nulls else 'LAST'}"
