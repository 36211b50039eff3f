"""Fetches rows by key in a task, in batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dovetail.executor.connectors.cache import Batch, RowCache, Span
from dovetail.executor.connectors.fetch_request import FetchRequest
from dovetail.executor.connectors.keys import in_batches, key_values
from dovetail.executor.connectors.metrics import Counters
from dovetail.executor.connectors.retry import RetryingSource
from dovetail.executor.connectors.source import LookupSource
from dovetail.planner.logical.lookup_spec import LookupSpec

if TYPE_CHECKING:
    import pyarrow as pa

CONNECTIONS = 4  # of an asynchronous lookup, in each task


@dataclass
class Answer:
    """The rows of a batch of keys, grouped by key in the order of the keys, and the number of rows of each key."""

    keys: Sequence[Hashable]
    rows: pa.Table
    counts: list[int]

    def spans(self) -> Iterator[tuple[Hashable, Span]]:
        """Yield each key with the span of its rows."""
        batch, start = Batch(self.rows), 0
        for key, count in zip(self.keys, self.counts, strict=True):
            yield key, Span(batch, start, count)
            start += count


class Fetcher:
    """Fetches rows by key from a source.  ``close`` it on every path: it holds connections."""

    def __init__(self, source: LookupSource, spec: LookupSpec, schema: pa.Schema) -> None:
        """``schema``: the source's schema when the query was planned.  Keys and rows have Spark's types."""
        self._request = FetchRequest(source, spec, schema)
        self._source = source.prune_columns(tuple(self._request.schema.names)).push_filters(self._request.constants)
        self._spec = spec
        self._cache_counters = Counters()
        self._lanes: list[tuple[RetryingSource, Counters]] = []
        self._free: deque[tuple[RetryingSource, Counters]] = deque()
        self._pool: ThreadPoolExecutor | None = None

    @property
    def counters(self) -> Counters:
        """The counts so far."""
        return sum((counters for _, counters in self._lanes), self._cache_counters)

    def close(self) -> None:
        """Start no further round trip, and close every connection."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        for source, _ in self._lanes:
            source.stop()

    def answers(self, tables: Iterable[pa.Table]) -> Iterator[Answer]:
        """Fetch the rows of distinct non-NULL keys; yield one answer for each full batch."""
        batches = in_batches(tables, self._spec.batch)
        if not self._spec.asynchronous:
            yield from map(self._answer, batches)
            return
        self._pool = self._pool or ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="lookup")
        waiting: deque[Future[Answer]] = deque()
        for batch in batches:
            waiting.append(self._pool.submit(self._answer, batch))
            if len(waiting) == CONNECTIONS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def read_split(self, index: int, count: int) -> Iterator[pa.Table]:
        """Read one split of the whole table."""
        source, counters = self._lane()
        if self._request.finds_nothing:
            return
        for rows in source.scan(index, count, self._request.rows):
            counters.rows += rows.num_rows
            yield rows.select(self._spec.columns)

    def look_up(self, keys: pa.Table, cache: RowCache) -> dict[Hashable, Span]:
        """Return the rows of distinct non-NULL keys from the cache or the source; every key is in the result."""
        found: dict[Hashable, Span] = {}
        missing = []
        for row, value in enumerate(key_values(keys, keys.column_names)):
            if (span := cache.get(value)) is not None:
                found[value] = span
            else:
                missing.append(row)
        self._cache_counters.hits += len(found)
        self._cache_counters.misses += len(missing)
        if missing:
            for answer in self.answers([keys.take(missing)]):
                spans = dict(answer.spans())
                found |= spans
                cache.put(spans.items(), answer.rows.num_rows)
        return found

    def _answer(self, keys: pa.Table) -> Answer:
        lane = self._free.popleft() if self._free else self._lane()
        try:
            return self._complete(keys, *lane)
        finally:
            self._free.append(lane)

    def _complete(self, keys: pa.Table, source: RetryingSource, counters: Counters) -> Answer:
        """Fetch, and fetch again for keys without a row if ``retry_missing`` is set."""
        import pyarrow as pa

        counters.keys += keys.num_rows
        values = key_values(keys, keys.column_names)
        tables, numbers = [self._request.schema.empty_table()], list[int]()
        left = [] if self._request.finds_nothing else list(range(keys.num_rows))
        for attempt in range(self._spec.attempts):
            if not left:
                break
            if attempt:
                source.wait()
            part = keys.take(left) if attempt else keys
            requested = {values[row]: row for row in left}
            if not (sent := self._request.encode_keys(part)).num_rows:
                break
            rows, found = source.fetch(sent, self._request.check(requested))
            counters.rows += rows.num_rows
            tables.append(rows)
            numbers += found
            left = sorted(set(left).difference(found))
            if not self._spec.retry_missing:
                break
        rows = tables[-1] if len(tables) <= 2 else pa.concat_tables(tables)
        order = sorted(range(len(numbers)), key=numbers.__getitem__)
        if numbers != sorted(numbers):
            rows = rows.take(order)
        counts = [0] * keys.num_rows
        for number in numbers:
            counts[number] += 1
        return Answer(values, rows.select(self._spec.columns), counts)

    def _lane(self) -> tuple[RetryingSource, Counters]:
        counters = Counters()
        lane = (RetryingSource(self._source, self._spec, counters), counters)
        self._lanes.append(lane)
        return lane
