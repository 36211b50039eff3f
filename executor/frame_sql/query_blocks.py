"""The SQL of a DataFrame, piece by piece: FROM and WHERE, a SELECT over them, and the names that columns get.

A column has an ID, as in Spark's plans, so that two columns of one name remain two.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from uuid import uuid4

from sqlglot import exp

from dovetail.planner.expr import Scalar, quote, sql
from dovetail.planner.logical import JOIN_KEYWORDS, Derived, Filter, Join, JoinKind, Logical, Project, Scan, Sort

MOST_OPERATORS = 30  # 20 subqueries in each other are planned in 2 s; at 60, Python's and Spark's parsers give up
TOO_DEEP = (
    f"more than {MOST_OPERATORS} operators follow each other, each of which would be a subquery; "
    "withColumns() adds many columns in one"
)
Columns = dict[int, exp.Expression]


@dataclass(frozen=True)
class Rows:
    """The clauses FROM and WHERE, with the column of each ID.

    ``filters``: conditions on a relation of FROM that are still to be written, above it.
    """

    plan: Logical
    columns: Columns
    filters: tuple[Scalar, ...] = ()


@dataclass(frozen=True)
class Query:
    """A SELECT, with the name of each of its columns by ID."""

    plan: Logical
    names: dict[int, str]


@dataclass
class Aliases:
    """The aliases that relations of a statement have."""

    taken: set[str] = field(default_factory=set)

    def new(self, name: str) -> str:
        """Return an alias that no other relation has, if possible ``name``."""
        name = name or f"t{len(self.taken) + 1}"
        while name.lower() in self.taken:
            name = f"{name}_{len(self.taken) + 1}"
        self.taken.add(name.lower())
        return name


def new_view_name(alias: str) -> str:
    """Return a name of a temporary view that no session has."""
    name = re.sub("[^a-z0-9]+", "_", alias.lower()).strip("_")
    return f"{name if name[:1].isalpha() else f'frame_{name}'}_{uuid4().hex[:12]}"


def scan_view(view: str, alias: str, names: dict[int, str]) -> Rows:
    """Read a view, whose columns have these names by ID."""
    scan = Scan((view,), view, alias, (), f"AS {quote(alias)}")
    return Rows(scan, {id_: column_of(alias, name) for id_, name in names.items()})


def select_from(query: Query, alias: str) -> Rows:
    """Write a query as a subquery in FROM."""
    columns = {id_: column_of(alias, name) for id_, name in query.names.items()}
    return Rows(Derived(query.plan, alias, (), f"AS {quote(alias)}"), columns)


def with_filters(rows: Rows) -> Rows:
    """The same with the filters that are still to be written in WHERE."""
    if not rows.filters:
        return rows
    if isinstance(rows.plan, Filter):
        return Rows(Filter(rows.plan.child, (*rows.plan.condition, *rows.filters)), rows.columns)
    return Rows(Filter(rows.plan, rows.filters), rows.columns)


def join_rows(left: Rows, right: Rows, kind: JoinKind, condition: tuple[Scalar, ...]) -> Rows:
    """Join two items of FROM; filters of either are in ON or above the join, where they mean the same."""
    columns = {**left.columns, **right.columns}
    above = (*left.filters, *right.filters)
    if kind in ("left", "semi", "anti"):
        above, condition = left.filters, (*condition, *right.filters)
    elif kind == "right":
        above, condition = right.filters, (*condition, *left.filters)
    if kind == "cross" and condition:
        kind = "inner"
    keyword = JOIN_KEYWORDS["cross" if kind == "inner" and not condition else kind]
    joined = Join(left.plan, right.plan, kind, keyword, condition)
    return Rows(joined, left.columns if kind in ("semi", "anti") else columns, above)


def select_items(
    rows: Logical, items: Sequence[tuple[int, exp.Expression]], names: Sequence[str], renamed: Container[int] = ()
) -> Query:
    """Select expressions, each with the ID and the name of its column; ``renamed``: those with AS in any case."""
    written = (item(tree, name, renamed=id_ in renamed) for (id_, tree), name in zip(items, names, strict=True))
    return Query(Project(rows, tuple(written)), {id_: name for (id_, _), name in zip(items, names, strict=True)})


def select_all(rows: Rows, wanted: Sequence[str] | None) -> Query:
    """Select all columns of a subquery; ``wanted``: their names, which may repeat."""
    names = list(wanted) if wanted else [column.name for column in rows.columns.values()]
    return select_items(rows.plan, list(rows.columns.items()), names)


def sorted_by(query: Query, keys: Sequence[tuple[Scalar, exp.Expression]]) -> Query:
    """A query with ORDER BY: its keys, each with the ``Ordered`` that has its direction."""
    directions = (
        f"{'DESC' if order.args['desc'] else 'ASC'} NULLS {'FIRST' if order.args['nulls_first'] else 'LAST'}"
        for _, order in keys
    )
    return Query(Sort(query.plan, "ORDER BY", tuple(key for key, _ in keys), tuple(directions)), query.names)


def distinct(query: Query) -> Query:
    """The same without duplicates; the plan is a ``Project`` without a quantifier."""
    assert isinstance(query.plan, Project)
    return Query(replace(query.plan, quantifier="DISTINCT"), query.names)


def different(names: Iterable[str]) -> list[str]:
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


def column_of(alias: str, name: str) -> exp.Expression:
    """A column of a relation."""
    return exp.column(name, table=alias, quoted=True)


def item(tree: exp.Expression, name: str, *, renamed: bool = False) -> Scalar:
    """An item of a select list; ``renamed``: with AS, even if it is a column of that name."""
    same = isinstance(tree, exp.Column) and tree.name == name and not renamed
    return Scalar(sql(tree) if same else f"{sql(tree)} AS {quote(name)}")


def case_when(arguments: Sequence[exp.Expression]) -> exp.Expression:
    """CASE with conditions and values in turn, and behind them the value of ELSE, if there is one."""
    pairs = zip(arguments[0::2], arguments[1::2], strict=False)
    default = arguments[-1] if len(arguments) % 2 else None
    return exp.Case(ifs=[exp.If(this=test, true=value) for test, value in pairs], default=default)
