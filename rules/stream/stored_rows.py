"""Rewrites the clauses above a join over its stored rows, which have lost the names of their relations.

    FROM f JOIN d …                     SELECT d.region, sum(amount) AS paid  …  GROUP BY d.region  HAVING paid > 0
    FROM (SELECT c0 AS amount,          SELECT region,   sum(amount) AS paid  …  GROUP BY region    HAVING paid > 0
                 c1 AS region …)

A column keeps its name if no other column of the relations has it, so that a name without a relation still means the
same column or item; any other column gets a new, unused name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from dovetail.planner.bind.scope import Scope
from dovetail.planner.errors import Refused, Unsupported
from dovetail.planner.expr import Scalar, column_ref, columns_in, is_reference, quote
from dovetail.planner.expr.references import column_refs, replace_references
from dovetail.planner.expr.scalar import ColumnRef
from dovetail.planner.expr.substitution import substitute_columns
from dovetail.planner.logical import Aggregate, Filter, Logical, Project, Sort, expressions, map_expressions
from dovetail.planner.logical.clauses import Windows

_Column = tuple[int, str]  # a relation by its number, and its column


class StoredRelation:
    """The rows of a join, whose ``stored`` columns are in files as ``c0``, ``c1``, …, for the ``clauses`` above it."""

    def __init__(self, stored: Sequence[_Column], scope: Scope, clauses: Sequence[Logical]):
        self.stored, self.scope, self.names = stored, scope, scope.names
        taken = {column for column in stored if scope.find(ColumnRef((column[1],), quote(column[1]))) is None}
        self.shown = {column: f"__dt_c{n}" if column in taken else column[1] for n, column in enumerate(stored)}
        for column in self._shadowed_columns(clauses):
            self.shown[column] = f"__dt_c{list(stored).index(column)}"

    def relation(self, joined: str) -> str:
        """Return the relation ``joined`` with the column names that clauses use."""
        items = (f"c{n} AS {quote(self.shown[column])}" for n, column in enumerate(self.stored))
        return f"(SELECT {', '.join(items) or '1'} FROM {joined})"

    def clause(self, node: Any) -> Any:
        """Rewrite a clause over these rows."""
        match node:
            case Project():
                return replace(node, items=tuple(map(self._item, node.items)), hint=None)
            case Filter() | Aggregate() | Windows() | Sort():
                return map_expressions(node, self._rewrite)
        return node

    def _item(self, item: Scalar) -> Scalar:
        """Rewrite an item of the select list; a column keeps its name, which ORDER BY may use."""
        rewritten = self._rewrite(item)
        if rewritten is item or not _is_expression(item) or not isinstance(item.tree, exp.Column):
            return rewritten
        return Scalar(_aliased(rewritten.text, item.tree), rewritten.plans, rewritten.place)

    def _rewrite(self, scalar: Scalar) -> Scalar:
        """Rewrite the column names of an expression, or of a clause that is no expression."""
        if _is_expression(scalar):
            return substitute_columns(scalar, self._column)
        return replace(scalar, text=replace_references(scalar.text, self._name))

    def _column(self, column: exp.Expression) -> str | None:
        """Rename a column; as an argument of struct() it keeps its name, which becomes the name of the field."""
        new = self._name(column_ref(column))
        parent = column.parent
        if new is None or not (isinstance(parent, exp.Anonymous) and parent.name.lower() == "struct"):
            return new
        return _aliased(new, column)

    def _name(self, ref: ColumnRef) -> str | None:
        """Return the new name of a column that is named with its relation; None for any other name."""
        found = self.scope.find(ref)
        if found is None or len(ref.parts) == 1 + len(fields := found.column.field):
            return None
        shown = self.shown.get((found.relation, found.column.name))
        return None if shown is None else ".".join(map(quote, (shown, *fields)))

    def _shadowed_columns(self, clauses: Sequence[Logical]) -> Iterator[_Column]:
        """Yield the columns that share a name with an item, which HAVING or ORDER BY would read instead.

        Raises ``Refused`` if the column is also named without its relation, so that it cannot be renamed.
        """
        items = [item for node in clauses if isinstance(node, Project) for item in node.items if _is_expression(item)]
        for column in self.stored:
            named = [i.tree.this for i in items if self.names.is_same(i.tree.alias, column[1])]
            if all((found := self._of(tree)) and found[0] == column for tree in named):
                continue
            later = [self._of(tree) for tree in _later_columns(clauses)]
            if (column, True) not in later:
                continue
            others: tuple[exp.Expr | ColumnRef, ...] = (
                *(c for i in items for c in columns_in(i.tree)),
                *_grouped_columns(clauses),
            )
            if (column, False) in (*later, *map(self._of, others)):
                raise Refused(f"{column[1]} is the name of a column and of an item; rename the item")
            yield column

    def _of(self, tree: exp.Expr | ColumnRef) -> tuple[_Column, bool] | None:
        """Return the column that an expression is, and whether its relation is named; None for other expressions."""
        found = self.scope.find(tree) if isinstance(tree, ColumnRef) or is_reference(tree) else None
        if found is None:
            return None
        return (found.relation, found.column.name), len(found.ref.parts) > 1 + len(found.column.field)


def _later_columns(clauses: Iterable[Logical]) -> Iterator[exp.Expression]:
    """Yield the columns that HAVING and ORDER BY name."""
    for node in clauses:
        scalars = expressions(node) if isinstance(node, Filter | Sort) else ()
        for scalar in filter(_is_expression, scalars):
            yield from columns_in(scalar.tree)


def _grouped_columns(clauses: Iterable[Logical]) -> Iterator[ColumnRef]:
    """Yield the columns that GROUP BY names, also in ROLLUP; there a name is the column, if there is one."""
    for node in clauses:
        for scalar in expressions(node) if isinstance(node, Aggregate) else ():
            yield from column_refs(scalar.text)


def _aliased(text: str, column: exp.Expression) -> str:
    """Alias an expression by the name of a column or of its field."""
    return f"{text} AS {quote(column_ref(column).parts[-1])}"


def _is_expression(scalar: Scalar) -> bool:
    """Whether a scalar can be parsed as an expression."""
    try:
        return bool(scalar.tree)
    except Unsupported:
        return False
