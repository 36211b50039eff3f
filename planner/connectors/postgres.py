"""PostgreSQL: ``FROM unnest($1::bigint[]) AS k (k0) JOIN customers AS t ON t.id = k.k0``, one statement for a batch."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from planner.connectors.adbc import AdbcSource, DbColumn, driver, quoted
from planner.connectors.conninfo import secrets, written
from planner.connectors.credentials import Credential, read, readable, redacted, refuse_password

if TYPE_CHECKING:
    import pyarrow as pa

# Types whose values are the same in PostgreSQL, Arrow and Spark: native name -> the type of an array of keys.
_PLAIN = {
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
    "float4": "real",
    "float8": "double precision",
    "bool": "boolean",
    "bytea": "bytea",
    "date": "date",
    "timestamp": "timestamp",
    "timestamptz": "timestamptz",
}
_TEXTS = ("text", "varchar", "name")
_ENDLESS = {  # Spark has no infinite dates; its own JDBC reader takes the first and the last of those it prints
    "date": ("DATE '0001-01-01'", "DATE '9999-12-31'"),
    "timestamp": ("TIMESTAMP '0001-01-01'", "TIMESTAMP '9999-12-31 23:59:59.999999'"),
    "timestamptz": ("TIMESTAMPTZ '0001-01-01 00:00:00Z'", "TIMESTAMPTZ '9999-12-31 23:59:59.999999Z'"),
}
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_NUMERIC = (38, 18)  # precision and scale of a NUMERIC that has none, as Spark's own JDBC reader has it

_UNIQUE = """
SELECT (SELECT string_agg(a.attname, E'\\x01' ORDER BY k.n)
        FROM unnest(i.indkey::smallint[]) WITH ORDINALITY AS k (attnum, n)
        JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
        WHERE k.n <= i.indnkeyatts) AS names
FROM pg_index AS i
WHERE i.indrelid = to_regclass($1) AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
ORDER BY i.indisprimary DESC, i.indexrelid
"""


class PostgresSource(AdbcSource):
    """A table, view or query of a PostgreSQL server.

    ``uri`` is ``env("NAME")`` for an environment variable, a callable that returns a connection string, or a string
    without a password.  UUID, CHAR(n), JSON, enums and types of one's own arrive as text, NUMERIC without a precision
    as DECIMAL(38, 18).
    """

    database = "PostgreSQL"

    def __init__(
        self,
        table: str | Sequence[str] | None = None,
        *,
        uri: Credential | str,
        query: str | None = None,
        unique_keys: Sequence[Sequence[str]] = (),
    ) -> None:
        super().__init__(table, query=query, unique_keys=unique_keys)
        if isinstance(uri, str):
            refuse_password(uri)
        self._uri = uri
        self._secrets: tuple[str, ...] = ()

    def redacted(self, text: str) -> str:
        return redacted(text, self._secrets)

    def rows(self) -> int | None:
        """The estimate of PostgreSQL's own planner."""
        import json

        with self._connect() as connection, connection.cursor() as cursor:
            cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})  # COPY takes no EXPLAIN
            cursor.execute(f"EXPLAIN (FORMAT JSON) SELECT * FROM {self._relation} AS t")
            plan = cursor.fetchall()[0][0]
        found = (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]["Plan Rows"]
        return int(found)

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_secrets": ()}

    def _connect(self) -> Any:
        dbapi = driver("adbc_driver_postgresql.dbapi", "adbc-driver-postgresql")
        uri = read(self._uri, f"the uri of {self!r}")
        found = readable(uri)
        self._secrets = secrets(found)
        try:
            connection = _connected(written(found))
        except dbapi.Error as error:
            raise ConnectionError(self.redacted(str(error).strip())) from None
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET default_transaction_read_only = on")
        except BaseException:
            connection.close()
            raise
        return connection

    def _describe(self, cursor: Any) -> tuple[tuple[DbColumn, ...], tuple[tuple[str, ...], ...]]:
        cursor.execute(f"SELECT * FROM {self._relation} AS t LIMIT 0")
        columns = tuple(_column(field) for field in cursor.fetch_arrow_table().schema)
        if self._query:
            return columns, ()
        cursor.execute(_UNIQUE, (self._relation,))
        return columns, tuple(tuple(row[0].split("\x01")) for row in cursor.fetchall())

    def _statement(self, keys: pa.Table) -> tuple[int, str, Any]:
        import pyarrow as pa

        columns = [self._column(name) for name in keys.column_names]
        for column in columns:
            keys = _possible(keys, column)
        arrays, types, conditions = [], [], []
        for n, column in enumerate(columns):
            arrays.append(pa.array([_bound(keys.column(n), column).to_pylist()], pa.list_(_bound_type(column))))
            types.append(f"${n + 1}::{_array_type(column)}[]")
            conditions.append(_equal(f"t.{quoted(column.name)}", f"k.k{n}", column))
        names = ", ".join(f"k{n}" for n in range(len(columns)))
        statement = (
            f"SELECT {self._items()} FROM unnest({', '.join(types)}) AS k ({names}) "
            f"JOIN {self._relation} AS t ON {' AND '.join(conditions)}"
        )
        batch = pa.record_batch(arrays, names=[f"p{n}" for n in range(len(arrays))])
        return keys.num_rows, statement, batch

    def _share_statement(self, keys: Sequence[DbColumn]) -> str:
        values = ", ".join(_hashed(f"t.{quoted(column.name)}", column) for column in keys)
        return (
            f"SELECT {self._items()} FROM {self._relation} AS t "
            f"WHERE (hashtextextended(ROW({values})::text, 0) & 9223372036854775807) % $2::bigint = $1::bigint"
        )

    def _selected(self, column: DbColumn) -> str:
        name = f"t.{quoted(column.name)}"
        if column.native in _ENDLESS:
            first, last = _ENDLESS[column.native]
            return f"CASE WHEN isfinite({name}) THEN {name} WHEN {name} > {first} THEN {last} ELSE {first} END"
        return name if column.native in _PLAIN or column.native in _TEXTS else f"{name}::text"

    def _converted(self, table: pa.Table, columns: Sequence[DbColumn]) -> pa.Table:
        import pyarrow as pa

        arrays = []
        for column, array in zip(columns, table.columns, strict=True):
            arrays.append(array.cast(column.type) if pa.types.is_decimal(column.type) else array)
        return pa.table(arrays, names=[column.name for column in columns])


class _Database:
    """What the driver knows about a server: its types, which take longer to read than a connection to open."""

    def __init__(self, database: Any) -> None:
        self.database = database

    def clone(self) -> _Database:
        return self

    def close(self) -> None:
        """A connection closes its database with itself; this one stays, and holds no connection."""


_databases: dict[str, _Database] = {}
_connecting = threading.Lock()


def _connected(uri: str) -> Any:
    import adbc_driver_manager
    import adbc_driver_manager.dbapi
    import adbc_driver_postgresql

    with _connecting:
        known = _databases.get(uri)
        if known is None:
            known = _databases[uri] = _Database(adbc_driver_postgresql.connect(uri))
        connection = adbc_driver_manager.AdbcConnection(known.database)
    return adbc_driver_manager.dbapi.Connection(known, connection, autocommit=True)  # type: ignore[arg-type]


def _column(field: pa.Field) -> DbColumn:
    """A column as the driver describes it: in the field's metadata."""
    import pyarrow as pa

    about = {name.decode(): value.decode() for name, value in (field.metadata or {}).items()}
    native = about.get("POSTGRESQL:type", "").strip("'")
    if native in _PLAIN:
        return DbColumn(field.name, field.type, native)
    if native == "numeric":
        precision, scale = _numeric(int(about.get("POSTGRESQL:typmod", "-1").strip("'")))
        return DbColumn(field.name, pa.decimal128(precision, scale), native)
    return DbColumn(field.name, pa.string(), native)


def _numeric(modifier: int) -> tuple[int, int]:
    """Precision and scale of a NUMERIC, out of its type modifier.

    >>> _numeric(((12 << 16) | 3) + 4), _numeric(-1)
    ((12, 3), (38, 18))
    """
    if modifier < 4:
        return _NUMERIC
    precision, scale = (modifier - 4) >> 16, (modifier - 4) & 0x7FF
    return (precision, scale) if 0 <= scale <= precision <= _NUMERIC[0] else _NUMERIC


def _possible(keys: pa.Table, column: DbColumn) -> pa.Table:
    """The keys that the column can have at all: a text that is no UUID must not fail a whole batch."""
    import pyarrow as pa

    if not pa.types.is_string(column.type):
        return keys
    test: Callable[[str], object] = _UUID.fullmatch if column.native == "uuid" else lambda text: "\0" not in text
    values = keys.column(column.name).to_pylist()
    kept = [row for row, value in enumerate(values) if test(value)]
    return keys if len(kept) == len(values) else keys.take(pa.array(kept, pa.int64()))


def _bound(keys: pa.ChunkedArray, column: DbColumn) -> pa.ChunkedArray:
    import pyarrow as pa

    return keys.cast(pa.string()) if pa.types.is_decimal(column.type) else keys


def _bound_type(column: DbColumn) -> pa.DataType:
    import pyarrow as pa

    return pa.string() if pa.types.is_decimal(column.type) else column.type


def _array_type(column: DbColumn) -> str:
    if column.native == "numeric":
        return "text[]::numeric"
    return "text[]::uuid" if column.native == "uuid" else _PLAIN.get(column.native, "text")


def _equal(name: str, key: str, column: DbColumn) -> str:
    """The condition that a column is equal to a key as Spark sees it: texts to the byte."""
    if column.native in _PLAIN or column.native in ("numeric", "uuid"):
        return f"{name} = {key}"
    if column.native in _TEXTS:
        return f'{name} = {key} AND {name} COLLATE "C" = {key}'
    if column.native == "bpchar":  # with its own operator, which its index knows, and then to the byte
        return f'{name} = {key}::bpchar AND {name}::text COLLATE "C" = {key}'
    return f'{name}::text COLLATE "C" = {key}'


def _hashed(name: str, column: DbColumn) -> str:
    """What is hashed of a column, so that equal values are hashed to the same."""
    if column.native == "numeric":
        return f"trim_scale({name})"
    return f"{name} + 0" if column.native in ("float4", "float8") else name
