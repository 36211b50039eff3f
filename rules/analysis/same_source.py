"""Whether two relations read the same rows: the one place that decides what a self-join is.

A relation is read down to its *base*, a table of one version or a query that cannot be looked through, under filters
and renames.  Two relations are the same source when their bases are the same and return the same rows whenever they are
read; what differs is which rows each keeps and under which names it shows them.  Kafka Streams' KIP-862 asks for the
very same object on both sides; here subqueries, CTEs and aliases are looked through (Flink FLIP-516 and PostgreSQL's
self-join elimination compare base relations alike).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.errors import Unsupported
from planner.expr import ColumnRef, Scalar, canonical, column_ref, quote, sql
from planner.expr.rewording import put
from planner.expr.tokens import exact_words
from planner.logical import Derived, Logical, Nested, Project, Scan
from planner.sql.names import Source, Unresolved
from planner.sql.to_sql import to_sql
from planner.tree import Node, transform_up
from rules.context import Context
from rules.query.moving import block_of, check_deterministic

# Of several rows, or making several: what is above a filter is not what is below it.
_NOT_OF_A_ROW = (exp.AggFunc, exp.Window, exp.UDTF, exp.Explode, exp.Posexplode, exp.Inline, exp.Stack)
_OTHER_ROWS = frozenset(("TABLESAMPLE",))


@dataclass(frozen=True)
class Shown:
    """A column that a relation shows: its name, and its value, an expression over the base's columns.

    ``value`` is in canonical spelling: the base's columns bare, quoted and folded.
    """

    name: str
    value: str


@dataclass(frozen=True)
class SourceRows:
    """What a relation reads: ``base``, named by ``key``; the rows that pass ``filters``; the columns it shows.

    Two readings of one key are of the same rows.  ``filters`` are in the spelling of ``Shown.value``, each once, in the
    order in which they are written: one may keep the next from raising an error.
    """

    key: tuple[str, ...]
    base: Logical
    columns: tuple[Shown, ...]
    filters: tuple[str, ...] = ()

    def value(self, name: str, fold: Callable[[str], str]) -> str:
        """What the column of this name is in terms of the base.  Raises ``Unresolved``."""
        found = [c.value for c in self.columns if fold(c.name) == fold(name)]
        if len(found) != 1:
            raise Unresolved(f"{name} is not one column of {' '.join(self.key)}")
        return found[0]

    def filters_beyond(self, other: SourceRows) -> tuple[str, ...]:
        """The filters that another reading does not have, in order."""
        return tuple(f for f in self.filters if f not in other.filters)

    def named(self, value: str) -> str | None:
        """The name under which a value of the base is shown; None where it is not."""
        return next((c.name for c in self.columns if c.value == value), None)


def reading(relation: Logical, ctx: Context) -> SourceRows:
    """Read a relation of FROM down to its base.  Raises ``Unresolved``, ``Unsupported`` with the reason why not."""
    match relation:
        case Nested() if relation.alias is None:
            return reading(relation.child, ctx)
        case Scan():
            return _shown_as(_scan(relation, ctx), relation.renames)
        case Derived() if not relation.lateral:
            return _shown_as(_query(relation.query, relation, ctx), relation.renames)
    raise Unresolved(f"{relation.label} is not a table or a subquery")


def same_source(left: Logical, right: Logical, ctx: Context) -> tuple[SourceRows, SourceRows] | None:
    """Read two relations; None where they are of different sources.

    Raises ``Unresolved``, ``Unsupported`` where they would be one source, were their rows the same at every reading.
    """
    try:
        found = reading(left, ctx), reading(right, ctx)
    except (Unresolved, Unsupported):
        return None
    if found[0].key != found[1].key:
        return None
    if reason := ctx.unrepeatable(left, right):
        what = found[0].key[1] if found[0].key[0] == "table" else "a subquery"
        raise Unresolved(f"{what} is read twice, and {reason}")
    return found


def bound(tree: exp.Expression, say: Callable[[ColumnRef], exp.Expression]) -> exp.Expression:
    """A copy of an expression with every column outside subqueries replaced by what ``say`` makes of it.

    Raises ``Unsupported`` where a variable of a lambda would catch that.
    """
    return put(tree, lambda column: say(column_ref(column)))


def over_base(
    scalar: Scalar, readings: tuple[SourceRows | None, ...], sources: tuple[Source, ...], ctx: Context
) -> str:
    """An expression over relations in the spelling of the base; with several, a column's relation stands before it.

    ``readings``: one for each of ``sources``; None for a relation that is not looked into.  Raises ``Unresolved``.
    """

    def say(ref: ColumnRef) -> exp.Expression:
        index, column = ctx.names.resolve(ref, sources)
        if column.field:
            raise Unresolved(f"{ref.text} is a field of a column")
        read = readings[index]
        folded = ctx.names.fold(column.name)
        inner = exp.column(folded, quoted=True) if read is None else _parsed(read.value(column.name, ctx.names.fold))
        if len(sources) == 1:
            return inner
        return bound(inner, lambda base: exp.column(base.parts[-1], str(index), quoted=True))

    return canonical(bound(scalar.tree, say))


def _scan(scan: Scan, ctx: Context) -> SourceRows:
    if scan.cte:
        definition = ctx.definitions.get(scan.cte)
        if definition is None:
            raise Unresolved(f"{scan.text} is defined elsewhere")
        found = _query(definition.query, Scan(scan.name, scan.text, None, cte=scan.cte), ctx, f"WITH {scan.cte}")
        return _shown_as(found, definition.renames)
    extra = _extra(scan)
    if _OTHER_ROWS & set(extra):
        raise Unresolved(f"a sample of {scan.text} has other rows each time")
    columns = ctx.names.sources(Scan(scan.name, scan.text, None))[0].columns
    if columns is None:
        raise Unresolved(f"the columns of {scan.text} are not known")
    key = ("table", _table(scan, ctx), *extra)
    return SourceRows(key, Scan(scan.name, scan.text, None), tuple(_itself(c.name, ctx) for c in columns))


def _table(scan: Scan, ctx: Context) -> str:
    """One text for all ways to write the name of a table."""
    return ".".join(map(quote, ctx.catalog.table_key(scan.name)))


def _extra(scan: Scan) -> tuple[str, ...]:
    """The words behind a table's name that are not its alias: a version, options."""
    if scan.plain:
        return ()
    found = list(exact_words(scan.suffix))
    if scan.alias and found and found[-1].upper() == scan.alias.upper():
        del found[-1]
    if found and found[-1].upper() == "AS":
        del found[-1]
    return tuple(found)


def _query(query: Logical, whole: Logical, ctx: Context, key: str = "") -> SourceRows:
    """A query as what it reads, where it only filters and renames; else itself, as a base."""
    try:
        return _looked_through(query, ctx)
    except (Unresolved, Unsupported):
        columns = ctx.names.columns(query)
        if columns is None or not all(c.name for c in columns):
            raise Unresolved("the columns of a subquery are not known") from None
        spelt = _in_one_spelling(query, ctx)
        text = to_sql(spelt)
        said = key or (text if ctx.catalog.settings.case_sensitive else " ".join(exact_words(text)))
        tables = (_table(n, ctx) for n in spelt.walk() if isinstance(n, Scan) and not n.cte)
        return SourceRows(("query", " ".join((said, *tables))), whole, tuple(_itself(c.name, ctx) for c in columns))


def _in_one_spelling(query: Logical, ctx: Context) -> Logical:
    """A query in which each table stands under its own name, whether that is written twice or comes from WITH."""

    def plain(node: Node) -> Node:
        if not isinstance(node, Scan) or not node.plain or node.renames:
            return node
        held = ctx.definitions.get(node.cte)
        inner = held.query if held and not held.renames else None
        if isinstance(inner, Project) and inner.items == (Scalar("*"),) and not (inner.quantifier or inner.hint):
            table = plain(inner.child)
            if isinstance(table, Scan) and not table.cte and table.plain and table.alias == node.alias:
                return table
        return replace(node, suffix="") if node.suffix and node.alias == node.name[-1] else node

    return transform_up(query, plain)  # type: ignore[return-value]


def _looked_through(query: Logical, ctx: Context) -> SourceRows:
    block = block_of(query)
    if block is None or block.more or block.project.quantifier or block.project.hint:
        raise Unresolved("more than SELECT … FROM … WHERE")
    inner, sources = reading(block.tree, ctx), ctx.names.sources(block.tree)
    columns: list[Shown] = []
    for item in block.project.items:
        columns += _items(item, block.project, inner, sources, ctx)
    filters = dict.fromkeys(inner.filters)
    for conjunct in block.condition:
        check_deterministic(conjunct)
        filters[over_base(conjunct, (inner,), sources, ctx)] = None
    return SourceRows(inner.key, inner.base, tuple(columns), tuple(filters))


def _items(
    item: Scalar, project: Project, inner: SourceRows, sources: tuple[Source, ...], ctx: Context
) -> tuple[Shown, ...]:
    """The columns that one item of a select list shows."""
    tree = item.tree
    if isinstance(tree, exp.Star) or (isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star)):
        if item.text.rsplit(".", 1)[-1].strip() != "*":
            raise Unresolved(f"{item.shown} is not all columns")
        return inner.columns
    check_deterministic(item)
    if found := tree.find(*_NOT_OF_A_ROW):
        raise Unresolved(f"{sql(found)} is not computed row by row")
    name = tree.alias_or_name if isinstance(tree, exp.Alias | exp.Column) else ""
    if not name:
        raise Unresolved(f"{item.shown} has no name")
    value = Scalar(sql(tree.unalias()), (), item.place)
    return (Shown(name, over_base(value, (inner,), sources, ctx)),)


def _shown_as(found: SourceRows, renames: tuple[str, ...]) -> SourceRows:
    if not renames:
        return found
    if len(renames) != len(found.columns):
        raise Unresolved("its columns are renamed, and their number is another one")
    columns = tuple(Shown(name, c.value) for name, c in zip(renames, found.columns, strict=True))
    return SourceRows(found.key, found.base, columns, found.filters)


def _itself(name: str, ctx: Context) -> Shown:
    return Shown(name, sql(exp.column(ctx.names.fold(name), quoted=True)))


def _parsed(value: str) -> exp.Expression:
    return Scalar(value).tree
