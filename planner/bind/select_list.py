"""The columns of a select list: what a name of one means, and the expression over FROM behind each name."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlglot import exp

from dovetail.planner.bind.names import Resolver
from dovetail.planner.bind.scope import Scope
from dovetail.planner.errors import Refused
from dovetail.planner.expr import (
    ColumnRef,
    Scalar,
    column_ref,
    is_reference,
    is_star,
    name_of_item,
    sql,
    without_parentheses,
)
from dovetail.planner.expr.substitution import substitute_columns, without_alias
from dovetail.planner.logical import Project


def items_named(name: ColumnRef | exp.Expr, items: Iterable[Scalar], names: Resolver) -> list[Scalar]:
    """The items of a select list that have a name as alias, as GROUP BY, HAVING and ORDER BY may mean it."""
    alias, *more = (name if isinstance(name, ColumnRef) else column_ref(name)).parts  # type: ignore[arg-type]
    return [item for item in items if not more and names.is_same(item.tree.alias, alias)]


def over_from(scalar: Scalar, items: Collection[Scalar], scope: Scope) -> Scalar:
    """An expression of HAVING or ORDER BY with items in the place of their names and of a number alone.

    Raises ``Refused`` where a name may also be that of a column.
    """

    def value(name: exp.Expression) -> str | None:
        named = [item for item in items_named(name, items, scope.names) if not item.plans]
        if len(named) != 1:
            return None
        item, column = without_alias(named[0]), scope.find(name)
        if column and not (is_reference(item.tree) and scope.find(item.tree) == column):
            raise Refused(f"{sql(name)} is the name of a column and of an item; rename the item", scalar.place)
        return item.text

    return item_at(scalar, items) or substitute_columns(scalar, value)


def item_at(scalar: Scalar, items: Collection[Scalar]) -> Scalar | None:
    """The item that a key of GROUP BY or ORDER BY means by its number."""
    tree = without_parentheses(scalar.tree)
    if not isinstance(tree, exp.Literal) or not tree.is_int or not 0 < int(tree.name) <= len(items):
        return None
    return without_alias(tuple(items)[int(tree.name) - 1])


class SelectList:
    """The columns of a select list: for each name its expression over FROM, in canonical form."""

    def __init__(self, project: Project, scope: Scope):
        self.scope, self.fold, self.tree = scope, scope.names.fold, project.child
        self.values: dict[str, list[str]] = {}  # by value, the names under which it is shown
        for item in project.items:
            for name, value in self.read(item.tree):
                self.values.setdefault(value, []).append(name)

    def read(self, tree: exp.Expression) -> Iterable[tuple[str, str]]:
        if is_star(tree):
            for index, column in self.scope.names.expand_star(tree, self.scope.sources, self.tree):
                yield self.fold(column.name), self.column(index, column.name)
        elif name := name_of_item(tree):
            yield self.fold(name), self.scope.bind(tree.unalias()).canonical

    def column(self, index: int, name: str) -> str:
        return sql(exp.column(self.fold(name), str(index), quoted=True))

    def all_of(self, key: frozenset[str]) -> frozenset[str] | None:
        """Return the output names of the key columns of the only relation; None if one is not in the list."""
        found = [self.values.get(self.column(0, name), [None])[0] for name in key]
        return None if None in found else frozenset(n for n in found if n is not None)

    def name_of(self, value: exp.Expression) -> str | None:
        """Return the output name of an expression over FROM; None if the list does not have it."""
        return self.values.get(self.scope.bind(value).canonical, [None])[0]
