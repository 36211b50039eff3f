"""Rows that a worker remembers by their key: bounded, for a time, and also that a key has none."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.connectors.spec import LookupSpec

if TYPE_CHECKING:
    import pyarrow as pa

_CACHES = 16
_SLACK = 10_000  # rows that no entry needs any more and that are kept rather than copied around


@dataclass(frozen=True, slots=True)
class Span:
    """Where the rows of a key are: so many of a table, from a start.  A key that is known to have none has 0."""

    table: pa.Table
    start: int
    length: int


class RowCache:
    """The least recently used key goes first.

    An entry is a span of the table that its rows came back in, so a hit copies nothing.  A table stays as long as one
    of its keys; when more than half of all rows are of keys that have gone, the others are moved together.
    """

    def __init__(self, size: int, ttl: float | None, clock: Callable[[], float] = time.time) -> None:
        self.size = size
        self._ttl = ttl
        self._clock = clock
        self._entries: OrderedDict[Hashable, tuple[Span, float]] = OrderedDict()
        self._held = 0  # rows of all tables, as they were when they came
        self._live = 0  # rows of all entries
        self.changed = False  # since it was saved

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> Span | None:
        """The rows of a key, or None where nothing is known about it, or no longer."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        span, until = entry
        if self._clock() >= until:
            self._forget(key)
            return None
        self._entries.move_to_end(key)
        return span

    def put(self, entries: Iterable[tuple[Hashable, Span]], table: pa.Table) -> None:
        """Remember the spans of keys in a table; more keys than fit push out the oldest."""
        until = float("inf") if self._ttl is None else self._clock() + self._ttl
        for key, span in entries:
            if key in self._entries:
                self._forget(key)
            self._entries[key] = (span, until)
            self._live += span.length
        self._held += table.num_rows
        self.changed = True
        while len(self._entries) > self.size:
            self._forget(next(iter(self._entries)))
        if self._held > 2 * self._live + _SLACK:
            self._move_together()

    def saved(self) -> tuple[list[tuple[Hashable, int, int, float]], pa.Table | None]:
        """All that is needed to ``restore`` it in another process: entries from the oldest on, and their rows."""
        self._move_together()
        entries = [(key, span.start, span.length, until) for key, (span, until) in self._entries.items()]
        return entries, next((span.table for span, _ in self._entries.values()), None)

    def restore(self, saved: tuple[list[tuple[Hashable, int, int, float]], pa.Table | None]) -> None:
        """Take in what another cache saved."""
        entries, table = saved
        if table is not None:
            self._entries = OrderedDict((key, (Span(table, *span), until)) for key, *span, until in entries)
            self._live = sum(span.length for span, _ in self._entries.values())
            self._held = table.num_rows

    def _forget(self, key: Hashable) -> None:
        span, _ = self._entries.pop(key)
        self._live -= span.length

    def _move_together(self) -> None:
        table, spans = gathered([span for span, _ in self._entries.values()])
        for (key, (_, until)), span in zip(list(self._entries.items()), spans, strict=True):
            self._entries[key] = (span, until)
        self._held = 0 if table is None else table.num_rows


def gathered(spans: Sequence[Span]) -> tuple[pa.Table | None, list[Span]]:
    """Copy spans into one table, in their order; None where there is no table to begin with."""
    import pyarrow as pa

    tables = {id(span.table): span.table for span in spans}
    if not tables:
        return None, []
    base: dict[int, int] = {}
    total = 0
    for name, table in tables.items():
        base[name] = total
        total += table.num_rows
    rows: list[int] = []
    where: list[tuple[int, int]] = []
    for span in spans:
        first = base[id(span.table)] + span.start
        where.append((len(rows), span.length))
        rows.extend(range(first, first + span.length))
    table = pa.concat_tables(tables.values()).combine_chunks().take(pa.array(rows, pa.int64()))
    return table, [Span(table, start, length) for start, length in where]


_caches: OrderedDict[str, tuple[str, RowCache]] = OrderedDict()


def cache_of(fingerprint: str, moment: str, spec: LookupSpec) -> RowCache:
    """The cache of a lookup in this process.

    With a time to live it is kept from task to task, from micro-batch to micro-batch.  Without one it is kept as long
    as ``moment`` stays the same, which is a stage: what a query sees is never older than the query.
    """
    if spec.cache_ttl is not None:
        moment = ""
    known = _caches.pop(fingerprint, None)
    kept = known[1] if known is not None and known[0] == moment else RowCache(spec.cache_size, spec.cache_ttl)
    _caches[fingerprint] = (moment, kept)
    while len(_caches) > _CACHES:
        _caches.popitem(last=False)
    return kept
