"""Lookup joins: a view holds the fetched rows, and Spark joins with it.

    keys    SELECT o.customer_id AS id FROM Orders AS o        a lazy DataFrame: only keys travel to Python
    view    the rows of Customers with these keys              fetched in batches, Arrow there and back
    join    Orders AS o JOIN __dt_lookup1 AS c ON …            Spark's own

The join evaluates the original condition; the fetch only prunes.  The left side is read twice; where that is not
possible, ``row_lookup_join.py`` applies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import ClassVar

from dovetail.planner.expr import Scalar
from dovetail.planner.logical import Filter, Join, JoinKind, Project, Scan
from dovetail.planner.logical.lookup import LookupKey, described
from dovetail.planner.logical.lookup_spec import LookupSpec
from dovetail.planner.logical.placeholder import alias_of
from dovetail.planner.physical.base import Physical, Spark
from dovetail.planner.tree import Node, plan_node, unwrap

# How keys are distributed over tasks, by the prefix of "LookupJoin" in plans; all but the first are FLIP-204's.
_WAYS = {
    "": "one task requests each distinct key",
    "Hash": "keys hashed by {}",
    "SkewedHash": "keys hashed by {}; a hot key moves once, without its rows",
    "Full": "keys hashed by {}; each task reads its split of the table whole",
}


@plan_node
class LookupJoin(Physical):
    """A join with the rows that were fetched for its keys, by ``spec``; ``view``: the name of the view that has them.

    ``executor/lookup/views.py`` fills the view with them.
    """

    required: ClassVar[bool] = True
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
        """The join that Spark runs, with the view instead of the table."""
        scan = self.scan
        view = Scan((self.view,), self.view, scan.alias, scan.renames, alias_of(scan))
        return Join(self.left, view, self.kind, self.keyword, self.condition, self.using)  # type: ignore[arg-type]

    @property
    def printed(self) -> Node | None:
        return self.plain

    def without_rows(self, empty: Callable[[Scan], Node]) -> Spark:
        """A substitute that Spark can analyze; ``empty`` builds an empty relation with a table's columns."""
        return Spark(replace(self.plain, right=empty(self.scan)))  # type: ignore[arg-type]

    @property
    def detail(self) -> str:
        return described(self.kind, self.spec.table, self.condition, self.using)

    @property
    def distribution(self) -> str:
        """Where the keys have to be."""
        if self.spec.in_spark:
            return "Spark reads the table" + ("" if self.spec.full_load else ", by a semi-join with the distinct keys")
        return _WAYS[self._way].format(", ".join(k.column for k in self.keys))

    @property
    def notes(self) -> tuple[str, ...]:
        spec = self.spec
        keys_text = ", ".join(
            [
                *(f"{k.column} = {k.value.shown}" for k in self.keys),
                *(f"{column} = {value!r}" for column, value in spec.constants),
            ]
        )
        lines = [f"{self.view or 'a view'} holds the rows of {spec.table} with {keys_text}"]
        lines.append(f"fetched: {', '.join(spec.columns)}")
        if self.only:
            lines.append(f"requested only where {' AND '.join(c.shown for c in self.only)}")
        lines.append("; ".join([self.distribution, *self._ways()]))
        if faults := list(self._faults()):
            lines.append("; ".join(faults))
        return tuple(lines)

    def _ways(self) -> Iterator[str]:
        spec = self.spec
        if not spec.full_load and not spec.in_spark:
            yield f"batches of {spec.batch:,}" + (", several at once" if spec.asynchronous else "")
            yield self._cache()

    def _cache(self) -> str:
        """The cache; none without a time to live, since each key is fetched once."""
        spec = self.spec
        if spec.cache_ttl is None:
            return "no cache: each key is requested once"
        return f"cache of {spec.cache_size:,} keys for {spec.cache_ttl:g} s" if spec.cache_size else "no cache"

    def _faults(self) -> Iterator[str]:
        """The retry options, if a hint sets them."""
        spec, plain = self.spec, LookupSpec(self.spec.table, (), ())
        if (spec.attempts, spec.delay) != (plain.attempts, plain.delay):
            yield f"{spec.attempts} attempts, {spec.delay:g} s apart"
        if spec.timeout != plain.timeout:
            yield f"{spec.timeout:g} s for a round trip"
        if spec.retry_missing:
            yield "a missing row is requested again"

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
