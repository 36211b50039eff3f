"""SQLite source: ``FROM keys AS k CROSS JOIN customers AS t WHERE t.id = k.key0`` fetches a batch.

The driver is Python's: it can interrupt a statement, reports the storage class of each value, and reads strings with
zero bytes completely.  Keys are rows of a temporary table.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import pathname2url

from dovetail.executor.connectors.database import (
    ANSWER_BYTES,
    TIMEOUT,
    DatabaseSource,
    DbColumn,
    Unreachable,
    quote_identifier,
)
from dovetail.executor.connectors.keys import key_values
from dovetail.executor.connectors.sqlite_keys import bound_keys, condition, key_columns
from dovetail.executor.connectors.sqlite_values import affinity, check_type, is_injective, read, select_sql, type_of
from dovetail.executor.connectors.values import drop_unmatched_rows
from dovetail.planner.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 1_000  # per fetchmany: much larger batches are slower
_OUT = 16  # batches per yielded table
_UNDECODED = partial(str, encoding="utf-8", errors="surrogateescape")  # strings that are not UTF-8


class SQLiteSource(DatabaseSource):
    """A table, view or query of an SQLite database, a file that every worker can read.

    Columns have their declared types, including DATE, TIMESTAMP, DECIMAL(p, s) and BOOLEAN; other declarations follow
    SQLite's affinity rules, and a column of an expression is STRING unless ``types`` declares it
    (``{"total": "DECIMAL(10, 2)"}``).  Dates are ISO strings.  A value that does not fit its column's type fails the
    lookup.
    """

    database = "SQLite"

    def __init__(
        self,
        table: str | Sequence[str] | None = None,
        *,
        path: str | Path,
        query: str | None = None,
        unique_keys: Sequence[Sequence[str]] = (),
        types: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT,
        max_bytes: int = ANSWER_BYTES,
    ) -> None:
        super().__init__(
            table,
            query=query,
            unique_keys=unique_keys,
            types=types,
            timeout=timeout,
            max_bytes=max_bytes,
        )
        for text in self._types.values():
            check_type(text)
        self._path = str(Path(path).absolute())

    def rows(self) -> int | None:
        """Return the greatest rowid of a table as an upper estimate; None for views and queries."""
        if self._query:
            return None
        try:
            found: int | None = self._call_once(lambda source: source._max_rowid())
        except Unreachable:
            return None
        return found

    def cancel(self) -> None:
        connection = self._connection
        if connection is not None:
            connection.interrupt()

    def _max_rowid(self) -> int | None:
        try:
            found = self._open_connection().execute(f"SELECT max(rowid) FROM {self._relation}").fetchone()
        except sqlite3.Error:  # a view, a table WITHOUT ROWID
            return None
        return int(found[0] or 0)

    def _connect(self) -> Any:
        if not Path(self._path).is_file():
            raise SourceError(f"{self!r}: there is no file {self._path} on this machine")
        name = f"file:{pathname2url(self._path)}?mode=ro"
        connection = sqlite3.connect(name, uri=True, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA temp_store = MEMORY")
        return connection

    def _errors(self) -> tuple[type[Exception], ...]:
        return (sqlite3.Error,)

    def _describe(self, connection: Any) -> tuple[tuple[DbColumn, ...], tuple[tuple[str, ...], ...]]:
        name = self._parts[-1] if self._parts else "__dt_query"
        if self._query:
            connection.execute(f"CREATE TEMP VIEW __dt_query AS {self._query}")
        known = "SELECT name, type FROM pragma_table_xinfo(?) WHERE hidden <> 1 ORDER BY cid"  # 2, 3: generated columns
        columns = tuple(
            DbColumn(name, type_of(self._types.get(name, declared or "")), affinity(declared or ""))
            for name, declared in connection.execute(known, (name,))
        )
        if self._query:
            return columns, ()
        indexed = connection.execute(
            "SELECT l.name, i.name FROM pragma_index_list(?) AS l, pragma_index_info(l.name) AS i "
            'WHERE l."unique" AND NOT l.partial ORDER BY l.seq, i.seqno',
            (name,),
        )
        found: dict[str, list[str | None]] = {}
        for index, column in indexed:
            found.setdefault(index, []).append(column)
        primary = connection.execute("SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", (name,))
        keys = [tuple(row[0] for row in primary), *map(tuple, found.values())]
        exact = {column.name for column in columns if is_injective(column)}
        return columns, tuple(dict.fromkeys(columns_ for columns_ in keys if columns_ and exact.issuperset(columns_)))

    def _rows_of(self, keys: pa.Table) -> Generator[pa.Table]:
        columns = [self._column(name) for name in keys.column_names]
        rows = list(bound_keys(keys, columns))
        if not rows:
            return
        connection = self._open_connection()
        names = [name for n, column in enumerate(columns) for name in key_columns(column, n)]
        table = "_".join(["__dt_keys", *names])  # a table per set of key columns
        connection.execute(f"CREATE TEMP TABLE IF NOT EXISTS {table} (number, {', '.join(names)})")
        where = " AND ".join(condition(column, n) for n, column in enumerate(columns))
        statement = (
            f"SELECT k.number, {self._items()} FROM temp.{table} AS k CROSS JOIN {self._relation} AS t WHERE {where}"
        )
        requested = key_values(keys, keys.column_names)
        with _snapshot(connection):
            connection.execute(f"DELETE FROM temp.{table}")
            connection.executemany(f"INSERT INTO temp.{table} VALUES ({', '.join('?' * (len(names) + 1))})", rows)
            for table in self._tables(statement, (), keys.column_names, numbered=True):
                yield _filter_equal_rows(table, keys.column_names, requested)

    def _split_rows(self, index: int, count: int, keys: Sequence[DbColumn]) -> Generator[pa.Table]:
        hashed = " + ".join(_hash_sql(f"t.{quote_identifier(column.name)}", column) for column in keys)
        where = f"abs(coalesce({hashed}, 0) % ?2) = ?1"
        statement = f"SELECT {self._items()} FROM {self._relation} AS t WHERE {where}"
        with _snapshot(self._open_connection()):
            yield from self._tables(statement, (index, count), [column.name for column in keys])

    def _items(self) -> str:
        return ", ".join(select_sql(self._column(name)) for name in self._names())

    def _tables(
        self, statement: str, parameters: tuple[int, ...], keys: Sequence[str], *, numbered: bool = False
    ) -> Iterator[pa.Table]:
        """Yield the rows of a statement whose keys fit; with ``numbered``, the key's number is the first column."""
        import pyarrow as pa

        columns = [*([_number()] if numbered else []), *(self._column(name) for name in self._names())]
        tables = []
        for rows in self._rows(statement, parameters):
            pairs = zip(columns, zip(*rows, strict=True), strict=True)
            found = [(column.name, read(values, column)) for column, values in pairs]
            tables.append(drop_unmatched_rows(found, keys, self.remedy, self._constants))
            if len(tables) == _OUT:
                yield pa.concat_tables(tables).combine_chunks()
                tables = []
        if tables:
            yield pa.concat_tables(tables).combine_chunks()

    def _rows(self, statement: str, parameters: tuple[int, ...]) -> Iterator[list[tuple[Any, ...]]]:
        """Yield rows as Python values; from the first non-UTF-8 string on, invalid bytes are surrogates."""
        connection, done = self._open_connection(), 0
        connection.text_factory = str
        cursor = connection.execute(statement, parameters)
        try:
            while rows := cursor.fetchmany(_ROWS):
                done += len(rows)
                yield rows
            return
        except sqlite3.OperationalError as error:
            if "decode" not in str(error):
                raise
        connection.text_factory = _UNDECODED
        cursor = connection.execute(statement, parameters)  # in the same transaction: the same rows in the same order
        while done:
            done -= len(cursor.fetchmany(min(done, _ROWS)))
        while rows := cursor.fetchmany(_ROWS):
            yield rows


@contextmanager
def _snapshot(connection: Any) -> Iterator[None]:
    """Run in one transaction, which is rolled back; the connection may be closed before its end."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")


def _filter_equal_rows(table: pa.Table, names: Sequence[str], requested: Sequence[object]) -> pa.Table:
    """Keep the rows that equal the key they were found by, and drop the key's number."""
    import pyarrow as pa

    numbers, rows = table.column(_NUMBER).to_pylist(), table.drop_columns(_NUMBER)
    equal = [value == requested[number] for value, number in zip(key_values(rows, names), numbers, strict=True)]
    return rows if all(equal) else rows.filter(pa.array(equal, pa.bool_()))


def _hash_sql(name: str, column: DbColumn) -> str:
    """Return an expression that is equal for equal values; SQLite has no hash function."""
    if column.native == "INTEGER":
        return name
    text = f"CAST({name} AS TEXT)"
    letters = [f"{factor} * coalesce(unicode(substr({text}, {place})), 0)" for factor, place in _LETTERS]
    return f"({' + '.join([f'{_LENGTH} * length({text})', *letters])})"


_LENGTH = 7919
_LETTERS = ((1, -1), (257, -2), (66_049, -3), (31, 1), (8_191, 2))
_NUMBER = ""  # the column of a row's number among the requested keys


def _number() -> DbColumn:
    return DbColumn(_NUMBER, type_of("INTEGER"), "INTEGER")
