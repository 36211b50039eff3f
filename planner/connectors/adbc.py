"""Databases that answer in Arrow, over ADBC: what PostgreSQL and SQLite have in common.

A table or a query is asked with one statement for a whole batch of keys.  Identifiers are quoted, keys are bound as
parameters, and no value is ever part of a statement.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.connectors.source import LookupSource
from planner.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class DbColumn:
    """A column: its Arrow type as Spark gets it, and the database's own name for its type."""

    name: str
    type: pa.DataType
    native: str


def quoted(name: str) -> str:
    """An identifier as SQL writes it, quotes in it doubled."""
    if "\0" in name or not name:
        raise SourceError(f"{name!r} is no name for a table or column")
    return '"' + name.replace('"', '""') + '"'


class AdbcSource(LookupSource):
    """A table, a view or a query of a database.

    ``table``: a name, with dots between its parts (a tuple of parts where a name has a dot in it); ``query``: a SELECT
    instead; ``unique_keys``: sets of columns, where the database does not know them itself, as for a query.
    """

    database = "ADBC"
    can_scan_share = True

    def __init__(
        self,
        table: str | Sequence[str] | None = None,
        *,
        query: str | None = None,
        unique_keys: Sequence[Sequence[str]] = (),
    ) -> None:
        if (table is None) == (query is None):
            raise SourceError(f"{type(self).__name__} takes a table or a query, one of the two")
        self._parts = tuple(table.split(".")) if isinstance(table, str) else tuple(table or ())
        self._query = query.strip().rstrip(";") if query else None
        self._declared = tuple(tuple(keys) for keys in unique_keys)
        self._columns: tuple[DbColumn, ...] | None = None
        self._found: tuple[tuple[str, ...], ...] = ()
        self._wanted: tuple[str, ...] | None = None
        self._connection: Any = None
        self._relation = f"({self._query}\n)" if self._query else ".".join(map(quoted, self._parts))

    @property
    def unique_keys(self) -> tuple[tuple[str, ...], ...]:  # type: ignore[override]
        """Those that were declared, and those that the database has a unique index on."""
        self._described()
        return tuple(dict.fromkeys((*self._declared, *self._found)))

    def schema(self) -> pa.Schema:
        import pyarrow as pa

        return pa.schema([(column.name, column.type) for column in self._described()])

    def narrowed(self, columns: tuple[str, ...]) -> LookupSource:
        narrow = self._copy()
        narrow._wanted = tuple(columns)
        return narrow

    def fetch(self, keys: pa.Table) -> pa.Table:
        import pyarrow as pa

        kept, statement, parameters = self._statement(keys)
        if not kept:
            return self.schema().empty_table().select(self._names())
        with closing(self._cursor()) as cursor:
            cursor.execute(statement, parameters)
            return pa.concat_tables(self._answers(cursor))

    def scan_share(self, index: int, count: int, keys: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        columns = [self._column(name) for name in keys]
        with closing(self._cursor()) as cursor:
            cursor.execute(self._share_statement(columns), (index, count))
            for table in self._answers(cursor):
                yield from table.to_batches()

    def open(self) -> None:
        self._connection = self._connect()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def cancel(self) -> None:
        connection = self._connection
        if connection is not None:
            connection.adbc_cancel()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_connection": None}

    def __repr__(self) -> str:
        return f"{self.database} {'query' if self._query else 'table ' + '.'.join(self._parts)}"

    # What a database does in its own way.

    @abstractmethod
    def _connect(self) -> Any:
        """Open a connection that reads and never writes."""

    @abstractmethod
    def _describe(self, cursor: Any) -> tuple[tuple[DbColumn, ...], tuple[tuple[str, ...], ...]]:
        """Columns and unique keys."""

    @abstractmethod
    def _statement(self, keys: pa.Table) -> tuple[int, str, Any]:
        """How many keys the database can have at all, the statement that fetches their rows, and its parameters."""

    @abstractmethod
    def _share_statement(self, keys: Sequence[DbColumn]) -> str:
        """The statement that reads one share; its parameters are the number of the share and that of all shares."""

    @abstractmethod
    def _selected(self, column: DbColumn) -> str:
        """A column as the statement selects it from ``t``."""

    @abstractmethod
    def _converted(self, table: pa.Table, columns: Sequence[DbColumn]) -> pa.Table:
        """What the driver returned, as ``schema`` has it; a type that is another one by now stays as it is."""

    # What all do in the same way.

    def _described(self) -> tuple[DbColumn, ...]:
        if self._columns is None:
            with closing(self._connect()) as connection, closing(connection.cursor()) as cursor:
                columns, found = self._describe(cursor)
            if not columns:
                raise SourceError(f"{self!r} has no columns, or does not exist")
            self._columns, self._found = columns, found
        return self._columns

    def _column(self, name: str) -> DbColumn:
        found = [column for column in self._described() if column.name == name]
        if len(found) != 1:
            raise SourceError(f"{self!r} has {len(found) or 'no'} columns of the name {name}")
        return found[0]

    def _names(self) -> list[str]:
        return list(self._wanted or [column.name for column in self._described()])

    def _items(self) -> str:
        return ", ".join(f"{self._selected(self._column(name))} AS {quoted(name)}" for name in self._names())

    def _cursor(self) -> Any:
        if self._connection is None:
            raise SourceError(f"{self!r} is not open")
        return self._connection.cursor()

    def _answers(self, cursor: Any) -> Iterator[pa.Table]:
        """The rows of a statement as they come in, in tables; at least one, which may be empty."""
        import pyarrow as pa

        columns = [self._column(name) for name in self._names()]
        reader = cursor.fetch_record_batch()
        yield self._converted(reader.schema.empty_table(), columns)
        for batch in reader:
            yield self._converted(pa.Table.from_batches([batch]), columns)

    def _copy(self) -> AdbcSource:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__getstate__())
        return twin


def driver(module: str, package: str) -> Any:
    """Import an ADBC driver; raises ``SourceError`` with the way out where it is not installed."""
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError:
        raise SourceError(f"{package} is not installed; pip install 'dovetail[lookup]'") from None
