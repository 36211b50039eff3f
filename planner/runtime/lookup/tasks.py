"""What the tasks of a lookup do: functions from Arrow batches to Arrow batches, pickled by reference to this file."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.accumulators import Accumulator

from planner.connectors import credentials
from planner.connectors.cache import RowCache, Span, cache_of, gathered
from planner.connectors.fetch import Fetcher
from planner.connectors.keys import first_rows, key_values
from planner.connectors.metrics import Counters
from planner.connectors.shares import cache_of_share, folder, save_share
from planner.connectors.source import LookupSource
from planner.connectors.spec import LookupSpec

COUNTS = pa.struct([pa.field(field.name, pa.int64()) for field in fields(Counters)])
_ROWS_OUT = 50_000  # of one Arrow batch: keys with very many rows do not pile up in memory


@dataclass(frozen=True)
class Task:
    """What all tasks of a lookup are sent."""

    source: LookupSource
    spec: LookupSpec
    schema: pa.Schema  # of the source, when the query was planned
    out: pa.Schema  # of the columns of the lookup, as Spark takes them
    environment: dict[str, str]  # credentials that the driver's environment has
    fingerprint: str
    accumulator: Accumulator[Counters] | None

    @contextmanager
    def fetching(self) -> Iterator[tuple[Fetcher, RowCache]]:
        """What asks the source, and what it remembers; in the end connections are closed and counts handed in.

        With a time to live and a shuffle, the cache is that of the share of the keys that this task has.
        """
        credentials.receive(self.environment)
        context = TaskContext.get()
        where = folder() if self.spec.shuffle and self.spec.cache_ttl is not None and context else None
        share = context.partitionId() if context else 0
        if where is not None:
            cache = cache_of_share(where, self.fingerprint, share, self.spec)
        else:
            cache = cache_of(self.fingerprint, str(context.stageId()) if context else "", self.spec)
        fetcher = Fetcher(self.source, self.spec, self.schema)
        try:
            yield fetcher, cache
        finally:
            fetcher.close()
            if self.accumulator is not None:
                self.accumulator.add(fetcher.counters)
            if where is not None:
                save_share(where, self.fingerprint, share, cache)

    def keys(self, batch: pa.RecordBatch, names: list[str]) -> pa.Table:
        """The key columns of a batch, under the names and with the types of the source."""
        types = [self.schema.field(name).type for name in self.spec.keys]
        columns = [_cast(batch.column(name), type_) for name, type_ in zip(names, types, strict=True)]
        return pa.table(columns, names=list(self.spec.keys))

    def batches(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Rows of the source as Spark takes them: it knows one layout of texts, and microseconds only."""
        table = rows if rows.schema.equals(self.out) else rows.cast(self.out, safe=False)
        yield from table.to_batches()


@dataclass(frozen=True)
class FetchKeys:
    """Distinct keys in, rows of the source out."""

    task: Task

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with self.task.fetching() as (fetcher, cache):
            tables = (self.task.keys(batch, batch.schema.names).drop_null() for batch in batches)
            if self.task.spec.cache_ttl is None:
                for answer in fetcher.answers(tables):
                    yield from self.task.batches(answer.rows)
                return
            for table in tables:
                rows, _ = gathered(list(fetcher.look_up(table, cache).values()))
                if rows is not None:
                    yield from self.task.batches(rows)


@dataclass(frozen=True)
class LoadShare:
    """Numbers of shares in, their rows out."""

    task: Task
    count: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with self.task.fetching() as (fetcher, _):
            for batch in batches:
                for index in batch.column(0).to_pylist():
                    for rows in fetcher.share(index, self.count):
                        yield from self.task.batches(rows)


@dataclass(frozen=True)
class JoinRows:
    """Rows with their keys in the last columns in; the rows without these columns out, and what was found for each."""

    task: Task
    kind: str  # inner, left, nested
    left_names: list[str]  # of the columns before the keys, in the result
    key_names: list[str]
    counting: bool = False  # a last column says what was done for each batch, in its first row

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with self.task.fetching() as (fetcher, cache):
            said = Counters()
            for batch in batches:
                keys = self.task.keys(batch, self.key_names)
                values = key_values(keys, keys.column_names)
                distinct = first_rows(values)
                found = fetcher.look_up(keys.take(list(distinct.values())), cache) if distinct else {}
                left = pa.Table.from_batches([batch]).drop_columns(self.key_names).rename_columns(self.left_names)
                for out in self._joined(left, values, found):
                    yield with_counts(out, fetcher.counters - said) if self.counting else out
                    said = fetcher.counters + Counters() if out.num_rows else said

    def _joined(self, left: pa.Table, values: list[Hashable], found: dict[Hashable, Span]) -> Iterator[pa.RecordBatch]:
        rows, spans = gathered(list(found.values()))
        where = dict(zip(found, spans, strict=True))
        columns = [self.task.schema.field(name) for name in self.task.spec.columns]
        right = pa.schema(columns).empty_table() if rows is None else rows
        right = right.cast(self.task.out, safe=False)
        start = 0
        while start < len(values):
            stop, from_left, from_right, counts = self._pairs(values, where, start)
            matched = right.take(pa.array(from_right, pa.int64()))
            if self.kind == "nested":
                out = _nested(left.slice(start, stop - start), matched, counts)
            else:
                out = left.take(pa.array(from_left, pa.int64()))
                for name, column in zip(matched.column_names, matched.columns, strict=True):
                    out = out.append_column(name, column)
            yield from out.combine_chunks().to_batches()
            start = stop

    def _pairs(
        self, values: list[Hashable], where: dict[Hashable, Span], start: int
    ) -> tuple[int, list[int], list[int | None], list[int]]:
        """Numbers of left and right rows that belong together, from a left row on, until there are enough."""
        from_left: list[int] = []
        from_right: list[int | None] = []
        counts: list[int] = []
        row = start
        while row < len(values) and len(from_right) < _ROWS_OUT:
            span = where.get(values[row])
            if span is not None and span.length:
                from_left += [row] * span.length
                from_right += range(span.start, span.start + span.length)
                counts.append(span.length)
            else:
                counts.append(0)
                if self.kind == "left":
                    from_left.append(row)
                    from_right.append(None)
            row += 1
        return row, from_left, from_right, counts


def with_counts(batch: pa.RecordBatch, counts: Counters) -> pa.RecordBatch:
    """A batch with counts as a struct in a column behind the others: in its first row, the others have NULL."""
    first = [asdict(counts)] if batch.num_rows else []
    column = pa.array([*first, *[None] * (batch.num_rows - 1)], COUNTS)
    return pa.RecordBatch.from_arrays([*batch.columns, column], names=[*batch.schema.names, "__dt_counts"])


def _nested(left: pa.Table, right: pa.Table, counts: list[int]) -> pa.Table:
    """The left rows with an array of the right rows of each."""
    offsets = [0]
    for count in counts:
        offsets.append(offsets[-1] + count)
    structs = pa.StructArray.from_arrays([_whole(column) for column in right.columns], names=right.column_names)
    return left.append_column("matches", pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs))


def _cast(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """Keys with the type of the source, NULL where one has a finer time than that type."""
    if column.type == type_ or not pa.types.is_timestamp(type_):
        return column.cast(type_)
    cast = column.cast(type_, safe=False)
    return pc.if_else(pc.equal(cast.cast(column.type, safe=False), column), cast, None)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
