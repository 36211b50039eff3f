"""A table that lives elsewhere and is asked by key.

class Rates(LookupSource):
    unique_keys = (("currency",),)

    def schema(self):
        return pa.schema([("currency", pa.string()), ("rate", pa.float64())])

    def fetch(self, keys):
        return pa.Table.from_pylist(ask(keys["currency"].to_pylist()), self.schema())

The connectors are such classes too: ``adbc.py``, ``http.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


class LookupSource(ABC):
    """What a lookup needs to know about a table, and the one thing it does with it: fetch the rows of some keys.

    A source is pickled and sent to the tasks; each task opens its own copy, uses it from one thread at a time, and
    closes it on every path.  ``repr`` is what plans, logs and errors show: it never holds a credential.  A method may
    raise anything; the round trip is then tried again on a source that was closed and opened anew, as often as the
    lookup says, unless the error is a ``SourceError``, which no new attempt mends.
    """

    unique_keys: tuple[tuple[str, ...], ...] = ()
    """Sets of columns of which no two rows have the same values, rows with a NULL among them apart."""

    fetch_keys: tuple[tuple[str, ...], ...] | None = None
    """Sets of columns that rows can be fetched by; None: any.  Constants that are not in such a set are compared
    after the fetch."""

    can_scan_share: bool = False
    """Whether ``scan_share`` can be called."""

    @abstractmethod
    def schema(self) -> pa.Schema:
        """All columns, with Arrow types that Spark knows.  Works on a source that was not opened."""

    @abstractmethod
    def fetch(self, keys: pa.Table) -> pa.Table:
        """Return the rows whose key columns are equal to a row of ``keys``, in any order.

        The columns of ``keys`` are columns of this source, with their types; its rows are distinct and hold no NULL.
        The rows have all columns of the schema, or those of ``narrowed``.
        """

    def scan_share(self, index: int, count: int, keys: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """Read one of ``count`` shares of the whole table: rows with equal ``keys`` are in the same share.

        Together the shares are the table.  Which share a row is in is for the source to say.
        """
        raise NotImplementedError(f"{self!r} cannot be scanned")

    def rows(self) -> int | None:
        """How many rows there are, about; None when that is not known."""
        return None

    def narrowed(self, columns: tuple[str, ...]) -> LookupSource:
        """Return this source with only these columns; it may also return itself, and more columns than asked for."""
        return self

    def open(self) -> None:  # noqa: B027 - most sources have nothing to open
        """Connect, at the start of a task and after a fault.  What it gets hold of must not be pickled."""

    def close(self) -> None:  # noqa: B027
        """Let go of everything; called on every path, also on a source that was never opened."""

    def cancel(self) -> None:  # noqa: B027
        """Make a call that takes too long come to an end; called from another thread, while the call runs."""

    def redacted(self, text: str) -> str:
        """Take credentials out of what an error says."""
        return text

    def __repr__(self) -> str:
        return type(self).__name__
