"""The ways in which a lookup reads a source, without Spark: by key, and whole."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pyarrow as pa

from dovetail.executor.connectors.fetch import Fetcher
from dovetail.executor.connectors.source import LookupSource
from dovetail.planner.logical.lookup_spec import LookupSpec


def keyed(source: LookupSource, key: str, keys: pa.Array, batch: int = 7) -> pa.Table:
    """The rows of keys, a few in each round trip."""
    return _fetched(source, key, lambda fetcher: [a.rows for a in fetcher.answers([pa.table({key: keys})])], batch)


def whole(source: LookupSource, key: str) -> pa.Table:
    """All rows, in three shares."""
    return _fetched(source, key, lambda fetcher: [t for part in range(3) for t in fetcher.read_split(part, 3)], 7)


def _fetched(source: LookupSource, key: str, work: Callable[[Fetcher], list[pa.Table]], batch: int) -> pa.Table:
    schema = source.schema()
    with closing(Fetcher(source, LookupSpec("T", (key,), tuple(schema.names), delay=0.0, batch=batch), schema)) as own:
        return pa.concat_tables([schema.empty_table(), *work(own)])
