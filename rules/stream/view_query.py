"""Splits a query over streams in two: the joined rows, which only grow, and the clauses above the join.

SELECT d.region, sum(f.amount) AS paid FROM f JOIN d ON f.k = d.k WHERE f.amount > 0 GROUP BY d.region

the rows    SELECT f.amount AS c0, d.region AS c1 FROM f JOIN d ON f.k = d.k WHERE f.amount > 0
above       SELECT region, sum(amount) AS paid FROM (SELECT c0 AS amount, c1 AS region FROM __dt_joined)
            GROUP BY region
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dovetail.planner.bind.names import check_distinct_names
from dovetail.planner.bind.scope import Scope
from dovetail.planner.errors import Refused, Unsupported
from dovetail.planner.expr import Scalar, has_star, quote, sql
from dovetail.planner.expr.calls import repeated_otherwise
from dovetail.planner.expr.stable_functions import first_stable_function
from dovetail.planner.logical import Aggregate, Cte, Filter, Join, Logical, Project, Scan, Sort, With, expressions
from dovetail.planner.logical.clauses import Limit, Windows
from dovetail.planner.logical.relations import Opaque
from dovetail.planner.sql.to_sql import to_sql
from dovetail.planner.state.changes import COUNT, checked_kind, count_of
from dovetail.rules.analysis.same_source import reading
from dovetail.rules.context import Context
from dovetail.rules.query.from_items import leaves, name_subqueries
from dovetail.rules.query.query_block import where
from dovetail.rules.stream.accumulators import JOINED, Accumulators, Types, accumulators
from dovetail.rules.stream.changelogs import expand_items, find_change_column
from dovetail.rules.stream.stored_rows import StoredRelation
from dovetail.rules.stream.stream_blocks import alias_of

_ABOVE = (Sort, Limit, Project, Aggregate, Windows)


@dataclass(frozen=True)
class ViewQuery:
    """The query of a view: ``joined`` over the streams, and ``above`` over its rows, in a relation named ``JOINED``.

    ``change`` is the column with the kind of change; empty if no stream is a changelog.  ``text`` is the whole query,
    with ``*`` expanded if a stream is a changelog.  ``clauses`` are those above the join, from the outermost in, and
    ``rows`` is a relation of the joined rows under the names of their relations.
    """

    joined: str
    above: str
    text: str
    clauses: tuple[Logical, ...]
    scope: Scope
    rows: str
    change: str = ""

    def accumulated(self, types: Types) -> Accumulators | str:
        """Return the accumulators that are stored for each group; or why the joined rows are stored."""
        try:
            return accumulators(self.clauses, self.rows, self.scope, types, changes=bool(self.change))
        except Refused as no:
            return str(no)


def view_query(query: Logical, ctx: Context) -> ViewQuery:
    """Split a query.  Raises ``Refused`` with the reason if that is impossible."""
    with_ = query if isinstance(query, With) else None
    path, condition, tree = _split(with_.child if with_ else query)
    joins, tree = _joins(tree), name_subqueries(tree, ctx.fresh)
    ctx.define({n.key: n for n in query.walk() if isinstance(n, Cte)})
    changes = _changes(tree, ctx)
    scope = ctx.scope(tree)
    columns = _Columns(scope, changes)
    if changes:
        path = [_expand_items(node, scope, columns.hidden) for node in path]
    for above in path:
        columns.add(above)
    items = columns.items
    if changes and not joins:
        items = (*items, _change_of(changes[0], condition, columns))
    hint = next(n.hint for n in path if isinstance(n, Project))
    joined: Logical = Project(where(tree, condition), items or (Scalar("1 AS c0"),), hint=hint)
    for conjunct in (*condition, *(c for join in joins for c in join.condition)):
        _check_repeatable(conjunct, changes=bool(changes))
    expanded: list[Any] = [_expand_items(node, scope, [None] * len(scope.sources)) for node in path]
    stored = StoredRelation(columns.stored, scope, expanded)
    rows = _over(map(stored.clause, expanded), Opaque(Scalar(stored.relation(JOINED))))
    whole = _over(path, where(tree, condition))
    joined_text, text = (to_sql(replace(with_, child=q) if with_ else q) for q in (joined, whole))
    return ViewQuery(joined_text, to_sql(rows), text, tuple(path), scope, columns.relations(), columns.change)


def _split(query: Logical) -> tuple[list[Any], tuple[Scalar, ...], Logical]:
    """The clauses of a query above FROM and WHERE, from the outermost in, the conjuncts of WHERE, and FROM."""
    path: list[Any] = []
    node: Any = query
    while isinstance(node, _ABOVE) or (isinstance(node, Filter) and node.clause != "WHERE"):
        path.append(node)
        node = node.children[0]
    if sum(isinstance(n, Project) for n in path) != 1:
        raise Refused("it is more than one SELECT … FROM … WHERE")
    return (path, node.condition, node.child) if isinstance(node, Filter) else (path, (), node)


def _joins(tree: Logical) -> list[Join]:
    """The joins of FROM.  Raises ``Refused`` for USING and NATURAL."""
    joins = [n for n in tree.walk() if isinstance(n, Join)]
    if any(join.using or join.natural for join in joins):
        raise Refused("USING and NATURAL merge columns of two relations; write ON")
    return joins


def _over(clauses: Iterable[Any], rows: Logical) -> Logical:
    """Clauses, from the outermost in, over other rows."""
    for clause in reversed(list(clauses)):
        rows = replace(clause, child=rows)
    return rows


def _check_repeatable(conjunct: Scalar, *, changes: bool) -> None:
    """Raise ``Refused`` for a condition of the join that may have another value when a row is read again."""
    odd = repeated_otherwise(conjunct.tree)
    if word := first_stable_function(conjunct.text) or (odd and sql(odd)):
        raise Refused(f"{word} decides which rows are joined, and may have another value at each refresh")
    if changes and conjunct.plans:
        raise Refused(
            f"{conjunct.shown} has a subquery, whose result may differ when a row is deleted and when it was inserted"
        )


def _expand_items(node: Logical, scope: Scope, hidden: Sequence[str | None]) -> Logical:
    """Expand ``*`` in a select list, without the columns of the kind of change."""
    if not isinstance(node, Project):
        return node
    return replace(node, items=expand_items(node.items, scope, hidden))


@dataclass(frozen=True)
class _Change:
    """A changelog in FROM: its ``change`` column, and the name under which its relation returns that, if any."""

    source: str
    table: str
    change: str
    column: str | None


def _changes(tree: Logical, ctx: Context) -> list[_Change]:
    """Return the relations that are changelogs.  Raises ``Refused``, ``Unsupported``."""
    found = []
    for relation in leaves(tree):
        scans = [n for n in relation.walk() if isinstance(n, Scan) and not n.cte]
        if any(ctx.catalog.declaration(scan.name).changelog for scan in scans) or ctx.definitions:
            read = reading(relation, ctx)
            base = read.base
            declared = ctx.catalog.declaration(base.name).changelog if isinstance(base, Scan) else None
            if declared and isinstance(base, Scan):
                column = find_change_column(read, declared.change, ctx.names)
                found.append(_Change(alias_of(relation), ".".join(base.name), declared.change, column))
    return found


def _change_of(only: _Change, condition: tuple[Scalar, ...], columns: _Columns) -> Scalar:
    """Return the kind of change as an item of a query over one changelog."""
    if only.column is None:
        raise Refused(
            f"its subquery leaves out {only.change}, the kind of the changes of {only.table}; select it there"
        )
    for conjunct in condition:
        columns.check(conjunct.tree)
    return Scalar(f"{checked_kind(only.column, only.table)} AS {quote(only.change)}")


class _Columns:
    """The columns of the relations of FROM that clauses name: the number of the relation, and the column.

    ``hidden``: for each relation its column with the kind of change.
    """

    def __init__(self, scope: Scope, changes: Sequence[_Change]):
        self.scope, self.sources = scope, scope.sources
        sources = scope.sources
        self.change = changes[0].change if changes else ""
        self.needed: set[tuple[int, str]] = set()
        self.aliases = [source.folded_name for source in sources]
        check_distinct_names(sources)
        self.every = [(n, column.name) for n, source in enumerate(sources) for column in source.known_columns()]
        kinds = dict(zip(scope.names.folded(c.source for c in changes), (c.column for c in changes), strict=True))
        self.hidden = [kinds.get(alias) for alias in self.aliases]

    @property
    def needed_columns(self) -> list[tuple[str, str]]:
        """The needed columns, each with the name of its relation, quoted, in the order of the relations."""
        return [(quote(self.sources[n].names[-1]), name) for n, name in self.stored]

    @property
    def items(self) -> tuple[Scalar, ...]:
        """The items that return them as stored columns."""
        columns = enumerate(self.needed_columns)
        return tuple(Scalar(f"{source}.{quote(name)} AS c{n}") for n, (source, name) in columns)

    @property
    def stored(self) -> list[tuple[int, str]]:
        """These columns, each with the number of its relation."""
        return [column for column in self.every if column in self.needed]

    def add(self, node: Logical) -> None:
        """Add the columns that a clause names; all columns if it cannot be parsed."""
        if node.subplans:
            raise Refused(f"{node.label} holds a subquery above the join")
        try:
            for tree in _trees(node):
                self._of(tree)
        except Unsupported:
            self.needed |= {(n, name) for n, name in self.every if self.hidden[n] != name}

    def check(self, tree: Any) -> None:
        """Raise ``Refused`` if an expression names a column with the kind of change."""
        for found in self.scope.bind(tree).known_columns:
            if self.hidden[found.relation] == found.column.name:
                raise Refused(f"{found.column.name} is the kind of a change, and no column of the result; leave it out")

    def _of(self, tree: Any) -> None:
        if has_star(tree):
            raise Unsupported("all columns")
        self.check(tree)
        for found in self.scope.bind(tree).known_columns:
            self.needed.add((found.relation, found.column.name))

    def relations(self) -> str:
        """Return a relation of the joined rows: each relation of FROM as a struct, and unambiguous columns by name.

        So aggregates of a group stay as they are written.  The count of each row follows if it is a change.
        """
        counted = f", {count_of(self.change)} AS {COUNT}" if self.change else ""
        names = self.scope.names.folded(name for _, name in self.needed_columns)
        times = Counter((*names, *self.aliases))
        structs: dict[str, list[str]] = {}
        items = []
        for n, (source, name) in enumerate(self.needed_columns):
            literal = name.replace("\\", "\\\\").replace("'", "\\'")
            structs.setdefault(source, []).append(f"'{literal}', c{n}")
            if times[names[n]] == 1:
                items.append(f"c{n} AS {quote(name)}")
        items += [f"named_struct({', '.join(fields)}) AS {source}" for source, fields in structs.items()]
        return f"(SELECT {', '.join(items) or '1'}{counted} FROM {JOINED})"


def _trees(node: Logical) -> Iterator[Any]:
    """Yield the expressions of a clause.  Raises ``Unsupported``."""
    match node:
        case Project():
            yield from (item.tree for item in node.items)
        case Filter() | Sort() | Aggregate(sets=None):
            yield from (scalar.tree for scalar in expressions(node))
        case Windows() | Aggregate(is_all=False):
            raise Unsupported(f"{node.detail} is kept as text")
