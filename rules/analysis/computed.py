"""What the subqueries and views of a FROM compute for their rows, and whether that might raise an error.

Who reads rows that a query leaves out must not compute for them what Spark would not: ``10 / b AS e`` of a row whose
group nobody asks for.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from sqlglot import exp

from planner.errors import Unsupported
from planner.expr import Scalar, sql
from planner.expr.tokens import tokenize
from planner.logical import Project, Relation, Scan, SetOp
from planner.sql.names import Resolver
from planner.tree import Node
from planner.types.schema import SqlType
from rules.analysis.respelling import never_raises
from rules.context import Context
from rules.query.view_query import view_query

_OF_MANY = (exp.AggFunc, exp.AnonymousAggFunc, exp.Window)  # these read all rows, in any case
_BESIDE_A_LITERAL = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.Add, exp.Sub, exp.Mul)

EVERY = "*"  # stands for all columns, where it is not known which


def raising_columns(relation: Node, ctx: Context) -> dict[str, Scalar]:
    """The columns of a relation that queries below it compute and that might raise an error on some row.

    By folded name, with the item that might raise; ``EVERY`` where names do not tell the columns.
    """
    return _Computed(ctx, ctx.names, frozenset()).columns(relation)


def first_said(raising: dict[str, Scalar], used: Collection[str], safe: Container[str] = ()) -> Scalar | None:
    """The first of these columns that is used and not safe: what it takes to say why a rule holds back."""
    return next((i for n, i in raising.items() if n not in safe and (EVERY in (n, *used) or n in used)), None)


def columns_of(texts: Iterable[str], names: Resolver) -> set[str]:
    """The columns that expressions name, folded, without their relations."""
    return {names.fold(column.parts[-1]) for text in texts for column in Scalar(text).columns}


def surely(texts: Iterable[str], names: Resolver) -> set[str]:
    """The columns without which none of these expressions has a value, whatever the others have; folded.

    Spark stops at the first NULL and at a condition that decides, and folds what it knows: of ``v <> 0 AND e > 3``,
    ``e = NULL``, ``e IS NULL`` over a column without NULL it computes no ``e``.
    """
    found = (_computed_first(Scalar(text).tree) for text in texts)
    return {names.fold(column.name) for column in found if column is not None}


def _computed_first(tree: exp.Expr) -> exp.Column | None:
    """The column that is computed for an expression in any case: alone, or beside literals."""
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
    """Reads a query whose names ``names`` resolves; ``views`` are those that it stands in."""

    ctx: Context
    names: Resolver
    views: frozenset[tuple[str, ...]]

    def columns(self, node: Node) -> dict[str, Scalar]:
        match node:
            case Project():
                below = self.columns(node.child)
                return dict(pair for item in node.items for pair in self._shown(item, node, below))
            case Scan():
                found = self._defined(node)
            case SetOp():
                left, right = self.columns(node.left), self.columns(node.right)
                found = _renamed(left or right)
            case _:
                found = {n: item for child in node.children for n, item in self.columns(child).items()}
        return _renamed(found) if isinstance(node, Relation) and node.renames else found

    def _shown(self, item: Scalar, query: Project, below: dict[str, Scalar]) -> Iterator[tuple[str, Scalar]]:
        """What of an item might raise: its own computing, and that of the columns it is made of."""
        tree = item.tree.unalias()
        if tree.is_star:
            yield from below.items()
            return
        name = self.names.fold(item.tree.alias_or_name)
        words = {self.names.fold(t.text) for t in tokenize(item.text).items} if below else ()
        if inner := first_said(below, words):
            yield name, inner
        elif not isinstance(tree, exp.Column) and not tree.find(*_OF_MANY) and self._may_raise(tree, item, query):
            yield name, item

    def _may_raise(self, tree: exp.Expr, item: Scalar, query: Project) -> bool:
        if item.plans or not isinstance(tree, exp.Expression):
            return True
        known = partial(self._type, query=query)
        return not never_raises(tree, known, ansi=self.ctx.catalog.settings.ansi)

    def _type(self, tree: exp.Expr, query: Project) -> SqlType | None:
        """The type of an expression over what a query reads; the catalog tells it where the text does not."""
        return self.names.type_of(tree, self.names.sources(query.child)) or self.ctx.type_of(sql(tree), query.child)

    def _defined(self, scan: Scan) -> dict[str, Scalar]:
        """The same of a name of WITH or a view; nothing for a table."""
        if scan.cte:
            cte = self.names.definitions.get(scan.cte)
            found = self.columns(cte.query) if cte else {}
            return _renamed(found) if cte and cte.renames else found
        view = None if scan.name in self.views else self.ctx.catalog.view(scan.name)
        if view is None:
            return {}
        try:
            query, names = view_query(view, self.ctx)
        except Unsupported:
            columns = self.ctx.catalog.columns(scan.name) or ()
            return {self.names.fold(c.name): Scalar(f"{scan.text}.{c.name}") for c in columns}
        found = _Computed(self.ctx, names, self.views | {scan.name}).columns(query)
        shown = [c.name for c in self.ctx.catalog.columns(scan.name) or ()]
        return found if shown == [*view.columns] else _renamed(found)


def _renamed(found: dict[str, Scalar]) -> dict[str, Scalar]:
    """The same under names that are not looked at."""
    return {EVERY: next(iter(found.values()))} if found else found
