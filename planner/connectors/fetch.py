"""The fetch of one task: keys in, rows out, in as few round trips as the batch size allows."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.connectors.cache import RowCache, Span
from planner.connectors.fetch_request import FetchRequest
from planner.connectors.keys import in_batches, key_values
from planner.connectors.metrics import Counters
from planner.connectors.retry import Retrying
from planner.connectors.source import LookupSource
from planner.connectors.spec import LookupSpec

if TYPE_CHECKING:
    import pyarrow as pa

CONNECTIONS = 4  # of an asynchronous lookup, in each task


@dataclass
class Answer:
    """The rows of a batch of keys, those of a key side by side in the order of the keys, and how many each has."""

    keys: Sequence[Hashable]
    rows: pa.Table
    counts: list[int]

    def spans(self) -> Iterator[tuple[Hashable, Span]]:
        """Where the rows of each key are."""
        start = 0
        for key, count in zip(self.keys, self.counts, strict=True):
            yield key, Span(self.rows, start, count)
            start += count


class Fetcher:
    """Fetches rows of keys from a source.  ``close`` it on every path: it has connections."""

    def __init__(self, source: LookupSource, spec: LookupSpec, schema: pa.Schema) -> None:
        """``schema``: the source's, as it was when the query was planned."""
        self._asked = FetchRequest(source, spec, schema)
        self._source = source.narrowed(tuple(self._asked.schema.names))
        self._spec = spec
        self._own = Counters()
        self._lanes: list[tuple[Retrying, Counters]] = []
        self._free: deque[tuple[Retrying, Counters]] = deque()
        self._pool: ThreadPoolExecutor | None = None

    @property
    def counters(self) -> Counters:
        """What was done so far."""
        return sum((counters for _, counters in self._lanes), self._own)

    def close(self) -> None:
        """Begin nothing more, and close every connection."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        for retrying, _ in self._lanes:
            retrying.stop()

    def answers(self, tables: Iterable[pa.Table]) -> Iterator[Answer]:
        """Fetch the rows of distinct keys without NULL: tables of keys in, an answer for each full batch out."""
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

    def share(self, index: int, count: int) -> Iterator[pa.Table]:
        """Read one share of the whole table."""
        retrying, counters = self._lane()
        for table in retrying.scan(index, count, self._asked.schema):
            rows = self._asked.without_other_constants(table)
            counters.rows += rows.num_rows
            yield rows.select(self._spec.columns)

    def look_up(self, keys: pa.Table, cache: RowCache) -> dict[Hashable, Span]:
        """The rows of distinct keys without NULL, from the cache or the source; every key is in the result."""
        found: dict[Hashable, Span] = {}
        missing = []
        for row, value in enumerate(key_values(keys, keys.column_names)):
            if (span := cache.get(value)) is not None:
                found[value] = span
            else:
                missing.append(row)
        self._own.hits += len(found)
        self._own.misses += len(missing)
        if missing:
            for answer in self.answers([keys.take(missing)]):
                spans = dict(answer.spans())
                found |= spans
                cache.put(spans.items(), answer.rows)
        return found

    def _answer(self, keys: pa.Table) -> Answer:
        lane = self._free.popleft() if self._free else self._lane()
        try:
            return self._complete(keys, *lane)
        finally:
            self._free.append(lane)

    def _complete(self, keys: pa.Table, retrying: Retrying, counters: Counters) -> Answer:
        """Fetch, and fetch again for keys without a row if that is wanted."""
        import pyarrow as pa

        counters.keys += keys.num_rows
        values = key_values(keys, keys.column_names)
        tables, numbers = [], []
        left = list(range(keys.num_rows))
        for attempt in range(self._spec.attempts):
            if attempt:
                retrying.wait()
            part = keys.take(left) if attempt else keys
            asked = {values[row]: row for row in left}
            rows, found = retrying.fetch(self._asked.with_constants(part), self._asked.check(asked))
            counters.rows += rows.num_rows
            tables.append(rows)
            numbers += found
            left = sorted(set(left).difference(found))
            if not left or not self._spec.retry_missing:
                break
        rows = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
        order = sorted(range(len(numbers)), key=numbers.__getitem__)
        if numbers != sorted(numbers):
            rows = rows.take(order)
        counts = [0] * keys.num_rows
        for number in numbers:
            counts[number] += 1
        return Answer(values, rows.select(self._spec.columns), counts)

    def _lane(self) -> tuple[Retrying, Counters]:
        counters = Counters()
        lane = (Retrying(self._source, self._spec, counters), counters)
        self._lanes.append(lane)
        return lane
