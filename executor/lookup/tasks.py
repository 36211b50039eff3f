"""The task functions of lookups: from Arrow batches to Arrow batches, pickled by reference to this file."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields

import pyarrow as pa
from pyspark import TaskContext
from pyspark.accumulators import Accumulator

from dovetail.executor.connectors import credentials
from dovetail.executor.connectors.cache import RowCache, Span, gather, task_cache
from dovetail.executor.connectors.fetch import Fetcher
from dovetail.executor.connectors.keys import first_rows, key_values
from dovetail.executor.connectors.metrics import Counters
from dovetail.executor.connectors.source import LookupSource
from dovetail.executor.connectors.splits import load_split_cache, save_split_cache, shared_folder
from dovetail.executor.connectors.values import spark_types
from dovetail.planner.errors import LookupFailed, SourceError
from dovetail.planner.logical.lookup_spec import LookupSpec

COUNTS = pa.struct([pa.field(field.name, pa.int64()) for field in fields(Counters)])
_ROWS_OUT = 50_000  # per Arrow batch: limits the memory for keys with very many rows


@dataclass(frozen=True)
class Task:
    """The parameters that all tasks of a lookup receive."""

    source: LookupSource
    spec: LookupSpec
    schema: pa.Schema  # of the source, when the query was planned
    out: pa.Schema  # of the columns of the lookup, as Spark takes them
    environment: dict[str, str]  # credentials from the driver's environment
    fingerprint: str
    accumulator: Accumulator[Counters] | None

    @contextmanager
    def fetching(self) -> Iterator[tuple[Fetcher, RowCache]]:
        """Open a fetcher and its cache; at the end, close the connections and report the counts.

        With a time to live and a shuffle, the cache is that of this task's key split.
        """
        credentials.receive(self.environment)
        context = TaskContext.get()
        where = shared_folder() if self.spec.shuffle and self.spec.cache_ttl is not None and context else None
        split = context.partitionId() if context else 0
        if where is not None:
            cache = load_split_cache(where, self.fingerprint, split, self.spec)
        else:
            cache = task_cache(self.fingerprint, str(context.stageId()) if context else "", self.spec)
        fetcher = Fetcher(self.source, self.spec, self.schema)
        try:
            yield fetcher, cache
        except (LookupFailed, SourceError) as error:
            # A worker of PySpark hangs where it cannot encode a message: an answer may have lone surrogates.
            text = str(error).encode("utf-8", "backslashreplace").decode()
            shown = error if text == str(error) else type(error)(text)
            # A cause without a traceback: Python prints its message first, before the frames of the task.
            raise shown from type(error)(text)
        finally:
            fetcher.close()
            if self.accumulator is not None:
                self.accumulator.add(fetcher.counters)
            if where is not None:
                save_split_cache(where, self.fingerprint, split, cache)

    def keys(self, batch: pa.RecordBatch, names: list[str]) -> pa.Table:
        """Return the key columns of a batch with the names and types of the source."""
        schema = spark_types(self.schema)
        types = [schema.field(name).type for name in self.spec.keys]
        columns = [batch.column(name).cast(type_) for name, type_ in zip(names, types, strict=True)]
        return pa.table(columns, names=list(self.spec.keys))

    def as_spark(self, rows: pa.Table) -> pa.Table:
        """Convert rows to Spark's layout, including nested values.

        Raises ``SourceError`` for a nested value that does not fit.
        """
        if rows.schema.equals(self.out):
            return rows
        arrays = []
        for field, column in zip(self.out, rows.columns, strict=True):
            try:
                arrays.append(column.cast(field.type))
            except pa.ArrowInvalid as error:
                raise SourceError(f"the column {field.name} of {self.spec.table} does not fit Spark: {error}") from None
        return pa.table(arrays, schema=self.out)


@dataclass(frozen=True)
class FetchKeys:
    """Fetches the rows of distinct keys."""

    task: Task

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with self.task.fetching() as (fetcher, cache):
            tables = (self.task.keys(batch, batch.schema.names).drop_null() for batch in batches)
            if self.task.spec.cache_ttl is None:
                for answer in fetcher.answers(tables):
                    yield from self.task.as_spark(answer.rows).to_batches()
                return
            for table in tables:
                rows, _ = gather(list(fetcher.look_up(table, cache).values()))
                if rows is not None:
                    yield from self.task.as_spark(rows).to_batches()


@dataclass(frozen=True)
class LoadSplit:
    """Loads the rows of splits, given their numbers."""

    task: Task
    count: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with self.task.fetching() as (fetcher, _):
            for batch in batches:
                for index in batch.column(0).to_pylist():
                    for rows in fetcher.read_split(index, self.count):
                        yield from self.task.as_spark(rows).to_batches()


@dataclass(frozen=True)
class AddMatches:
    """Adds an array of the fetched rows to each row, whose last columns are the keys; the key columns are dropped."""

    task: Task
    left_names: list[str]  # of the columns before the keys, in the result
    key_names: list[str]
    counting: bool = False  # adds a last column with the counts of a batch, in its first row

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with self.task.fetching() as (fetcher, cache):
            reported = Counters()
            for batch in batches:
                keys = self.task.keys(batch, self.key_names)
                values = key_values(keys, keys.column_names)
                distinct = first_rows(values)
                found = fetcher.look_up(keys.take(list(distinct.values())), cache) if distinct else {}
                left = pa.Table.from_batches([batch]).drop_columns(self.key_names).rename_columns(self.left_names)
                for out in self._with_matches(left, values, found):
                    yield with_counts(out, fetcher.counters - reported) if self.counting else out
                    reported = fetcher.counters + Counters() if out.num_rows else reported

    def _with_matches(
        self, left: pa.Table, values: list[Hashable], found: dict[Hashable, Span]
    ) -> Iterator[pa.RecordBatch]:
        rows, spans = gather(list(found.values()))
        where = dict(zip(found, spans, strict=True))
        right = self.task.out.empty_table() if rows is None else self.task.as_spark(rows)
        start = 0
        while start < len(values):
            matches: list[int] = []
            offsets = [0]
            for value in values[start:]:
                if (span := where.get(value)) is not None:
                    matches += range(span.start, span.start + span.length)
                offsets.append(len(matches))
                if len(matches) >= _ROWS_OUT:
                    break
            matched = right.take(pa.array(matches, pa.int64()))
            out = _nested(left.slice(start, len(offsets) - 1), matched, offsets)
            yield from out.combine_chunks().to_batches()
            start += len(offsets) - 1


def with_counts(batch: pa.RecordBatch, counts: Counters) -> pa.RecordBatch:
    """Append a struct column with counts: set in the first row, NULL in the others."""
    first = [asdict(counts)] if batch.num_rows else []
    column = pa.array([*first, *[None] * (batch.num_rows - 1)], COUNTS)
    return pa.RecordBatch.from_arrays([*batch.columns, column], names=[*batch.schema.names, "__dt_counts"])


def _nested(left: pa.Table, right: pa.Table, offsets: list[int]) -> pa.Table:
    """Append to each left row an array of its right rows, those from one offset to the next."""
    structs = pa.StructArray.from_arrays([_whole(column) for column in right.columns], names=right.column_names)
    return left.append_column("matches", pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
