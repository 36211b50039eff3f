"""What the columns of a select list are: expressions over FROM, each in one spelling."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from planner.expr import canonical, column_ref, sql
from planner.logical import Project
from planner.sql.names import Resolver, Source, Unresolved


class SelectList:
    """What the columns of a select list are: an expression over FROM, in one spelling, for each name."""

    def __init__(self, project: Project, sources: tuple[Source, ...], names: Resolver):
        self.sources = sources
        self.names = names
        self.values: dict[str, list[str]] = {}  # by value, the names under which it is shown
        self.items: list[tuple[str, str]] = []
        for item in project.items:
            for name, value in self.read(item.tree):
                self.items.append((name, value))
                self.values.setdefault(value, []).append(name)

    def read(self, tree: exp.Expression) -> Iterable[tuple[str, str]]:
        star = tree.this if isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star) else tree
        if not isinstance(star, exp.Star):
            yield self.names.fold(tree.alias_or_name), self.said(tree.unalias())
            return
        if len(self.sources) != 1 or self.sources[0].columns is None or any(star.args.values()):
            raise Unresolved("the columns of its * are not known")
        for column in self.sources[0].columns:
            yield self.names.fold(column.name), self.column(0, column.name)

    def said(self, tree: exp.Expr) -> str:
        def named(node: exp.Expression) -> exp.Expression:
            if not isinstance(node, exp.Column):
                return node
            index, column = self.names.resolve(column_ref(node), self.sources)
            if column.field:
                raise Unresolved("it is a field of a column")
            return exp.column(self.names.fold(column.name), str(index), quoted=True)

        return canonical(tree.copy().transform(named))

    def column(self, index: int, name: str) -> str:
        return sql(exp.column(self.names.fold(name), str(index), quoted=True))

    def all_of(self, key: frozenset[str]) -> frozenset[str] | None:
        """A key of the one relation, by the names shown here; None where a part of it is not shown."""
        found = [self.values.get(self.column(0, name), [None])[0] for name in key]
        return None if None in found else frozenset(n for n in found if n is not None)

    def name_of(self, group: exp.Expression) -> str | None:
        """The name under which what is grouped by is shown: an expression, a column's number, or an alias."""
        if isinstance(group, exp.Literal) and group.is_int:
            at = int(group.name) - 1
            return self.items[at][0] if 0 <= at < len(self.items) else None
        try:
            found = self.values.get(self.said(group))
            return found[0] if found else None
        except Unresolved:
            alias = self.names.fold(group.name) if isinstance(group, exp.Column) and not group.table else ""
            return alias if [n for n, _ in self.items].count(alias) == 1 else None
