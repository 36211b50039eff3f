"""Decides whether two relations read the same rows.  All self-join rules use this test.

The lineage of a relation ends in its *base*: one version of a table, or a query that does more than filter and rename.
Two relations have the same source if their bases are equal and return the same rows on every read; their filters and
their output names may differ.  Kafka Streams' KIP-862 requires the same object on both sides; this module looks through
subqueries, CTEs and aliases, as Flink's FLIP-516 and PostgreSQL's self-join elimination compare base relations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from dovetail.planner.bind.names import Source
from dovetail.planner.bind.scope import BoundColumn, BoundExpr, Scope
from dovetail.planner.catalog.settings import NameCase
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, canonical, is_star, output_name, quote, sql
from dovetail.planner.expr.substitution import replace_columns
from dovetail.planner.expr.tokens import exact_words
from dovetail.planner.logical import Derived, Logical, Nested, Project, Scan
from dovetail.planner.rendered import PREFIX
from dovetail.planner.sql.to_sql import to_sql
from dovetail.planner.tree import Node, transform_up
from dovetail.rules.context import Context
from dovetail.rules.query.decorrelation import check_deterministic
from dovetail.rules.query.query_block import read_block

# Computed from several rows, or producing several: its value differs above and below a filter.
NOT_OF_A_ROW = (exp.AggFunc, exp.Window, exp.UDTF, exp.Explode, exp.Posexplode, exp.Inline, exp.Stack)
_OTHER_ROWS = frozenset(("TABLESAMPLE",))


@dataclass(frozen=True)
class ColumnLineage:
    """An output column: its name, and its value as an expression over the columns of the base.

    ``value`` is in canonical form: the columns of the base are unqualified, quoted and folded, as is the name ``key``.
    """

    name: str
    value: str
    key: str


@dataclass(frozen=True)
class RelationLineage:
    """Where the rows of a relation come from: ``base``, identified by ``key``, ``filters``, and the output columns.

    Relations with equal keys read the same rows.  ``filters`` are in the form of ``ColumnLineage.value``, without
    duplicates, in the order of the text: a filter may prevent the next one from raising an error.
    """

    key: tuple[str, ...]
    base: Logical
    columns: tuple[ColumnLineage, ...]
    filters: tuple[str, ...] = ()

    def value(self, column: BoundColumn) -> str:
        """The value of an output column over the base.  Raises ``Refused``."""
        found = [c.value for c in self.columns if c.key == column.name]
        if len(found) != 1:
            raise Refused(f"{column.column.name} is not one column of {' '.join(self.key)}")
        return found[0]

    def filters_beyond(self, other: RelationLineage) -> tuple[str, ...]:
        """The filters that the other relation does not have, in order."""
        return tuple(f for f in self.filters if f not in other.filters)

    def output_name(self, value: str) -> str | None:
        """The name of the output column with a value; None if there is none."""
        return next((c.name for c in self.columns if c.value == value), None)


def reading(relation: Logical, ctx: Context) -> RelationLineage:
    """Trace a relation in FROM to its base.  Raises ``Refused`` or ``Unsupported``."""
    match relation:
        case Nested() if relation.alias is None:
            return reading(relation.child, ctx)
        case Scan():
            return _rename_output(_scan(relation, ctx), relation, relation.renames, ctx)
        case Derived() if not relation.lateral:
            return _rename_output(_query(relation.query, relation, ctx), relation, relation.renames, ctx)
    raise Refused(f"{relation.label} is neither a table nor a subquery")


def same_source(left: Logical, right: Logical, ctx: Context) -> tuple[RelationLineage, RelationLineage] | None:
    """Trace two relations to one base; None if their bases differ.

    Raises ``Refused`` or ``Unsupported`` if the bases are equal but may return other rows on the second read.
    """
    try:
        found = reading(left, ctx), reading(right, ctx)
    except Refused:
        return None
    if found[0].key != found[1].key:
        return None
    if reason := ctx.nonrepeatable_reason(left, right):
        what = found[0].key[1] if found[0].key[0] == "table" else "a subquery"
        raise Refused(f"{what} is read twice, and {reason}")
    return found


def over_base(bound: BoundExpr, readings: tuple[RelationLineage | None, ...]) -> str:
    """Rewrite an expression over columns of the bases and their fields, with relation numbers if there are several.

    ``readings``: one for each relation of the scope; None for one that is a base itself.  Raises ``Refused``.
    """

    def base_value(found: BoundColumn) -> exp.Expression:
        read = readings[found.relation]
        inner = exp.column(found.name, quoted=True) if read is None else Scalar(read.value(found)).tree
        if len(readings) > 1:
            inner = replace_columns(inner, lambda base: exp.column(base.name, str(found.relation), quoted=True))
        for name in found.column.field:
            inner = exp.Dot(this=inner, expression=exp.to_identifier(name, quoted=True))
        return inner

    return canonical(bound.replace(base_value))


def rewrite_over_output(lineage: RelationLineage, path: tuple[str, ...], value: str) -> str:
    """Rewrite a value over base columns as one over the output columns of the relation with the name ``path``.

    Raises ``Refused`` if the relation does not output a column of the value.
    """
    if (name := lineage.output_name(value)) is not None:
        return ".".join(map(quote, (*path, name)))

    def output_column(node: exp.Expression) -> exp.Expression:
        name = lineage.output_name(sql(node))
        if name is None:
            raise Refused(f"{'.'.join(path)} does not return {sql(node)}")
        return exp.Column(
            this=_identifier(name), **dict(zip(("table", "db", "catalog"), map(_identifier, path[::-1]), strict=False))
        )

    return sql(replace_columns(Scalar(value).tree, output_column))


def _identifier(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=quote(name) != name)


def _scan(scan: Scan, ctx: Context) -> RelationLineage:
    if scan.cte:
        definition = ctx.definitions.get(scan.cte)
        if definition is None:
            raise Refused(f"{scan.text} is defined elsewhere")
        whole = Scan(scan.name, scan.text, None, cte=scan.cte)
        found = _query(definition.query, whole, ctx, f"WITH {scan.cte}")
        return _rename_output(found, whole, definition.renames, ctx)
    extra = _extra(scan)
    if _OTHER_ROWS & set(extra):
        raise Refused(f"a sample of {scan.text} has other rows each time")
    columns = ctx.names.sources(Scan(scan.name, scan.text, None))[0].known_columns()
    key = ("table", _table(scan, ctx), *extra)
    return RelationLineage(key, Scan(scan.name, scan.text, None), tuple(_base_column(c.name, ctx) for c in columns))


def _table(scan: Scan, ctx: Context) -> str:
    """One text for all spellings of the name of a table."""
    return ".".join(map(quote, ctx.catalog.table_key(scan.name)))


def _extra(scan: Scan) -> tuple[str, ...]:
    """The tokens after a table's name that are not its alias: a version, options."""
    if scan.plain:
        return ()
    found = list(exact_words(scan.suffix))
    if scan.alias and found and found[-1].upper() == scan.alias.upper():
        del found[-1]
    if found and found[-1].upper() == "AS":
        del found[-1]
    return tuple(found)


def _query(query: Logical, whole: Logical, ctx: Context, key: str = "") -> RelationLineage:
    """Trace a query that only filters and renames to its base; any other query is a base itself."""
    try:
        return _trace_query(query, ctx)
    except Refused:
        source = Source((), ctx.names.columns(query), case=ctx.names)
        source.check_distinct_columns(named=True)
        normalized = _normalize_names(query, ctx)
        text = to_sql(normalized)
        name = key or (text if ctx.catalog.settings.case_sensitive else " ".join(exact_words(text)))
        tables = (_table(n, ctx) for n in normalized.walk() if isinstance(n, Scan) and not n.cte)
        columns = tuple(_base_column(c.name, ctx) for c in source.known_columns())
        return RelationLineage(("query", " ".join((name, *tables))), whole, columns)


def _normalize_names(query: Logical, ctx: Context) -> Logical:
    """Replace references to ``WITH x AS (SELECT * FROM t)`` with ``t``; drop generated names and those of tables."""

    def plain(node: Node) -> Node:
        if isinstance(node, Derived) and (node.alias or "").startswith(PREFIX):
            return replace(node, alias=None, suffix="")
        if not isinstance(node, Scan) or not node.plain or node.renames:
            return node
        definition = ctx.definitions.get(node.cte)
        inner = definition.query if definition and not definition.renames else None
        if isinstance(inner, Project) and inner.items == (Scalar("*"),) and not (inner.quantifier or inner.hint):
            table = plain(inner.child)
            if isinstance(table, Scan) and not table.cte and table.plain and table.alias == node.alias:
                return table
        return replace(node, suffix="") if node.suffix and node.alias == node.name[-1] else node

    return transform_up(query, plain)  # type: ignore[return-value]


def _trace_query(query: Logical, ctx: Context) -> RelationLineage:
    block = read_block(query)
    if block is None or not block.is_plain:
        raise Refused("more than SELECT … FROM … WHERE")
    inner, scope = reading(block.tree, ctx), ctx.scope(block.tree)
    columns: list[ColumnLineage] = []
    for item in block.project.items:
        columns += _items(item, inner, scope)
    filters = dict.fromkeys(inner.filters)
    for conjunct in block.condition:
        check_deterministic(conjunct)
        filters[over_base(scope.bind(conjunct), (inner,))] = None
    return RelationLineage(inner.key, inner.base, tuple(columns), tuple(filters))


def _items(item: Scalar, inner: RelationLineage, scope: Scope) -> tuple[ColumnLineage, ...]:
    """The output columns of one item of a select list."""
    tree = item.tree
    if is_star(tree):
        if item.text.rsplit(".", 1)[-1].strip() != "*":
            raise Refused(f"{item.shown} returns only some of the columns")
        return inner.columns
    check_deterministic(item)
    if found := tree.find(*NOT_OF_A_ROW):
        raise Refused(f"{sql(found)} is not computed row by row")
    name = output_name(item)
    return (_output(name, over_base(scope.bind(tree.unalias()), (inner,)), scope.names),)


def _rename_output(
    found: RelationLineage, relation: Logical, renames: tuple[str, ...], ctx: Context
) -> RelationLineage:
    if not renames:
        return found
    columns = ctx.names.sources(relation)[0].known_columns(len(found.columns))
    renamed = zip(columns, found.columns, strict=True)
    return replace(found, columns=tuple(_output(c.name, own.value, ctx.names) for c, own in renamed))


def _base_column(name: str, ctx: Context) -> ColumnLineage:
    return _output(name, base_value(name, ctx.names), ctx.names)


def _output(name: str, value: str, names: NameCase) -> ColumnLineage:
    return ColumnLineage(name, value, names.fold(name))


def base_value(column: str, names: NameCase) -> str:
    """A column of a base, as lineages write it."""
    return f"`{names.fold(column).replace('`', '``')}`"
