"""The interface of lookup sources: external tables that are fetched by key.

class Rates(LookupSource):
    unique_keys = (("currency",),)

    def schema(self):
        return pa.schema([("currency", pa.string()), ("rate", pa.float64())])

    def fetch(self, keys):
        return pa.Table.from_pylist(request(keys["currency"].to_pylist()), self.schema())

The connectors in this folder are examples: ``database.py``, ``http.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


class LookupSource(ABC):
    """An external table: its description, and how to fetch rows by key.

    A source is pickled and sent to the tasks; each task opens its own copy, uses it from one thread at a time, and
    closes it on every path.  Plans, logs and errors show its ``repr``, which never holds a credential.  A method may
    raise anything: the source is closed, opened again and the round trip is retried, as often as the lookup's options
    allow.  A ``SourceError`` is permanent and is not retried.
    """

    unique_keys: tuple[tuple[str, ...], ...] = ()
    """Unique keys: sets of columns.  Rows with a NULL in the key are exempt, as in SQL."""

    fetch_keys: tuple[tuple[str, ...], ...] | None = None
    """Sets of columns that rows can be fetched by; None: any set.  Other constants are compared after the fetch."""

    can_scan_split: bool = False
    """Whether the source implements ``scan_split``."""

    @abstractmethod
    def schema(self) -> pa.Schema:
        """Return all columns, with Arrow types that Spark supports.  Must work on a source that was not opened."""

    @abstractmethod
    def fetch(self, keys: pa.Table) -> pa.Table:
        """Return the rows whose key columns are equal to a row of ``keys``, in any order.

        The columns of ``keys`` are columns of this source, with their types; its rows are distinct and hold no NULL.
        The rows have all columns of the schema, or those of ``prune_columns``.
        """

    def scan_split(self, index: int, count: int, keys: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """Read one of ``count`` splits, which together are the whole table.

        ``keys`` are the lookup columns: rows with equal keys should be in the same split.  A row whose key equals no
        value of Spark's type may be left out.
        """
        raise NotImplementedError(f"{self!r} cannot be scanned")

    def rows(self) -> int | None:
        """Return the approximate number of rows; None if unknown."""
        return None

    def prune_columns(self, columns: tuple[str, ...]) -> LookupSource:
        """Column pruning: return this source with only these columns.  It may return itself, and more columns."""
        return self

    def push_filters(self, constants: Mapping[str, pa.Scalar]) -> LookupSource:
        """Filter pushdown: return this source with only the rows that have these values.  It may return more rows."""
        return self

    def open(self) -> None:  # noqa: B027 - most sources have nothing to open
        """Connect, at the start of a task and after a fault.  Resources that it acquires must not be pickled."""

    def close(self) -> None:  # noqa: B027
        """Release all resources; called on every path, also on a source that was never opened."""

    def cancel(self) -> None:  # noqa: B027
        """Cancel the running call after a timeout; called from another thread."""

    def remedy(self, name: str, type_: pa.DataType) -> str:
        """Return the advice for a value of a column that Spark's type cannot hold."""
        return f"give {name} another type in the source"

    def redact(self, text: str) -> str:
        """Remove credentials from an error message."""
        return text

    def __repr__(self) -> str:
        return type(self).__name__
