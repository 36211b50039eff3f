"""Row cache of a worker: an LRU cache by key with a time to live, which also holds keys without rows."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dovetail.planner.logical.lookup_spec import LookupSpec

if TYPE_CHECKING:
    import pyarrow as pa

_CACHES = 16
_SLACK = 10_000  # unreferenced rows that may stay before the cache is compacted


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """The rows of keys that were requested together.  A batch equals itself alone."""

    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Span:
    """The rows of a key: ``length`` rows of a batch from ``start`` on.  The length is 0 for a key without rows."""

    batch: Batch
    start: int
    length: int


class RowCache:
    """An LRU cache of rows by key.

    An entry is a span of the batch that its rows came back in, so a hit copies nothing.  A batch stays as long as one
    of its keys.  When more than half of all rows belong to evicted keys, the cache is compacted.
    """

    def __init__(self, size: int, ttl: float | None, clock: Callable[[], float] = time.time) -> None:
        self.size = size
        self._ttl = ttl
        self._clock = clock
        self._entries: OrderedDict[Hashable, tuple[Span, float]] = OrderedDict()
        self._stored_rows = 0  # rows of all batches
        self._live_rows = 0  # rows of all entries
        self.changed = False  # since it was saved

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> Span | None:
        """Return the rows of a key; None if it is not cached or has expired."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        span, until = entry
        if self._clock() >= until:
            self._forget(key)
            return None
        self._entries.move_to_end(key)
        return span

    def put(self, entries: Iterable[tuple[Hashable, Span]], rows: int) -> None:
        """Cache the spans of keys in a batch of so many rows; keys beyond the size evict those used least recently."""
        until = float("inf") if self._ttl is None else self._clock() + self._ttl
        for key, span in entries:
            if key in self._entries:
                self._forget(key)
            self._entries[key] = (span, until)
            self._live_rows += span.length
        self._stored_rows += rows
        self.changed = True
        while len(self._entries) > self.size:
            self._forget(next(iter(self._entries)))
        if self._stored_rows > 2 * self._live_rows + _SLACK:
            self._compact()

    def snapshot(self) -> tuple[list[tuple[Hashable, int, int, float]], pa.Table | None]:
        """Return what ``restore`` needs in another process: the entries, oldest first, and their rows."""
        self._compact()
        entries = [(key, span.start, span.length, until) for key, (span, until) in self._entries.items()]
        return entries, next((span.batch.rows for span, _ in self._entries.values()), None)

    def restore(self, snapshot: tuple[list[tuple[Hashable, int, int, float]], pa.Table | None]) -> None:
        """Load the snapshot of another cache."""
        entries, table = snapshot
        if table is not None:
            batch = Batch(table)
            self._entries = OrderedDict((key, (Span(batch, *span), until)) for key, *span, until in entries)
            self._live_rows = sum(span.length for span, _ in self._entries.values())
            self._stored_rows = table.num_rows

    def _forget(self, key: Hashable) -> None:
        span, _ = self._entries.pop(key)
        self._live_rows -= span.length

    def _compact(self) -> None:
        table, spans = gather([span for span, _ in self._entries.values()])
        for (key, (_, until)), span in zip(list(self._entries.items()), spans, strict=True):
            self._entries[key] = (span, until)
        self._stored_rows = 0 if table is None else table.num_rows


def gather(spans: Sequence[Span]) -> tuple[pa.Table | None, list[Span]]:
    """Copy spans into one table, in their order, and return their places in it; None if there are no spans."""
    import pyarrow as pa

    base: dict[Batch, int] = {}
    total = 0
    rows: list[int] = []
    where: list[tuple[int, int]] = []
    for span in spans:
        first = base.get(span.batch)
        if first is None:
            first = base[span.batch] = total
            total += span.batch.rows.num_rows
        where.append((len(rows), span.length))
        rows.extend(range(first + span.start, first + span.start + span.length))
    if not base:
        return None, []
    table = pa.concat_tables(batch.rows for batch in base).combine_chunks().take(pa.array(rows, pa.int64()))
    gathered = Batch(table)
    return table, [Span(gathered, start, length) for start, length in where]


_caches: OrderedDict[str, tuple[str, RowCache]] = OrderedDict()


def task_cache(fingerprint: str, moment: str, spec: LookupSpec) -> RowCache:
    """Return the cache of a lookup in this process.

    With a time to live, the cache outlives tasks and micro-batches.  Without one, it lasts as long as ``moment`` stays
    the same, which is one stage: a query never reads rows older than the query.
    """
    if spec.cache_ttl is not None:
        moment = ""
    known = _caches.pop(fingerprint, None)
    kept = known[1] if known is not None and known[0] == moment else RowCache(spec.cache_size, spec.cache_ttl)
    _caches[fingerprint] = (moment, kept)
    while len(_caches) > _CACHES:
        _caches.popitem(last=False)
    return kept
