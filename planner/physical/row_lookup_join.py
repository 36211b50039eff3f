"""Lookup joins whose left side can be read only once: whole rows go to Python.

    rows    SELECT o.id AS __dt_lookup1_0, …, o.k AS __dt_lookup1_k0 FROM Orders AS o
    view    each of these rows, with an array of the rows that were found for it
    join    the view; a LATERAL relation for each relation of the left side, and one for the table

The condition filters the array, over a variable that stands for a row of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

from dovetail.planner.expr import Scalar, quote
from dovetail.planner.logical import Project
from dovetail.planner.physical.lookup_join import LookupJoin
from dovetail.planner.rendered import NameGenerator, Rendered
from dovetail.planner.tree import Node, plan_node

FOUND = "__dt_row"
"""The variable of the condition that stands for a row of the table."""


@plan_node
class RowLookupJoin(Rendered, LookupJoin):
    """A lookup join that sends whole rows to Python, and receives them with their matches.

    ``rows`` names the relations of the left side with their columns.  ``matched`` is the condition over ``FOUND``.
    """

    rows: tuple[tuple[str, tuple[str, ...]], ...] = ()
    why: str = ""
    matched: tuple[Scalar, ...] = ()

    @classmethod
    def labels(cls) -> tuple[str, ...]:
        return ("RowLookupJoin",)

    @property
    def label(self) -> str:  # type: ignore[override]
        return "RowLookupJoin"

    @property
    def distribution(self) -> str:
        return "rows hashed by their keys" if self.spec.shuffle else "rows stay in their task"

    def _cache(self) -> str:
        """The cache: rows with one key may come in several batches."""
        if self.spec.cache_ttl is None and self.spec.cache_size:
            return f"cache of {self.spec.cache_size:,} keys"
        return super()._cache() if self.spec.cache_size else "no cache"

    @property
    def notes(self) -> tuple[str, ...]:
        return (*super().notes, f"rows go to Python whole: {self.why}")

    @property
    def looked_up(self) -> tuple[str, ...]:
        """The columns of the left rows that hold the keys."""
        return tuple(f"{self.view}_k{n}" for n in range(len(self.keys)))

    @property
    def matches(self) -> str:
        """The column of the view that holds the matches."""
        return f"{self.view}_matches"

    @property
    def left_row(self) -> str:
        """The struct of the columns of the left side: LATERAL takes comments and lengths of CHAR from other columns."""
        return f"{self.view}_left"

    @property
    def alias(self) -> str:
        """The name of the table in the statement."""
        return self.scan.alias or self.scan.name[-1]

    def _shown(self) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        """The relations of the left side, each with its columns and those of the view that hold them."""
        number = count()
        for relation, columns in self.rows:
            if columns:
                yield relation, [(column, f"{self.view}_{next(number)}") for column in columns]

    def needs(self) -> Project:
        """The query for the rows of the left side with their keys; the key is NULL if nothing is to be fetched."""
        items = [
            f"{quote(relation)}.{quote(column)} AS {held}"
            for relation, columns in self._shown()
            for column, held in columns
        ]
        only = " AND ".join(f"({c.text})" for c in self.only)
        for key, name in zip(self.keys, self.looked_up, strict=True):
            value = f"CASE WHEN {only} THEN {key.value.text} END" if only else key.value.text
            items.append(f"{value} AS {name}")
        return Project(self.left, tuple(map(Scalar, items)))  # type: ignore[arg-type]

    @property
    def printed(self) -> None:
        return None

    @property
    def sides(self) -> tuple[Node, ...]:
        return ()  # the view has the rows of the left side, too

    def stars(self, of: Callable[[Node], list[str]]) -> list[str]:
        found = [] if self.kind in ("semi", "anti") else of(self.plain.right)
        return [*(f"{quote(name)}.*" for name, _ in self.rows), *found]

    def render(
        self, sides: tuple[str, ...], names: NameGenerator, conjunction: Callable[[tuple[Scalar, ...]], str]
    ) -> str:
        """Rows of the view, under the names that the user gave to both sides."""
        view, row, found = self.view, f"{self.view}_row", self.matches
        if self.scan.renames:
            pairs = zip(self.scan.renames, self.spec.columns, strict=True)
            one = ", ".join(f"{row}.{quote(column)} AS {quote(name)}" for name, column in pairs)
            found = f"transform({found}, {row} -> struct({one}))"
        # One struct below LATERAL VIEW and one above: Spark fails to push EXCEPT below one that passes through it.
        relations = list(self._shown())
        struct = ", ".join(f"'{held}', {held}" for _, columns in relations for _, held in columns)
        rows = f"named_struct({struct}) AS {self.left_row}" if struct else f"{view}.*"
        source = f"(SELECT *, {rows} FROM {view}) AS {view}" if struct else view
        left = ""
        for relation, columns in relations:
            items = ", ".join(f"{self.left_row}.{held} AS {quote(column)}" for column, held in columns)
            left += f"\nJOIN LATERAL (SELECT {items}) AS {quote(relation)}"
        filtered = f"filter({found}, {FOUND} -> {conjunction(self.matched)})"
        if self.kind in ("semi", "anti"):
            some = "=" if self.kind == "anti" else ">"  # exists() is NULL where the condition is
            return f"(SELECT {rows} FROM {source}{left}\nWHERE size({filtered}) {some} 0) AS {view}{left}"
        outer = "OUTER " if self.kind == "left" else ""
        each = f"LATERAL VIEW {outer}explode({filtered}) {view}_each AS {row}"
        own = self.scan.renames or self.spec.columns
        right = ", ".join(f"{row}.{quote(name)} AS {quote(name)}" for name in own)
        table = f"\nJOIN LATERAL (SELECT {right}) AS {quote(self.alias)}" if own else ""
        return f"(SELECT {rows}, {row} FROM {source}{left}\n{each}) AS {view}{left}{table}"
