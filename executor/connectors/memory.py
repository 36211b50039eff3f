"""An in-memory lookup source: for tests and small constant tables."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dovetail.executor.connectors.keys import key_values
from dovetail.executor.connectors.source import LookupSource

if TYPE_CHECKING:
    import pyarrow as pa


class MemorySource(LookupSource):
    """The rows of an Arrow table, which is sent with every task.

    >>> import pyarrow as pa
    >>> countries = MemorySource(pa.table({"code": ["DE", "FR"], "name": ["Germany", "France"]}), [("code",)])
    >>> countries.fetch(pa.table({"code": ["FR"]})).to_pylist()
    [{'code': 'FR', 'name': 'France'}]
    """

    can_scan_split = True

    def __init__(
        self,
        table: pa.Table,
        unique_keys: list[tuple[str, ...]] | tuple[tuple[str, ...], ...] = (),
        fetch_keys: list[tuple[str, ...]] | tuple[tuple[str, ...], ...] | None = None,
    ):
        self.table = table
        self.unique_keys = tuple(map(tuple, unique_keys))
        self.fetch_keys = None if fetch_keys is None else tuple(map(tuple, fetch_keys))

    def schema(self) -> pa.Schema:
        return self.table.schema

    def rows(self) -> int:
        return int(self.table.num_rows)

    def fetch(self, keys: pa.Table) -> pa.Table:
        wanted = set(key_values(keys, keys.column_names))
        return self._rows([value in wanted for value in key_values(self.table, keys.column_names)])

    def scan_split(self, index: int, count: int, keys: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        values = key_values(self.table, keys)
        yield from self._rows([zlib.crc32(repr(v).encode()) % count == index for v in values]).to_batches()

    def _rows(self, kept: list[bool]) -> pa.Table:
        import pyarrow as pa

        return self.table.filter(pa.array(kept, pa.bool_()))

    def __repr__(self) -> str:
        return f"MemorySource({self.table.num_rows} rows)"
