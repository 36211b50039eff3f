"""A query over streams in two: the joined rows, which only grow, and what stands above them.

SELECT d.region, sum(f.amount) AS paid FROM f JOIN d ON f.k = d.k WHERE f.amount > 0 GROUP BY d.region

the rows    SELECT f.amount AS c0, d.region AS c1 FROM f JOIN d ON f.k = d.k WHERE f.amount > 0
above       SELECT region, sum(amount) AS paid FROM (SELECT c0 AS amount, c1 AS region FROM __dt_joined)
            GROUP BY region
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from planner.errors import Unsupported
from planner.expr import Scalar, column_ref, columns_in, parse, quote, sql
from planner.expr.calls import repeated_otherwise
from planner.expr.of_the_query import of_the_query
from planner.expr.tokens import tokenize
from planner.logical import Aggregate, Cte, Filter, Join, Logical, Nested, Project, Scan, Sort, With
from planner.logical.clauses import Limit, Windows
from planner.logical.relations import Opaque
from planner.sql.names import Source, Unresolved
from planner.sql.to_sql import to_sql
from planner.state.changes import COUNT, count_of, known
from rules.analysis.same_source import reading
from rules.context import Context
from rules.query.inner_joins import where
from rules.query.sort_keys import sort_keys
from rules.stream.accumulators import Accumulators, Types, accumulators
from rules.stream.changelogs import hidden_in, spelt_out
from rules.stream.stored_rows import StoredRows
from rules.stream.stream_blocks import NotTaken, alias_of

JOINED = "__dt_joined"
"""The name under which the rows of the join are read."""

_ABOVE = (Sort, Limit, Project, Aggregate, Windows)


@dataclass(frozen=True)
class KeptQuery:
    """``joined`` is the query over the streams; ``above`` that over its rows, which go by the name ``JOINED``.

    ``change`` is the column of the rows that says how they change; nothing where none of the streams is a changelog.
    ``text`` is the whole query, with columns in the place of ``*`` where one of them is.  Of the other two, ``clauses``
    are those above the join, from the outermost in, and ``rows`` stands for its rows under the names of its relations.
    """

    joined: str
    above: str
    text: str
    clauses: tuple[Logical, ...]
    sources: tuple[Source, ...]
    rows: str
    change: str = ""

    def accumulated(self, ctx: Context, types: Types) -> Accumulators | str:
        """What is kept of each group in the place of its rows; or why the rows are kept."""
        try:
            return accumulators(
                self.clauses, self.rows, JOINED, ctx.names, self.sources, types, changes=bool(self.change)
            )
        except (Unresolved, Unsupported) as no:
            return str(no)


def kept_query(query: Logical, ctx: Context) -> KeptQuery:
    """Take a query apart.  Raises ``NotTaken``, ``Unresolved`` or ``Unsupported``, with the reason why it cannot be."""
    with_ = query if isinstance(query, With) else None
    path: list[Any] = []
    node: Any = with_.child if with_ else query
    while isinstance(node, _ABOVE) or (isinstance(node, Filter) and node.clause != "WHERE"):
        path.append(node)
        node = node.children[0]
    if sum(isinstance(n, Project) for n in path) != 1:
        raise NotTaken("it is more than one SELECT … FROM … WHERE")
    condition, tree = (node.condition, node.child) if isinstance(node, Filter) else ((), node)
    if any(isinstance(n, Join) and (n.using or n.natural) for n in tree.walk()):
        raise NotTaken("USING and NATURAL merge columns of two relations; write ON")
    ctx.define({n.key: n for n in query.walk() if isinstance(n, Cte)})
    changes = _changes(tree, ctx)
    sources = ctx.names.sources(tree)
    if changes:
        own = {ctx.names.fold(c.source): c.column for c in changes}
        hidden = [own.get(ctx.names.fold(s.names[0])) for s in sources]
        path = [_spelt(node, sources, hidden, ctx) for node in path]
    columns = _Columns(sources, {c.source: c.column for c in changes}, ctx)
    for above in path:
        columns.look(above)
    items = tuple(Scalar(f"{source}.{quote(name)} AS c{n}") for n, (source, name) in enumerate(columns.kept))
    if changes and not any(isinstance(n, Join) for n in tree.walk()):
        items = (*items, _change_of(changes[0], condition, columns))
    hint = next(n.hint for n in path if isinstance(n, Project))
    joined: Logical = Project(where(tree, condition), items or (Scalar("1 AS c0"),), hint=hint)
    for clause in (*condition, *(c for n in tree.walk() if isinstance(n, Join) for c in n.condition)):
        odd = repeated_otherwise(clause.tree)
        if word := of_the_query(clause.text) or (odd and sql(odd)):
            raise NotTaken(f"{word} decides which rows are joined, and may be another value at each look")
        if changes and clause.plans:
            raise NotTaken(f"{clause.shown} holds a subquery, which may be another when a row goes than when it came")
    spelt: list[Any] = [_spelt(node, sources, [None] * len(sources), ctx) for node in path]
    stored = StoredRows(columns.stored, sources, ctx.names, spelt)
    rows: Any = Opaque(Scalar(stored.relation(JOINED)))
    for above in reversed(spelt):
        rows = replace(stored.clause(above), child=rows)
    whole: Any = where(tree, condition)
    for above in reversed(path):
        whole = replace(above, child=whole)
    text, said = (to_sql(replace(with_, child=q) if with_ else q) for q in (joined, whole))
    change = changes[0].change if changes else ""
    counted = f", {count_of(change)} AS {COUNT}" if change else ""
    return KeptQuery(text, to_sql(rows), said, tuple(path), sources, columns.relations(counted), change)


def _spelt(node: Logical, sources: Sequence[Source], hidden: Sequence[str | None], ctx: Context) -> Logical:
    """A select list without the columns that say how rows change."""
    if not isinstance(node, Project):
        return node
    return replace(node, items=spelt_out(node.items, sources, hidden, ctx.names))


@dataclass(frozen=True)
class _Change:
    """A relation of FROM, by name, that is a changelog: its ``change`` column, and as what it shows that, if at all."""

    source: str
    table: str
    change: str
    column: str | None


def _changes(tree: Logical, ctx: Context) -> list[_Change]:
    """The relations that are changelogs.  Raises ``Unresolved``, ``Unsupported``."""
    found = []
    for relation in _relations(tree):
        scans = [n for n in relation.walk() if isinstance(n, Scan) and not n.cte]
        if any(ctx.catalog.declaration(scan.name).changelog for scan in scans) or ctx.definitions:
            read = reading(relation, ctx)
            base = read.base
            said = ctx.catalog.declaration(base.name).changelog if isinstance(base, Scan) else None
            if said and isinstance(base, Scan):
                column = hidden_in(read, said.change, ctx.names)
                found.append(_Change(alias_of(relation), ".".join(base.name), said.change, column))
    return found


def _relations(tree: Logical) -> Iterator[Logical]:
    if isinstance(tree, Join):
        yield from _relations(tree.left)
        yield from _relations(tree.right)
    elif isinstance(tree, Nested) and tree.alias is None:
        yield from _relations(tree.child)
    else:
        yield tree


def _change_of(only: _Change, condition: tuple[Scalar, ...], columns: _Columns) -> Scalar:
    """How the rows of a query over one changelog change, as an item of it."""
    if only.column is None:
        raise NotTaken(f"its subquery leaves out {only.change}, which says how rows of {only.table} change")
    for conjunct in condition:
        columns.check(conjunct.tree)
    return Scalar(f"{known(only.column, only.table)} AS {quote(only.change)}")


class _Columns:
    """The columns of the relations of FROM that clauses name, as ``(relation, column)``, quoted."""

    def __init__(self, sources: tuple[Source, ...], hidden: Mapping[str, str | None], ctx: Context):
        self.sources, self.names = sources, ctx.names
        self.hidden = {(self.names.fold(source), column) for source, column in hidden.items()}
        self.needed: set[tuple[Source, str]] = set()
        aliases = [self.names.fold(s.names[0]) for s in sources if s.names]
        if len(aliases) < len(sources) or len(set(aliases)) < len(aliases):
            raise NotTaken("its relations need names of their own")
        if unknown := next((s for s in sources if s.columns is None), None):
            raise NotTaken(f"the columns of {unknown.names[0]} are not known")
        self.aliases = set(aliases)

    @property
    def kept(self) -> list[tuple[str, str]]:
        """The columns that are needed, as ``(relation, column)``, in the order in which the relations have them."""
        pairs = ((source, column.name) for source in self.sources for column in source.columns or ())
        return [(quote(source.names[0]), name) for source, name in pairs if (source, name) in self.needed]

    @property
    def stored(self) -> list[tuple[int, str]]:
        """These columns, each with the number of its relation."""
        pairs = ((n, source, column.name) for n, source in enumerate(self.sources) for column in source.columns or ())
        return [(n, name) for n, source, name in pairs if (source, name) in self.needed]

    def look(self, node: Logical) -> None:
        """Add what a clause names; all columns where it cannot be read."""
        if node.subplans:
            raise NotTaken(f"{node.label} holds a subquery above the join")
        try:
            for tree in _trees(node):
                self._of(tree)
        except Unsupported:
            every = ((source, column.name) for source in self.sources for column in source.columns or ())
            self.needed |= {(source, name) for source, name in every if not self._hides(source, name)}

    def check(self, tree: Any) -> None:
        """Raise ``NotTaken`` where an expression names a column that says how rows change."""
        for column in columns_in(tree):
            try:
                index, found = self.names.resolve(column_ref(column), self.sources)
            except Unresolved:
                continue
            if self._hides(self.sources[index], found.name):
                raise NotTaken(f"{found.name} says how rows change, and belongs to no row of the result")

    def _hides(self, source: Source, column: str) -> bool:
        return (self.names.fold(source.names[0]), column) in self.hidden

    def _of(self, tree: Any) -> None:
        if any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star)):
            raise Unsupported("all columns")
        self.check(tree)
        for column in columns_in(tree):
            try:
                index, found = self.names.resolve(column_ref(column), self.sources)
            except Unresolved:
                continue  # the name of an item, or nothing: Spark will say
            self.needed.add((self.sources[index], found.name))

    def relations(self, more: str = "") -> str:
        """The rows of the join: each relation of FROM as a struct, and columns by their own names where that is clear.

        So aggregates of a group stand as they were written.  ``more`` items may follow.
        """
        times = Counter(self.names.fold(name) for _, name in self.kept)
        structs: dict[str, list[str]] = {}
        items = []
        for n, (source, name) in enumerate(self.kept):
            literal = name.replace("\\", "\\\\").replace("'", "\\'")
            structs.setdefault(source, []).append(f"'{literal}', c{n}")
            if times[self.names.fold(name)] == 1 and self.names.fold(name) not in self.aliases:
                items.append(f"c{n} AS {quote(name)}")
        items += [f"named_struct({', '.join(fields)}) AS {source}" for source, fields in structs.items()]
        return f"(SELECT {', '.join(items) or '1'}{more} FROM {JOINED})"


def _trees(node: Logical) -> Iterator[Any]:
    """The expressions of a clause.  Raises ``Unsupported``."""
    match node:
        case Project():
            yield from (item.tree for item in node.items)
        case Aggregate():
            t = tokenize(node.groups.text)
            if node.groups.text.strip().upper() != "ALL":
                yield from (parse(t.slice(low, high)) for low, high in t.split(0, len(t)))
        case Filter():
            yield from (conjunct.tree for conjunct in node.condition)
        case Sort():
            yield from (key.tree for key, _ in sort_keys(node.clause)[1])
        case Windows():
            raise Unsupported("named windows")
