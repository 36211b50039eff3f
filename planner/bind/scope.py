"""Binds expressions to the relations of FROM: the columns that they name, their type, and their canonical form.

Names are bound as Spark does it: the relations of a subquery first, then those around it; the case of letters by
``spark.sql.caseSensitive``; a name with dots is a column with its relation before it, or a field of a struct.
(DuckDB calls this a binder and its result column bindings; RisingWave calls a bound column InputRef.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from sqlglot import exp

from dovetail.planner.bind.names import Resolver, Source
from dovetail.planner.errors import NoSuchColumn, Refused, UnknownName
from dovetail.planner.expr import ColumnRef, Scalar, canonical, column_ref, columns_in, quote, sql
from dovetail.planner.expr.substitution import replace_columns, substitute_columns
from dovetail.planner.tree import Node
from dovetail.planner.types.schema import Column, SqlType


@dataclass(frozen=True)
class BoundColumn:
    """A column of relation number ``relation``; ``level`` counts scopes, from the innermost out; ``ref`` is as written.

    ``name`` is that of the column in the form in which names are compared.  ``column.field``: the name as written means
    a field of the column, whose type it then has.  Two names of one column are equal.
    """

    level: int
    relation: int
    column: Column
    ref: ColumnRef = field(compare=False)
    name: str = field(compare=False)

    @property
    def owner(self) -> tuple[int, int]:
        """The relation of the column: the level of its scope, and its number there."""
        return self.level, self.relation

    def check_no_field(self) -> BoundColumn:
        """Itself.  Raises ``Refused`` where the name means a field of the column."""
        if self.column.field:
            raise Refused(f"{self.ref.text} is a field of a column")
        return self


@dataclass(frozen=True)
class Scope:
    """The relations whose columns an expression can name; ``outer`` are those around the subquery that holds it.

    ``items`` has for each of them the number of its FROM item: a join in parentheses is one item of several relations.
    """

    names: Resolver
    sources: tuple[Source, ...]
    items: tuple[int, ...]
    outer: Scope | None = None

    @classmethod
    def of(cls, names: Resolver, *items: Node, outer: Scope | None = None) -> Scope:
        """The scope of a condition over these FROM items."""
        found = [(source, number) for number, item in enumerate(items) for source in names.sources(item)]
        return cls(names, tuple(source for source, _ in found), tuple(number for _, number in found), outer)

    def only(self, items: Collection[int]) -> Scope:
        """The scope that has the columns of some of its FROM items."""
        pairs = zip(self.sources, self.items, strict=True)
        return replace(self, sources=tuple(source if item in items else Source((), ()) for source, item in pairs))

    def column(self, column: ColumnRef | exp.Expr) -> BoundColumn:
        """The column that a name means.  Raises ``UnknownName``."""
        ref = column if isinstance(column, ColumnRef) else column_ref(column)  # type: ignore[arg-type]
        try:
            relation, found = self.names.resolve(ref, self.sources)
            return BoundColumn(0, relation, found, ref, self.names.fold(found.name))
        except NoSuchColumn:
            if self.outer is None:
                raise
        outer = self.outer.column(ref)
        return replace(outer, level=outer.level + 1)

    def find(self, column: ColumnRef | exp.Expr) -> BoundColumn | None:
        """Return the column that a name refers to; None if unknown, as for the alias of an item."""
        try:
            return self.column(column)
        except UnknownName:
            return None

    def type_of(self, tree: exp.Expr) -> SqlType | None:
        """The type of an expression, as far as it is known without Spark.  Raises ``Refused``."""
        return self.names.type_of(tree, self.sources)

    def source(self, column: BoundColumn) -> Source:
        """The relation of a column."""
        return self.at(column.level).sources[column.relation]

    def item(self, column: BoundColumn) -> int:
        """The number of the FROM item of a column, in the scope of its level."""
        return self.at(column.level).items[column.relation]

    def at(self, level: int) -> Scope:
        """The scope of a level: itself, or one around it."""
        if not level:
            return self
        assert self.outer is not None
        return self.outer.at(level - 1)

    def bind(self, expression: Scalar | exp.Expr) -> BoundExpr:
        """An expression, or a part of one, with what its names mean."""
        return BoundExpr(self, expression)


@dataclass(frozen=True, eq=False)
class BoundExpr:
    """An expression over the relations of a scope.  What needs the meaning of a name raises ``UnknownName``."""

    scope: Scope
    expression: Scalar | exp.Expr

    @property
    def tree(self) -> exp.Expression:
        """The parsed expression.  Raises ``Unsupported``."""
        if isinstance(self.expression, Scalar):
            return self.expression.tree
        return self.expression  # type: ignore[return-value]

    @property
    def _scalar(self) -> Scalar:
        return self.expression if isinstance(self.expression, Scalar) else Scalar(sql(self.expression))

    @cached_property
    def columns(self) -> tuple[BoundColumn, ...]:
        """The columns that it names outside subqueries, in order."""
        return tuple(map(self.scope.column, columns_in(self.tree)))

    @property
    def known_columns(self) -> tuple[BoundColumn, ...]:
        """The columns among its names; any other may be the name of an item, or an error that Spark reports."""
        return tuple(column for tree in columns_in(self.tree) if (column := self.scope.find(tree)))

    @property
    def relations(self) -> frozenset[int]:
        """The numbers of the relations that it names, of any scope."""
        return frozenset(column.relation for column in self.columns)

    @property
    def items(self) -> frozenset[int]:
        """The numbers of the FROM items that it names, of any scope."""
        return frozenset(map(self.scope.item, self.columns))

    @property
    def side(self) -> Literal["left", "right", "both"] | None:
        """The side of a join that it names, in a scope whose items are both sides; None for neither."""
        found = self.items
        return "both" if len(found) > 1 else ("right" if 1 in found else "left") if found else None

    @property
    def levels(self) -> frozenset[int]:
        """The scopes whose columns it names: 0 is the innermost."""
        return frozenset(column.level for column in self.columns)

    @property
    def type(self) -> SqlType | None:
        """Its type, as far as it is known without Spark."""
        return self.scope.type_of(self.tree)

    @property
    def canonical(self) -> str:
        """One text for every spelling of the same expression: by case, quotes, qualifiers and Spark's synonyms."""
        return canonical(self.replace(self._canonical_column))

    def _canonical_column(self, column: BoundColumn) -> exp.Expression:
        path = "^" * column.level + str(column.relation)
        found: exp.Expression = exp.column(column.name, path, quoted=True)
        for name in self.scope.names.folded(column.column.field):
            found = exp.Dot(this=found, expression=exp.to_identifier(name, quoted=True))
        return found

    def replace(self, columns: Callable[[BoundColumn], exp.Expression]) -> exp.Expression:
        """A copy of its tree with expressions in the place of its columns.  Raises ``Unsupported``."""
        return replace_columns(self.tree, lambda tree: columns(self.scope.column(tree)))

    def substitute(self, columns: Callable[[BoundColumn], str | None]) -> Scalar:
        """The expression with SQL in the place of its columns, and without comments; None keeps a column.

        Raises ``Unsupported`` if a column cannot be found in the text.
        """
        return substitute_columns(self._scalar.without_comments, lambda tree: columns(self.scope.column(tree)))

    def rebind(self, after: Scope, target: Callable[[BoundColumn], tuple[tuple[int, int], str]]) -> Scalar:
        """The expression as it must be written over another scope, so that every column keeps its meaning.

        A column of a subquery belongs to its own relations first.  In ON, those around it stand beside them, so that a
        name may come to mean two columns, and has to be qualified.
        ``target`` returns the ``owner`` in ``after`` and the column there.  Raises ``Refused`` if there is no such way.
        """

        def rewrite(tree: exp.Expression) -> str | None:
            origin, names = self.scope.column(tree), self.scope.names
            owner, name = target(origin)

            def means(ref: ColumnRef) -> bool:
                found = after.find(ref)
                if found is None or found.owner != owner or not names.is_same(found.name, name):
                    return False
                return names.folded(found.column.field) == names.folded(origin.column.field)

            if means(origin.ref):
                return None
            parts = (*after.at(owner[0]).sources[owner[1]].names[-1:], name, *origin.column.field)
            new = ColumnRef(parts, ".".join(map(quote, parts)))
            if not means(new):
                raise Refused(f"{origin.ref.text} would be ambiguous in a join")
            return new.text

        return substitute_columns(self._scalar, rewrite)
