"""The clauses above a join, said of its rows as they are stored, which have no relations any more.

    FROM f JOIN d …                     SELECT d.region, sum(amount) AS paid  …  GROUP BY d.region  HAVING paid > 0
    FROM (SELECT c0 AS amount,          SELECT region,   sum(amount) AS paid  …  GROUP BY region    HAVING paid > 0
                 c1 AS region …)

A column keeps its name where no other column of the relations has it, so that a name without a relation goes on to mean
the column or the item that it meant; any other column has a name that no one else uses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from planner.errors import Unsupported
from planner.expr import Scalar, column_ref, columns_in, quote
from planner.expr.rewording import reworded
from planner.expr.scalar import ColumnRef
from planner.expr.tokens import tokenize
from planner.logical import Aggregate, Filter, Logical, Project, Sort
from planner.logical.clauses import Windows
from planner.sql.names import Resolver, Source, Unresolved
from rules.query.sort_keys import sort_keys
from rules.stream.stream_blocks import NotTaken

_Column = tuple[int, str]  # a relation by its number, and its column


class StoredRows:
    """The rows of a join whose columns ``kept`` are stored as ``c0``, ``c1``, …, for the ``clauses`` above it."""

    def __init__(
        self, kept: Sequence[_Column], sources: tuple[Source, ...], names: Resolver, clauses: Sequence[Logical]
    ):
        self.kept, self.sources, self.names = kept, sources, names
        times = Counter(names.fold(c.name) for source in sources for c in source.columns or ())
        taken = {column for column in kept if times[names.fold(column[1])] > 1}
        self.shown = {column: f"__dt_c{n}" if column in taken else column[1] for n, column in enumerate(kept)}
        for column in self._caught(clauses):
            self.shown[column] = f"__dt_c{list(kept).index(column)}"

    def relation(self, joined: str) -> str:
        """The rows of ``joined`` under the names that clauses use."""
        items = (f"c{n} AS {quote(self.shown[column])}" for n, column in enumerate(self.kept))
        return f"(SELECT {', '.join(items) or '1'} FROM {joined})"

    def clause(self, node: Any) -> Any:
        """A clause over these rows."""
        match node:
            case Project():
                return replace(node, items=tuple(map(self._said, node.items)), hint=None)
            case Filter():
                return replace(node, condition=tuple(map(self._said, node.condition)))
            case Aggregate():
                return replace(node, groups=self._said(node.groups))
            case Windows():
                return replace(node, definitions=self._said(node.definitions))
            case Sort():
                return replace(node, clause=self._said(node.clause))
        return node

    def _said(self, scalar: Scalar) -> Scalar:
        """An expression, or a clause that is none, with the names of columns as they are here."""
        if _read(scalar):
            return reworded(scalar, lambda column: self._name(column_ref(column)))
        text = scalar.text
        for start, end, parts in reversed([*_names(text)]):
            if (new := self._name(ColumnRef(parts, text[start:end]))) is not None:
                text = text[:start] + new + text[end:]
        return Scalar(text, scalar.plans, scalar.place)

    def _name(self, ref: ColumnRef) -> str | None:
        """A column of a relation that is named, as it is called here; None for any other name."""
        try:
            index, column = self.names.resolve(ref, self.sources)
        except Unresolved:
            return None
        fields = column.field or ()
        if len(ref.parts) == 1 + len(fields):
            return None
        shown = self.shown.get((index, column.name))
        return None if shown is None else ".".join(map(quote, (shown, *fields)))

    def _caught(self, clauses: Sequence[Logical]) -> Iterator[_Column]:
        """Columns whose name an item has as well, which HAVING or ORDER BY would take in its place.

        Raises ``NotTaken`` where the column is also named alone, so that it cannot go by another name.
        """
        items = [item for node in clauses if isinstance(node, Project) for item in node.items if _read(item)]
        for column in self.kept:
            named = [i.tree.this for i in items if self.names.fold(i.tree.alias) == self.names.fold(column[1])]
            if all((found := self._of(tree)) and found[0] == column for tree in named):
                continue
            later = [self._of(tree) for tree in _later(clauses)]
            if (column, True) not in later:
                continue
            if (column, False) in (*later, *(self._of(c) for i in items for c in columns_in(i.tree))):
                raise NotTaken(f"{column[1]} is the name of a column and of an item; name the item otherwise")
            yield column

    def _of(self, tree: exp.Expr) -> tuple[_Column, bool] | None:
        """The column that an expression is, and whether its relation is named; None for any other expression."""
        try:
            ref = column_ref(tree)  # type: ignore[arg-type]
            index, column = self.names.resolve(ref, self.sources)
        except (Unresolved, Unsupported):
            return None
        return (index, column.name), len(ref.parts) > 1 + len(column.field or ())


def _later(clauses: Iterable[Logical]) -> Iterator[exp.Expression]:
    """The columns that HAVING and ORDER BY name."""
    for node in clauses:
        scalars: Iterable[Scalar] = ()
        if isinstance(node, Filter):
            scalars = node.condition
        elif isinstance(node, Sort):
            scalars = [key for key, _ in sort_keys(node.clause)[1]]
        for scalar in filter(_read, scalars):
            yield from columns_in(scalar.tree)


def _read(scalar: Scalar) -> bool:
    """Whether an expression is one, and can be read."""
    try:
        return bool(scalar.tree)
    except Unsupported:
        return False


def _names(text: str) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """The names with dots in a text: from where to where, and their parts; without those of functions."""
    t, i = tokenize(text), 0
    while i < len(t):
        end = i
        while t[end].is_name and end + 2 < len(t) and t[end + 1].word == "." and t[end + 2].is_name:
            end += 2
        if end > i and t.word(end + 1) != "(":
            yield t[i].start, t[end].end, tuple(t[n].text for n in range(i, end + 1, 2))
        i = end + 1
