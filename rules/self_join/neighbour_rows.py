"""Replaces joins with neighboring rows: the remaining relation gets the neighbor's columns by lag() or lead().

A row without a neighbor gets its own values instead, so that types and nullability stay the same; the condition,
which compares the row numbers, filters it out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, quote
from dovetail.planner.logical import Derived, Join, JoinKind, Logical, OneRow, Project, Scan
from dovetail.planner.logical.self_join import NeighbourRow, Replacement, RowsWithNeighbours, SameRow
from dovetail.planner.sql.names import Source
from dovetail.planner.types.schema import Column
from dovetail.rules.analysis.equivalence_classes import Scopes
from dovetail.rules.analysis.same_source import quoted_column
from dovetail.rules.analysis.speculation import check_speculation
from dovetail.rules.query.char_columns import check_aliases
from dovetail.rules.query.decorrelation import check_deterministic
from dovetail.rules.query.from_items import FromItem
from dovetail.rules.query.operands import conjoined
from dovetail.rules.self_join.neighbours import Neighbour, NeighbourFinder

R = TypeVar("R", bound=Replacement)
_CROSS: tuple[JoinKind, str] = ("cross", "CROSS JOIN")


@dataclass(frozen=True)
class NeighbourRows:
    """Writes FROM for neighbors that have been found."""

    found: NeighbourFinder

    def instead(self, neighbours: list[Neighbour]) -> dict[int, Logical]:
        """Return the replacements of relations with neighbors, and of the neighbors, in FROM.  Raises ``Refused``."""
        new: dict[int, Logical] = {}
        for x in {f.x.number: f.x for f in neighbours}.values():
            name = self.found.ctx.fresh("rows")
            added: list[Scalar] = []
            for one in (f for f in neighbours if f.x is x):
                source, step = self.source(one.y), self.found.ctx.fresh("row")
                values: list[str] = []
                for number, column in enumerate(source.columns or ()):
                    if self.found.ctx.names.fold(column.name) in one.numbering.parts and _is_exact(column):
                        values.append(f"{name}.{quote(column.name)}")
                        continue
                    added.append(Scalar(f"{self.stepped(one, column.name)} AS {step}_{number}"))
                    values.append(f"{name}.{step}_{number}")
                new[one.y.number] = self.row(one, source, values)
            source = self.source(x)
            items = tuple(Scalar(f"{name}.{quote(c.name)}") for c in source.columns or ())
            check_aliases(items, self.found.ctx.names)
            new[x.number] = Join(
                self.rows(x, name, tuple(added)), _lateral(SameRow, items, source, "the row itself"), *_CROSS
            )
        return new

    def source(self, from_item: FromItem) -> Source:
        """The one name and the columns of a relation.  Raises ``Refused``."""
        (source,) = self.found.ctx.names.sources(from_item.relation)
        renamed = isinstance(from_item.relation, Scan | Derived) and from_item.relation.renames
        if len(source.names) != 1 or source.columns is None or renamed:
            raise Refused("one side has no name, or renames its columns; give it an alias")
        return source

    def stepped(self, one: Neighbour, column: str) -> str:
        """A column of the neighbor, or of the row itself where it has none."""
        parts = ", ".join(map(quoted_column, one.numbering.parts))
        by = f"PARTITION BY {parts} " if parts else ""
        function = "lead" if one.steps > 0 else "lag"
        return (
            f"{function}({quote(column)}, {abs(one.steps)}, {quote(column)}) "
            f"OVER ({by}ORDER BY {quoted_column(one.numbering.number)})"
        )

    def rows(self, x: FromItem, name: str, added: tuple[Scalar, ...]) -> RowsWithNeighbours:
        """Return the rows of a relation with additional columns of their neighbors."""
        inside: Logical
        if isinstance(x.relation, Derived):
            inside = replace(x.relation, alias=name, suffix=f"AS {name}")
        elif isinstance(x.relation, Scan):
            inside = replace(x.relation, alias=None, suffix="")
        else:
            raise Refused("one side is neither a table nor a subquery")
        return RowsWithNeighbours(Project(inside, (Scalar("*"), *added)), name, (), f"AS {name}")

    def row(self, one: Neighbour, source: Source, values: list[str]) -> NeighbourRow:
        """The neighbor as a relation of one row, NULL where an outer join finds none."""
        columns = [c.name for c in source.columns or ()]
        when = None
        if one.y.kind == "left":
            when = self.when(one, dict(zip(map(self.found.ctx.names.fold, columns), values, strict=True)))
        items = tuple(
            Scalar(f"{value if when is None else f'if({when}, {value}, NULL)'} AS {quote(column)}")
            for column, value in zip(columns, values, strict=True)
        )
        check_aliases(items, self.found.ctx.names)
        away = f"{'' if abs(one.steps) == 1 else f'{abs(one.steps)} '}{'behind' if one.steps > 0 else 'before'}"
        parts = f" of {', '.join(one.numbering.parts)}" if one.numbering.parts else ""
        path = ".".join(self.found.sight.path(one.x.number))
        description = f"the row {away} {path}, by {one.numbering.number}{parts}{', else NULL' if when else ''}"
        return _lateral(NeighbourRow, items, source, description)

    def when(self, one: Neighbour, rows: dict[str, str]) -> str:
        """Rewrite the condition of an outer join over the row that has its neighbor's columns.  Raises ``Refused``."""
        scopes, fold = self.found.sight.scopes_of_on(one.y), self.found.ctx.names.fold

        def value(number: int, column: Column) -> str | None:
            return rows[fold(column.name)] if number == one.y.number else None

        for conjunct in one.y.on:
            check_deterministic(conjunct)
        self.check_raising(one.y.on, {one.y.number}, scopes)
        return conjoined([self.found.sight.substitute(conjunct, scopes, value) for conjunct in one.y.on])

    def check_others(self, neighbours: list[Neighbour]) -> None:
        """Raise ``Refused`` where a condition of the block might raise an error before it leaves out a row."""
        gone = {n.y.number for n in neighbours if n.y.kind == "inner"}
        self.check_raising(self.found.conjuncts, gone, (self.found.sight.visible,))
        for from_item in self.found.from_items.found:
            self.check_raising(from_item.on, gone, self.found.sight.scopes_of_on(from_item))

    def check_raising(self, conjuncts: tuple[Scalar, ...], gone: set[int], scopes: Scopes) -> None:
        """Raise ``Refused`` where a condition on a neighbor might raise an error on rows that have none."""
        known = self.found.sight.known(scopes)
        named = (c for c in conjuncts if c.plans or self.found.sight.relations_of(c, scopes) & gone)
        found = (c for c in named if not (self.found.step(c, scopes) or self.found.sight.equality(c, scopes)))
        check_speculation(found, known, self.found.ctx)


def _is_exact(column: Column) -> bool:
    """Whether equal values of a column are the same value: 0.0 and -0.0 are not, nor A and a in some collations."""
    return column.type is not None and column.type.exact


def _lateral(kind: type[R], items: tuple[Scalar, ...], source: Source, description: str) -> R:
    name = source.names[0]
    return kind(
        Project(OneRow(), items), name, (), f"AS {quote(name)}", True, source.columns or (), f"{name} is {description}"
    )
