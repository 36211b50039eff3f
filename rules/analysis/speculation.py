"""Speculation: evaluating an expression on rows on which the original query never evaluates it.

    SELECT * FROM t WHERE v <> 0 AND 10 / v > 3        never divides by v = 0: the first filter guards the second
    SELECT id, 10 / v AS share FROM t                  a view; a query that reads rows with v <> 0 never divides by 0

Under ANSI ``10 / v``, ``CAST(s AS INT)`` and ``a + b`` can raise an error.  A rewriting that evaluates one of them on
one more row than Spark could fail a query that Spark runs.  Rules may evaluate an expression

- on any row, if it never raises: columns, literals, comparisons within one type, ``try_`` forms (``may_raise``).  A
  column may raise as well if a subquery or view computes it: Spark computes it where it is used (``raising_columns``);
- on the rows of a relation that the original query evaluates it on, too.  Spark evaluates filters in order, WHERE
  before ON, and stops at the first that is not true (``Rows``).  It may put ``IS NOT NULL`` of any column that a
  filter or a join compares before them, or prune partitions by any of them, so that even the first of several is not
  evaluated on every row.  Only a lone filter is, and what the query computes of rows without a filter.

A rewriting whose filters are all those of one reader, in order, evaluates them on the same rows as that reader.
In a select list, ``AND`` guards nothing: Spark evaluates a common subexpression of it first.  A rule describes what
the original query evaluates as ``Rows``; this module decides what may be evaluated on the rows of the rewriting.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from sqlglot import exp

from planner.errors import Unsupported
from planner.expr import Scalar, is_star, sql
from planner.expr.tokens import mentioned
from planner.logical import Derived, Logical, Project, Relation, Scan, SetOp
from planner.rendered import PREFIX
from planner.sql.names import Resolver
from planner.tree import Node, unwrap
from planner.types.schema import SqlType
from planner.types.try_expressions import Original, TypeOf, UnsafeSpeculation, can_raise
from rules.context import Context
from rules.query.catalog_views import query_of_view

_AROUND = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)  # what stands around an aggregate
OF_MANY = (exp.AggFunc, exp.AnonymousAggFunc, exp.Window, *_AROUND)  # these read all rows, in any case
_BESIDE_A_LITERAL = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.Add, exp.Sub, exp.Mul)

EVERY = "*"  # stands for all columns, where it is not known which


def raising_columns(relation: Node, ctx: Context, *, of_aggregates: bool = False) -> dict[str, Scalar]:
    """The columns of a relation that queries below it compute and that might raise an error on some row.

    By folded name, with the item that might raise; ``EVERY`` where names do not tell the columns.  ``of_aggregates``:
    also what is computed from aggregates or windows, which themselves read all rows in any case.
    """
    return _Computed(ctx, ctx.names, frozenset(), of_aggregates).columns(relation)


def name_of(item: Scalar) -> str:
    """The name that an item of a select list has by itself; empty for one that Spark names after its text."""
    return item.tree.alias_or_name if isinstance(item.tree, exp.Alias | exp.Column) else ""


def may_raise(expression: Scalar | exp.Expr, known: TypeOf, ctx: Context) -> bool:
    """Whether an expression could raise an error on some row, or that is unknown; ``known``: the types of columns."""
    return can_raise(expression, known, ansi=ctx.catalog.settings.ansi)


def check_speculation(expressions: Iterable[Scalar], known: TypeOf, ctx: Context, original: Original = "join") -> None:
    """Raise ``UnsafeSpeculation`` for an expression that can raise an error; ``known`` returns the types of columns."""
    for scalar in expressions:
        if may_raise(scalar, known, ctx):
            raise UnsafeSpeculation(scalar.shown, scalar.place, original)


@dataclass(frozen=True)
class Rows:
    """What one part of the original query evaluates on rows, as SQL over the relations of the rewriting.

    ``filters``: conditions, in the order in which Spark evaluates them: each guards the next.  ``computed``:
    expressions over each row that passes them.  ``same_join``: the part joins these relations as the rewriting does;
    in another join, Spark may leave out other rows before it evaluates a filter.
    """

    filters: tuple[str, ...] = ()
    computed: tuple[str, ...] = ()
    same_join: bool = True

    def are_filtered_by(self, filters: tuple[str, ...]) -> bool:
        """Whether Spark evaluates these filters on the same rows as a rewriting that evaluates them first."""
        return self.same_join and self.filters == filters

    def always_evaluated(self, filters: tuple[str, ...]) -> Iterator[str]:
        """Yield the expressions that Spark evaluates on every row on which a rewriting evaluates these filters."""
        if len(self.filters) == 1 or self.are_filtered_by(filters):
            yield from self.filters
        if set(self.filters) <= set(filters):
            yield from self.computed


def check_filters(filters: tuple[Scalar, ...], before: Iterable[Rows], known: TypeOf, ctx: Context) -> None:
    """Raise ``UnsafeSpeculation`` for a filter that can raise, unless one part evaluates the same filters in order."""
    if not any(rows.are_filtered_by(tuple(c.text for c in filters)) for rows in before):
        check_speculation(filters, known, ctx, "query")


def check_columns(
    relation: Node,
    used: Container[str],
    before: Iterable[Rows],
    ctx: Context,
    original: Original = "join",
    filters: tuple[str, ...] = (),
    *,
    of_aggregates: bool = False,
) -> None:
    """Raise ``UnsafeSpeculation`` for a column of a relation that can raise, is used, and is not always evaluated.

    ``used`` are folded names; ``EVERY`` among them stands for all.  ``before``: what the original query evaluates.
    ``filters``: what the rewriting evaluates first.  A column in them is safe only if one part has the same filters.
    ``of_aggregates``: as for ``raising_columns``.
    """
    raising = raising_columns(relation, ctx, of_aggregates=of_aggregates)
    if not raising:
        return
    fold, before = ctx.names.fold, tuple(before)
    names = {"", *(fold(source.names[-1]) for source in ctx.names.sources(relation) if source.names)}
    found = (_computed_first(Scalar(text).tree) for rows in before for text in rows.always_evaluated(filters))
    safe = {fold(column.name) for column in found if column is not None and fold(column.table) in names}
    if not any(rows.are_filtered_by(filters) for rows in before):
        safe -= {fold(word) for text in filters for word in mentioned(text)}
    for name, item in raising.items():
        if name not in safe and (name == EVERY or EVERY in used or name in used):
            raise UnsafeSpeculation(item.shown, original=original)


def _computed_first(tree: exp.Expr) -> exp.Column | None:
    """Return the column that an expression always evaluates: it stands alone, or is compared with literals.

    Spark stops at the first NULL and at a condition that decides, and folds what it knows: of ``v <> 0 AND e > 3``,
    ``e = NULL``, ``e IS NULL`` over a column without NULL it computes no ``e``.
    """
    match tree:
        case exp.Column():
            return tree
        case exp.Alias() | exp.Paren() | exp.Neg() | exp.Sum() | exp.Avg() | exp.Min() | exp.Max():
            return _computed_first(tree.this)
        case exp.Between() if _is_literal(tree.args["low"]) and _is_literal(tree.args["high"]):
            return _computed_first(tree.this)
    if not isinstance(tree, _BESIDE_A_LITERAL):
        return None
    rest = [side for side in (tree.this, tree.expression) if not _is_literal(side)]
    return _computed_first(rest[0]) if len(rest) == 1 else None


def _is_literal(tree: exp.Expr) -> bool:
    return isinstance(tree.this if isinstance(tree, exp.Neg) else tree, exp.Literal)


@dataclass(frozen=True)
class _Computed:
    """Reads a query whose names ``names`` resolves; ``views`` are the views that contain it."""

    ctx: Context
    names: Resolver
    views: frozenset[tuple[str, ...]]
    of_aggregates: bool
    found: dict[int, dict[str, Scalar]] = field(default_factory=dict)  # by the id of the node

    def columns(self, node: Node) -> dict[str, Scalar]:
        if id(node) not in self.found:
            self.found[id(node)] = self._read(node)
        return self.found[id(node)]

    def _read(self, node: Node) -> dict[str, Scalar]:
        match node:
            case Project():
                return self._of_items(node)
            case Scan():
                found = self._defined(node)
            case SetOp():
                left, right, names = self.columns(node.left), self.columns(node.right), self._names(node.left)
                right = right if "NAME" in node.keyword.upper() else self._renamed(right, node.right, names)
                found = {**right, **left}
            case _:
                found = {n: item for child in node.children for n, item in self.columns(child).items()}
        if isinstance(node, Relation) and node.renames:
            return self._renamed(found, node.query if isinstance(node, Derived) else None, node.renames)
        return found

    def _names(self, query: Node) -> tuple[str, ...] | None:
        """The names of the columns of a query; None if they are not known."""
        columns = self.names.columns(query) if isinstance(query, Logical) else None
        return None if columns is None else tuple(column.name for column in columns)

    def _renamed(
        self, found: dict[str, Scalar], query: Node | None, names: tuple[str, ...] | None
    ) -> dict[str, Scalar]:
        """The columns ``found`` of a query under the ``names`` that its columns have outside, in their order."""
        fold, own = self.names.fold, self._names(query) if query and found else None
        if not found or own is None or names is None or len(own) != len(names):
            return _unnamed(found)
        plain = unwrap(query) if query else None
        if isinstance(plain, Project) and not any(is_star(item.tree) for item in plain.items):
            return self._of_items(plain, names) if len(plain.items) == len(names) else _unnamed(found)
        if EVERY in found:
            return _unnamed(found)
        return {fold(new): found[fold(old)] for old, new in zip(own, names, strict=True) if fold(old) in found}

    def _of_items(self, query: Project, names: tuple[str, ...] = ()) -> dict[str, Scalar]:
        """The same of a select list, in which an item may name an earlier one that no column of FROM hides.

        ``names``: what the items are named outside, in their order.
        """
        below = self.columns(query.child)
        found: dict[str, Scalar] = {}
        for number, item in enumerate(query.items):
            shown = dict(self._shown(item, query, below))
            name = self.names.fold(name_of(item))
            if name in shown and name not in below and not self._may_show(query.child, name):
                below = {**below, name: shown[name]}
            found |= {self.names.fold(names[number]): one for one in shown.values()} if names else shown
        return found

    def _may_show(self, tree: Node, name: str) -> bool:
        """Whether FROM may have a column of a folded name."""
        columns = [source.columns for source in self.names.sources(tree)]
        return any(one is None or name in {self.names.fold(column.name) for column in one} for one in columns)

    def _shown(self, item: Scalar, query: Project, below: dict[str, Scalar]) -> Iterator[tuple[str, Scalar]]:
        """Yield the parts of an item that might raise: its own expression, and the columns that it is computed from."""
        tree = item.tree.unalias()
        if tree.is_star:
            yield from below.items()
            return
        name, known = self.names.fold(name_of(item)), partial(self._type, query=query)
        words = set(map(self.names.fold, mentioned(item.text))) if below else ()
        if inner := next((i for n, i in below.items() if EVERY in (n, *words) or n in words), None):
            yield name, inner
        elif not isinstance(tree, exp.Column) and self._may_raise(tree, known):
            yield name or EVERY, item  # Spark names an item without AS

    def _may_raise(self, tree: exp.Expr, known: TypeOf) -> bool:
        """Whether an item might raise; an aggregate or window in it counts as a column."""
        if not tree.find(*OF_MANY):
            return may_raise(tree, known, self.ctx)
        if not self.of_aggregates:
            return False
        types: dict[str, SqlType | None] = {}

        def column(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, OF_MANY):
                return node
            types[name := f"{PREFIX}_of_many{len(types)}"] = known(node)  # type: ignore[arg-type]
            return exp.column(name)

        plain = tree.copy().transform(column)
        return may_raise(plain, lambda node: types[node.name] if node.name in types else known(node), self.ctx)

    def _type(self, tree: exp.Expr, query: Project) -> SqlType | None:
        """Return the type of an expression over a query's FROM, from its text or else from the catalog."""
        return self.names.type_of(tree, self.names.sources(query.child)) or self.ctx.type_of(sql(tree), query.child)

    def _defined(self, scan: Scan) -> dict[str, Scalar]:
        """The same of a name of WITH or a view; nothing for a table."""
        if scan.cte:
            cte = self.names.definitions.get(scan.cte)
            found = self.columns(cte.query) if cte else {}
            return self._renamed(found, cte.query, cte.renames) if cte and cte.renames else found
        view = None if scan.name in self.views else self.ctx.catalog.view(scan.name)
        if view is None:
            return {}
        try:
            query, names = query_of_view(view, self.ctx)
        except Unsupported:
            columns = self.ctx.catalog.columns(scan.name) or ()
            return {self.names.fold(c.name): Scalar(f"{scan.text}.{c.name}") for c in columns}
        found = _Computed(self.ctx, names, self.views | {scan.name}, self.of_aggregates).columns(query)
        shown = [c.name for c in self.ctx.catalog.columns(scan.name) or ()]
        return found if shown == [*view.columns] else _unnamed(found)


def _unnamed(found: dict[str, Scalar]) -> dict[str, Scalar]:
    """The same under names that are not looked at."""
    return {EVERY: next(iter(found.values()))} if found else found
