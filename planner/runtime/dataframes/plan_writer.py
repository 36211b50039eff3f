"""Writes the analyzed plan of a DataFrame as SQL over its relations: the joins, and what stands above them.

    events.alias("e").join(sessions.alias("s"), expr("e.ts BETWEEN s.start AND s.stop")).select("e.id")

    SELECT e.id FROM {e} e JOIN {s} s ON e.ts BETWEEN s.start AND s.stop

What has no join below it is a relation, however it was made: its plan is carried over as it is.  The names of columns
are IDs in an analyzed plan, so that two columns of one name remain two.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sqlglot import exp

from planner.errors import Refused
from planner.expr import Scalar, quote, sql
from planner.logical import (
    JOIN_KEYWORDS,
    Aggregate,
    Derived,
    Filter,
    Join,
    JoinKind,
    Limit,
    Logical,
    Project,
    Scan,
    SetOp,
    Sort,
)
from planner.runtime.dataframes.catalyst_tree import Catalyst, read_catalyst
from planner.runtime.dataframes.expressions import ExpressionWriter
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
Columns = dict[int, exp.Expression]


@dataclass(frozen=True)
class _Rows:
    """What stands in FROM and WHERE, with the column of each ID."""

    plan: Logical
    columns: Columns


@dataclass(frozen=True)
class _Query:
    """A SELECT, with the name of each of its columns by ID."""

    plan: Logical
    names: dict[int, str]


@dataclass
class PlanWriter:
    """Writes the analyzed plan of a DataFrame of a classic session.

    ``coerced``: leave out the casts that Spark adds itself.  ``frames``: the DataFrame of each view in the statement.
    """

    frame: DataFrame
    coerced: bool
    frames: dict[str, DataFrame] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.session = self.frame.sparkSession
        jvm: Any = self.session._jvm
        self.jvm_zone = str(jvm.java.util.TimeZone.getDefault().getID())
        self.has_cached = not self.session._jsparkSession.sharedState().cacheManager().isEmpty()
        self.aliases: set[str] = set()
        self.plans: dict[str, Any] = {}

    def write(self) -> str:
        """Write the plan as a statement over views, whose DataFrames are then in ``frames``.  Raises ``Refused``."""
        plan = self.frame._jdf.queryExecution().analyzed()
        if not self._has_join(plan):
            raise Refused(self._without_join(plan))
        return to_sql(self._query(plan, self.frame.columns).plan)

    def _has_join(self, node: Any) -> bool:
        """Whether there is a join that is written as such."""
        name = _name(node)
        if self.has_cached and name not in _TRANSPARENT and _is_cached(self._as_frame(node)):
            return False
        if name == "Sort" and not getattr(node, "global")():  # Python has no such name
            return False
        return name == "Join" or (name in _ABOVE_JOINS and any(map(self._has_join, _children(node))))

    def _without_join(self, node: Any) -> str:
        """Return why a plan has no join that is written as such."""
        if not _contains_join(node):
            return "the plan of the DataFrame has no join"
        while _name(node) in _ABOVE_JOINS and (below := [c for c in _children(node) if _contains_join(c)]):
            if self.has_cached and _name(node) not in _TRANSPARENT and _is_cached(self._as_frame(node)):
                break
            node = below[0]
        name = _name(node)
        if name in ("Join", *_ABOVE_JOINS):
            return "the joins of the DataFrame are cached, or within partitions that are sorted"
        return f"the joins of the DataFrame are below {name}, which is not written as SQL"

    def _query(self, node: Any, wanted: Sequence[str] | None = None) -> _Query:
        """Write a plan as a query; ``wanted``: the names of its columns, which may repeat."""
        node = _below_aliases(node)
        name = _name(node)
        if name in _LIMITS:
            return self._limit(node, wanted)
        if name == "Sort":
            return self._sort(node, wanted)
        if name in ("Distinct", "Deduplicate"):
            return self._distinct(node, wanted)
        if name in _SET_OPERATIONS:
            return self._set_operation(node, wanted)
        if name == "Aggregate":
            rows = self._rows(_children(node)[0])
            items = _named(node.aggregateExpressions(), rows.columns)
            keys = tuple(self._scalar(k, rows.columns) for k in _expressions(node.groupingExpressions()))
            return self._project(Aggregate(rows.plan, keys) if keys else rows.plan, rows.columns, items, wanted)
        if name == "Project":
            rows = self._rows(_children(node)[0])
            return self._project(rows.plan, rows.columns, _named(node.projectList(), rows.columns), wanted)
        rows = self._rows(node)
        return self._project(rows.plan, rows.columns, _named(node.output()), wanted)

    def _rows(self, node: Any) -> _Rows:
        """Write what stands in FROM and WHERE."""
        node = _below_aliases(node)
        if _name(node) != "Filter" or not self._has_join(node):
            return self._relation(node)
        rows = self._rows(_children(node)[0])
        condition = self._conjuncts(node.condition(), rows.columns)
        if isinstance(rows.plan, Filter):
            return _Rows(Filter(rows.plan.child, (*rows.plan.condition, *condition)), rows.columns)
        return _Rows(Filter(rows.plan, condition), rows.columns)

    def _relation(self, node: Any, alias: str = "") -> _Rows:
        """Write what stands in FROM: joins, relations, subqueries."""
        while _name(node) in _TRANSPARENT:
            alias = str(node.alias()) if _name(node) == "SubqueryAlias" and not alias else alias
            node = _children(node)[0]
        if not self._has_join(node):
            return self._scan(node, alias)
        return self._join(node) if _name(node) == "Join" else self._selected(node, alias)

    def _join(self, node: Any) -> _Rows:
        kind = _KINDS.get(re.sub(r"\W.*", "", str(node.joinType().toString())))
        if kind is None:
            raise Refused(f"a {node.joinType().toString()} join is not written as SQL")
        if str(node.hint().toString()) != "":
            raise Refused("a join has hints")
        left, right = map(self._relation, _children(node))
        columns = {**left.columns, **right.columns}
        condition = self._conjuncts(node.condition().get(), columns) if node.condition().isDefined() else ()
        if kind == "cross" and condition:
            kind = "inner"
        keyword = JOIN_KEYWORDS["cross" if kind == "inner" and not condition else kind]
        joined = Join(left.plan, right.plan, kind, keyword, condition)
        return _Rows(joined, left.columns if kind in ("semi", "anti") else columns)

    def _scan(self, node: Any, alias: str) -> _Rows:
        """Carry a relation: a view of the rows that its plan returns, with columns of different names."""
        alias = self._new_alias(alias)
        attributes = _named(node.output())
        names = _different([str(a.fields["name"]) for a in attributes])
        frame = self._as_frame(node)
        if names != frame.columns:
            frame = frame.toDF(*names)
        view = self._view(node, frame, alias)
        scan = Scan((view,), view, alias, (), f"AS {quote(alias)}")
        return _Rows(scan, {a.id: _column(alias, name) for a, name in zip(attributes, names, strict=True)})

    def _view(self, node: Any, frame: DataFrame, alias: str) -> str:
        """Return the name of the view of a relation: one for all whose plans return the same."""
        for view, plan in self.plans.items():
            if self.frames[view].columns == frame.columns and plan.sameResult(node):
                return view
        name = re.sub("[^a-z0-9]+", "_", alias.lower()).strip("_")
        view = f"{name if name[:1].isalpha() else f'frame_{name}'}_{uuid4().hex[:12]}"
        self.frames[view], self.plans[view] = frame, node
        return view

    def _selected(self, node: Any, alias: str = "") -> _Rows:
        """Write a plan as a subquery in FROM."""
        query = self._query(node)
        alias = self._new_alias(alias)
        columns = {id_: _column(alias, name) for id_, name in query.names.items()}
        return _Rows(Derived(query.plan, alias, (), f"AS {quote(alias)}"), columns)

    def _limit(self, node: Any, wanted: Sequence[str] | None) -> _Query:
        below = _children(node)[0]
        if _name(node) == "GlobalLimit" and _name(below) == "LocalLimit":
            below = _children(below)[0]
        query = self._query(below, wanted)
        if isinstance(query.plan, Limit):
            query = self._nested(below, wanted)
        count = self._scalar(read_catalyst(node.limitExpr().toJSON()), {})
        return _Query(Limit(query.plan, "LIMIT", count), query.names)

    def _sort(self, node: Any, wanted: Sequence[str] | None) -> _Query:
        below = _children(node)[0]
        if wanted and _different(wanted) != list(wanted):  # the keys would be ambiguous
            return self._nested(node, wanted)
        query = self._query(below, wanted)
        if isinstance(query.plan, Limit | Sort):
            query = self._nested(below, wanted)
        found = _expressions(node.order())
        columns: Columns = {id_: exp.column(name, quoted=True) for id_, name in query.names.items()}
        keys = tuple(self._scalar(key.child, columns) for key in found)
        directions = tuple(map(_direction, found))
        return _Query(Sort(query.plan, "ORDER BY", keys, directions), query.names)

    def _distinct(self, node: Any, wanted: Sequence[str] | None) -> _Query:
        query = self._query(_children(node)[0], wanted)
        if not isinstance(query.plan, Project) or query.plan.quantifier:
            query = self._nested(_children(node)[0], wanted)
            assert isinstance(query.plan, Project)
        return _Query(replace(query.plan, quantifier="DISTINCT"), query.names)

    def _set_operation(self, node: Any, wanted: Sequence[str] | None) -> _Query:
        attributes = _named(node.output())
        names = list(wanted) if wanted else _different([str(a.fields["name"]) for a in attributes])
        keyword = _SET_OPERATIONS[_name(node)]
        if keyword != "UNION ALL" and node.isAll():
            keyword += " ALL"
        first, *others = (self._operand(child, names) for child in _children(node))
        for other in others:
            first = SetOp(first, other, keyword)
        return _Query(first, {a.id: name for a, name in zip(attributes, names, strict=True)})

    def _operand(self, node: Any, names: Sequence[str]) -> Logical:
        """Write an operand of a set operation."""
        query = self._query(node, names)
        return query.plan if isinstance(query.plan, Project) else self._nested(node, names).plan

    def _nested(self, node: Any, wanted: Sequence[str] | None) -> _Query:
        """Select all columns of a subquery."""
        rows = self._selected(node)
        names = list(wanted) if wanted else [column.name for column in rows.columns.values()]
        items = (_item(column, name) for column, name in zip(rows.columns.values(), names, strict=True))
        return _Query(Project(rows.plan, tuple(items)), dict(zip(rows.columns, names, strict=True)))

    def _project(
        self, rows: Logical, columns: Columns, items: Sequence[Catalyst], wanted: Sequence[str] | None
    ) -> _Query:
        names = list(wanted) if wanted else _different([str(item.fields["name"]) for item in items])
        written = (_item(self._writer(columns).tree(i), name) for i, name in zip(items, names, strict=True))
        return _Query(Project(rows, tuple(written)), {i.id: name for i, name in zip(items, names, strict=True)})

    def _conjuncts(self, condition: Any, columns: Columns) -> tuple[Scalar, ...]:
        tree = read_catalyst(condition.toJSON())
        return tuple(self._scalar(conjunct, columns) for conjunct in _split(tree))

    def _scalar(self, node: Catalyst, columns: Columns) -> Scalar:
        return Scalar(sql(self._writer(columns).tree(node)))

    def _writer(self, columns: Columns) -> ExpressionWriter:
        return ExpressionWriter(columns, self.coerced, self.jvm_zone)

    def _new_alias(self, name: str) -> str:
        name = name or f"t{len(self.aliases) + 1}"
        while name.lower() in self.aliases:
            name = f"{name}_{len(self.aliases) + 1}"
        self.aliases.add(name.lower())
        return name

    def _as_frame(self, node: Any) -> DataFrame:
        """Make a DataFrame of a part of the plan."""
        from pyspark.sql import DataFrame

        dataset = dataset_class(self.session)
        return DataFrame(dataset.ofRows(self.session._jsparkSession, node), self.session)


def _name(node: Any) -> str:
    return str(node.getClass().getSimpleName()).rstrip("$")


def _children(node: Any) -> list[Any]:
    return _listed(node.children())


def _listed(found: Any) -> list[Any]:
    return [found.apply(n) for n in range(found.size())]


def _named(found: Any, known: Container[int] | None = None) -> list[Catalyst]:
    """Read named expressions; attributes, all of them or those of ``known`` IDs, in one call for any number."""
    items = []
    for number, text in enumerate(str(found.mkString("\0")).split("\0") if found.size() else ()):
        attribute = re.fullmatch(r"(.*)#(\d+)L?", text, re.DOTALL)
        if attribute and (known is None or int(attribute[2]) in known):
            fields = {"name": attribute[1], "exprId": {"id": attribute[2]}}
            items.append(Catalyst("AttributeReference", fields, ()))
        else:
            items.append(read_catalyst(found.apply(number).toJSON()))
    return items


def _expressions(found: Any) -> list[Catalyst]:
    return [read_catalyst(expression.toJSON()) for expression in _listed(found)]


def _below_aliases(node: Any) -> Any:
    while _name(node) in _TRANSPARENT:
        node = _children(node)[0]
    return node


def _contains_join(node: Any) -> bool:
    return _name(node) == "Join" or any(map(_contains_join, _children(node)))


def _is_cached(frame: DataFrame) -> bool:
    level = frame.storageLevel
    return bool(level.useMemory or level.useDisk or level.useOffHeap)


def _split(node: Catalyst) -> list[Catalyst]:
    return [part for child in node.children for part in _split(child)] if node.name == "And" else [node]


def _different(names: Iterable[str]) -> list[str]:
    """Give columns different names, also for a session that ignores their case."""
    found: list[str] = []
    taken: set[str] = set()
    for name in names:
        new, n = name or "c", 1
        while new.lower() in taken:
            new, n = f"{name}_{n + 1}", n + 1
        taken.add(new.lower())
        found.append(new)
    return found


def _column(alias: str, name: str) -> exp.Expression:
    return exp.column(name, table=alias, quoted=True)


def _item(tree: exp.Expression, name: str) -> Scalar:
    same = isinstance(tree, exp.Column) and tree.name == name
    return Scalar(sql(tree) if same else f"{sql(tree)} AS {quote(name)}")


def _direction(key: Catalyst) -> str:
    """Write what stands behind a key of ORDER BY."""
    way, nulls = (str(key.fields[name]) for name in ("direction", "nullOrdering"))
    return f"{'ASC' if 'Ascending' in way else 'DESC'} NULLS {'FIRST' if 'NullsFirst' in nulls else 'LAST'}"
