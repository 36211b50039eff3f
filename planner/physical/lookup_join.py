"""Lookup joins as they run: a view holds the rows that were fetched, and Spark joins with it.

    keys    SELECT o.customer_id AS id FROM Orders AS o        a lazy DataFrame: only keys travel to Python
    view    the rows of Customers with these keys              fetched in batches, Arrow there and back
    join    Orders AS o JOIN __dt_lookup1 AS c ON …            Spark's own

The condition stands in the join as it was written; the fetch only prunes.  The left side is read twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import ClassVar

from planner.connectors.spec import LookupSpec
from planner.expr import Scalar, quote
from planner.logical import Filter, Join, JoinKind, Project, Scan
from planner.logical.lookup import LookupKey, described
from planner.logical.stand_in import alias_of
from planner.physical.base import Spark
from planner.physical.hole import Hole
from planner.rendered import Names, Rendered
from planner.tree import Node, plan_node, unwrap

# Who asks for which keys, by what a plan writes before "LookupJoin"; all but the first are ways of FLIP-204.
_WAYS = {
    "": "each distinct key asked for by one task",
    "Hash": "keys hashed by {}",
    "SkewedHash": "keys hashed by {}; a hot key moves once, without its rows",
    "Full": "keys hashed by {}; each task reads its share of the table whole",
}


@plan_node
class LookupJoin(Hole):
    """A join with the rows that were fetched for its keys; ``spec`` says how."""

    filler: ClassVar[str] = "rows of keys"
    left: Node
    right: Node
    kind: JoinKind
    keyword: str
    condition: tuple[Scalar, ...]
    using: tuple[str, ...]
    keys: tuple[LookupKey, ...]
    only: tuple[Scalar, ...]
    spec: LookupSpec
    skip: int = 0  # lookup joins on top of the left side that the keys do not need
    view: str = ""

    @classmethod
    def labels(cls) -> tuple[str, ...]:
        return tuple(f"{way}LookupJoin" for way in _WAYS)

    @property
    def label(self) -> str:  # type: ignore[override]
        return f"{self._way}LookupJoin"

    @property
    def _way(self) -> str:
        if self.spec.full_load:
            return "Full"
        hashed = "SkewedHash" if self.spec.skew else "Hash"
        return hashed if self.spec.shuffle else ""

    @property
    def scan(self) -> Scan:
        """The table as the user names it."""
        found = unwrap(self.right)
        assert isinstance(found, Scan)
        return found

    @property
    def plain(self) -> Join:
        """The join that Spark runs, with the view in the place of the table."""
        scan = self.scan
        view = Scan((self.view,), self.view, scan.alias, scan.renames, alias_of(scan))
        return Join(self.left, view, self.kind, self.keyword, self.condition, self.using)  # type: ignore[arg-type]

    @property
    def printed(self) -> Node | None:
        return self.plain

    def without_rows(self, empty: Callable[[Scan], Node]) -> Spark:
        return Spark(replace(self.plain, right=empty(self.scan)))  # type: ignore[arg-type]

    @property
    def detail(self) -> str:
        return described(self.kind, self.spec.table, self.condition, self.using)

    @property
    def distribution(self) -> str:
        """Where the keys have to be."""
        return _WAYS[self._way].format(", ".join(k.column for k in self.keys))

    @property
    def notes(self) -> tuple[str, ...]:
        spec = self.spec
        asked = ", ".join(
            [
                *(f"{k.column} = {k.value.shown}" for k in self.keys),
                *(f"{column} = {value!r}" for column, value in spec.constants),
            ]
        )
        said = [f"{self.view or 'a view'} holds the rows of {spec.table} with {asked}"]
        said.append(f"fetched: {', '.join(spec.columns)}")
        if self.only:
            said.append(f"asked for only where {' AND '.join(c.shown for c in self.only)}")
        said.append("; ".join([self.distribution, *self._ways()]))
        if faults := list(self._faults()):
            said.append("; ".join(faults))
        return tuple(said)

    def _ways(self) -> Iterator[str]:
        spec = self.spec
        if not spec.full_load:
            yield f"batches of {spec.batch:,}" + (", several at once" if spec.asynchronous else "")
            yield self._cache()

    def _cache(self) -> str:
        """What is remembered: nothing without a time to live, since no key is asked for twice."""
        spec = self.spec
        if spec.cache_ttl is None:
            return "no cache: each key is asked for once"
        return f"cache of {spec.cache_size:,} keys for {spec.cache_ttl:g} s" if spec.cache_size else "no cache"

    def _faults(self) -> Iterator[str]:
        """What is done when the table does not answer as expected, where a hint says so."""
        spec, plain = self.spec, LookupSpec(self.spec.table, (), ())
        if (spec.attempts, spec.delay) != (plain.attempts, plain.delay):
            yield f"{spec.attempts} attempts, {spec.delay:g} s apart"
        if spec.timeout != plain.timeout:
            yield f"{spec.timeout:g} s for a round trip"
        if spec.retry_missing:
            yield "asked again for what is missing"

    @property
    def output(self) -> tuple[str, ...]:
        return self.plain.output

    def needs(self) -> Project:
        """The query for the keys."""
        source = self.left
        for _ in range(self.skip):
            source = source.left  # type: ignore[attr-defined]
        rows = Filter(source, self.only) if self.only else source  # type: ignore[arg-type]
        return Project(rows, tuple(Scalar(k.item) for k in self.keys))  # type: ignore[arg-type]


@plan_node
class RowLookupJoin(Rendered, LookupJoin):
    """Rows go to Python whole, and come back with what was found for them, where they cannot be read twice.

    ``rows`` names the relations of the left side with their columns.  The view holds each row once, with an array of
    the rows found; the condition filters that array, the table's alias being the name of its lambda variable.
    """

    filler: ClassVar[str] = "rows with what was found"
    rows: tuple[tuple[str, tuple[str, ...]], ...] = ()
    why: str = ""

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
        """What is remembered: rows with one key may come in several batches."""
        if self.spec.cache_ttl is None and self.spec.cache_size:
            return f"cache of {self.spec.cache_size:,} keys"
        return super()._cache() if self.spec.cache_size else "no cache"

    @property
    def notes(self) -> tuple[str, ...]:
        return (*super().notes, f"rows go to Python whole: {self.why}")

    def _column(self, number: int) -> str:
        return f"{self.view}_{number}"

    @property
    def looked_up(self) -> tuple[str, ...]:
        """The columns of the left rows that hold the keys."""
        return tuple(f"{self.view}_k{n}" for n in range(len(self.keys)))

    @property
    def matches(self) -> str:
        """The column of the view that holds what was found."""
        return f"{self.view}_matches"

    def needs(self) -> Project:
        """The query for the rows of the left side, with their keys: NULL where nothing is to be asked."""
        items, number = [], 0
        for relation, columns in self.rows:
            for column in columns:
                items.append(f"{quote(relation)}.{quote(column)} AS {self._column(number)}")
                number += 1
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
        return [*(quote(name) for name, _ in self.rows), *found]

    def render(self, sides: tuple[str, ...], names: Names, conjunction: Callable[[tuple[Scalar, ...]], str]) -> str:
        """Rows of the view, under the names that the user gave to both sides."""
        view, row, found = self.view, f"{self.view}_row", self.matches
        if self.scan.renames:
            pairs = zip(self.scan.renames, self.spec.columns, strict=True)
            one = ", ".join(f"{row}.{quote(column)} AS {quote(name)}" for name, column in pairs)
            found = f"transform({found}, {row} -> struct({one}))"
        left, number = "", 0
        for relation, columns in self.rows:
            said = ", ".join(f"{self._column(number + n)} AS {quote(c)}" for n, c in enumerate(columns))
            left += f"\nJOIN LATERAL (SELECT {said}) AS {quote(relation)}"
            number += len(columns)
        alias = self.scan.alias or self.scan.name[-1]
        held = f"{quote(alias)} -> {conjunction(self.condition)}"
        if self.kind in ("semi", "anti"):
            some = "=" if self.kind == "anti" else ">"  # exists() is NULL where the condition is
            return f"(SELECT {view}.* FROM {view}{left}\nWHERE size(filter({found}, {held})) {some} 0) AS {view}{left}"
        outer = "OUTER " if self.kind == "left" else ""
        each = f"LATERAL VIEW {outer}explode(filter({found}, {held})) {view}_each AS {row}"
        right = ", ".join(f"{row}.{quote(n)} AS {quote(n)}" for n in self.scan.renames or self.spec.columns)
        rows = f"(SELECT {view}.*, {row} FROM {view}{left}\n{each}) AS {view}"
        return f"{rows}{left}\nJOIN LATERAL (SELECT {right}) AS {quote(alias)}"
