"""Database sources: the common base of PostgreSQL and SQLite.

One statement fetches a batch of keys.  Identifiers are quoted, keys are bound as parameters, and no value is ever part
of a statement.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from dovetail.executor.connectors.connection import Connection
from dovetail.executor.connectors.source import LookupSource
from dovetail.planner.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa


T = TypeVar("T")

TIMEOUT = 60.0  # seconds to connect and to describe a table
ANSWER_BYTES = 1 << 30


class Unreachable(SourceError, ConnectionError):
    """A database that did not answer during planning."""


@dataclass(frozen=True)
class DbColumn:
    """A column: its Arrow type as Spark gets it, and the database's name of its type."""

    name: str
    type: pa.DataType
    native: str


def quote_identifier(name: str) -> str:
    """Quote an SQL identifier; double quotes in it are doubled."""
    if "\0" in name or not name:
        raise SourceError(f"{name!r} is not a valid name of a table or column")
    return '"' + name.replace('"', '""') + '"'


class DatabaseSource(LookupSource):
    """A table, a view or a query of a database.

    ``table``: a name, with dots between its parts (a tuple of parts where a name has a dot in it); ``query``: a SELECT
    instead; ``unique_keys``: sets of columns, for keys that the database does not declare, as for a query; ``types``:
    Spark types of columns, to override those that the database suggests; ``timeout``: seconds to connect and to
    describe the table; ``max_bytes``: the maximum size of the answer to one batch of keys.
    """

    database = ""
    can_scan_split = True

    def __init__(
        self,
        table: str | Sequence[str] | None = None,
        *,
        query: str | None = None,
        unique_keys: Sequence[Sequence[str]] = (),
        types: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT,
        max_bytes: int = ANSWER_BYTES,
    ) -> None:
        if (table is None) == (query is None):
            raise SourceError(f"{type(self).__name__} takes either a table or a query; give one of them")
        self._parts = tuple(table.split(".")) if isinstance(table, str) else tuple(table or ())
        self._query = query.strip().rstrip(";") if query else None
        self._declared = tuple(tuple(keys) for keys in unique_keys)
        self._types = dict(types or {})
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._columns: tuple[DbColumn, ...] | None = None
        self._found: tuple[tuple[str, ...], ...] = ()
        self._wanted: tuple[str, ...] | None = None
        self._constants: dict[str, pa.Scalar] = {}  # only rows with these values are requested
        self._connection: Any = None
        self._relation = f"({self._query}\n)" if self._query else ".".join(map(quote_identifier, self._parts))

    @property
    def unique_keys(self) -> tuple[tuple[str, ...], ...]:  # type: ignore[override]
        """The declared keys, and those of the database's unique indexes."""
        self._load_description()
        return tuple(dict.fromkeys((*self._declared, *self._found)))

    def schema(self) -> pa.Schema:
        import pyarrow as pa

        return pa.schema([(column.name, column.type) for column in self._load_description()])

    def prune_columns(self, columns: tuple[str, ...]) -> LookupSource:
        narrow = self._copy()
        narrow._wanted = tuple(columns)
        return narrow

    def push_filters(self, constants: Mapping[str, pa.Scalar]) -> LookupSource:
        some = self._copy()
        some._constants = dict(constants)
        return some

    def fetch(self, keys: pa.Table) -> pa.Table:
        import pyarrow as pa

        with closing(self._rows_of(keys)) as rows:
            tables = list(self._bounded(rows, keys.num_rows))
        return pa.concat_tables(tables) if tables else self.schema().empty_table().select(self._names())

    def scan_split(self, index: int, count: int, keys: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        with closing(self._split_rows(index, count, [self._column(name) for name in keys])) as rows:
            for table in rows:
                yield from table.to_batches()

    def open(self) -> None:
        self._connection = self._connect()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_connection": None}

    def __repr__(self) -> str:
        return f"{self.database} {'query' if self._query else 'table ' + '.'.join(self._parts)}"

    # Each database implements these.

    @abstractmethod
    def _connect(self) -> Any:
        """Open a read-only connection."""

    @abstractmethod
    def _describe(self, connection: Any) -> tuple[tuple[DbColumn, ...], tuple[tuple[str, ...], ...]]:
        """Read the columns and unique keys."""

    @abstractmethod
    def _rows_of(self, keys: pa.Table) -> Generator[pa.Table]:
        """Fetch the rows of keys, with the requested columns."""

    @abstractmethod
    def _split_rows(self, index: int, count: int, keys: Sequence[DbColumn]) -> Generator[pa.Table]:
        """Scan the rows of one split."""

    @abstractmethod
    def _errors(self) -> tuple[type[Exception], ...]:
        """The exception classes of the driver."""

    # Common to all databases.

    def _load_description(self) -> tuple[DbColumn, ...]:
        if self._columns is None:
            columns, found = self._call_once(lambda source: source._describe_now())
            if not columns:
                raise SourceError(f"{self!r} has no columns, or does not exist")
            self._columns, self._found = columns, found
        return self._columns

    def _describe_now(self) -> tuple[tuple[DbColumn, ...], tuple[tuple[str, ...], ...]]:
        columns, found = self._describe(self._open_connection())
        names = [column.name for column in columns]
        if lacking := [name for name in self._types if name not in names]:
            raise SourceError(f"types: {self!r} has no column {lacking[0]}; columns: {', '.join(names)}")
        return columns, found

    def _call_once(self, work: Callable[[Any], T]) -> T:
        """Run ``work`` on a new connection, with the source's timeout."""
        connection = Connection(self)
        try:
            return connection.call(work, self._timeout)
        except TimeoutError:
            remedy = "check that it is up and reachable, or give the source a longer timeout"
            raise Unreachable(f"{self!r}: no answer within {self._timeout:g} s; {remedy}") from None
        except ConnectionError as error:
            raise Unreachable(f"{self!r}: {error}") from None
        except self._errors() as error:
            raise SourceError(f"{self!r}: {connection.redact(' '.join(str(error).split()))}") from None
        finally:
            connection.close()

    def remedy(self, name: str, type_: pa.DataType) -> str:
        """Return the advice for a value that does not fit the type of its column."""
        import pyarrow as pa

        query = "write a query that converts it or leaves it out"
        return query if pa.types.is_string(type_) else f"read it as text, types={{{name!r}: 'STRING'}}, or {query}"

    def _bounded(self, tables: Iterator[pa.Table], keys: int) -> Iterator[pa.Table]:
        """Yield tables up to ``max_bytes`` in total."""
        size = 0
        for table in tables:
            size += table.nbytes
            if size > self._max_bytes:
                raise SourceError(
                    f"the answer to {keys} keys is larger than max_bytes = {self._max_bytes:,}; "
                    "request fewer keys at a time (LOOKUP has 'batch'), select fewer columns, or raise max_bytes"
                )
            yield table

    def _column(self, name: str) -> DbColumn:
        found = [column for column in self._load_description() if column.name == name]
        if len(found) != 1:
            raise SourceError(f"{self!r} has {len(found) or 'no'} columns of the name {name}")
        return found[0]

    def _names(self) -> list[str]:
        return list(self._wanted or [column.name for column in self._load_description()])

    def _open_connection(self) -> Any:
        if self._connection is None:
            raise SourceError(f"{self!r} is not open")
        return self._connection

    def _copy(self) -> DatabaseSource:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__getstate__())
        return twin
