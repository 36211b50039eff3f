"""PostgreSQL source: ``FROM unnest($1::bigint[]) AS k (k0) JOIN customers AS t ON t.id = k.k0`` fetches a batch."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any

from dovetail.executor.connectors.conninfo import secret_values
from dovetail.executor.connectors.credentials import Credential, parse_uri, read, redact, refuse_password
from dovetail.executor.connectors.database import (
    ANSWER_BYTES,
    TIMEOUT,
    DatabaseSource,
    DbColumn,
    Unreachable,
    quote_identifier,
)
from dovetail.executor.connectors.postgres_connection import connect
from dovetail.executor.connectors.postgres_values import RANGES, convert_unchanged, drop_impossible_keys, mark_misfits
from dovetail.executor.connectors.values import (
    ConvertedColumn,
    arrow_type,
    drop_unmatched_rows,
    parse_decimals,
    spark_name,
)
from dovetail.planner.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa

# Types with the same values in PostgreSQL, Arrow and Spark: native name -> array element type of keys.
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
_NUMERIC = (38, 18)  # precision and scale of a NUMERIC without a precision, as in Spark's JDBC reader

_UNIQUE = """
SELECT (SELECT string_agg(a.attname, E'\\x01' ORDER BY k.n)
        FROM unnest(i.indkey::smallint[]) WITH ORDINALITY AS k (attnum, n)
        JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
        WHERE k.n <= i.indnkeyatts) AS names
FROM pg_index AS i
JOIN pg_class AS c ON c.oid = i.indrelid
WHERE i.indrelid = to_regclass($1) AND (c.relkind = 'p' OR NOT EXISTS (SELECT FROM pg_inherits WHERE inhparent = c.oid))
  AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
ORDER BY i.indisprimary DESC, i.indexrelid
"""


class PostgresSource(DatabaseSource):
    """A table, view or query of a PostgreSQL server.

    ``uri`` is ``env("NAME")`` for an environment variable, a callable that returns a connection string, or a string
    without a password.  UUID, CHAR(n), JSON, enums and user-defined types become STRING, and NUMERIC without a
    precision becomes DECIMAL(38, 18).  ``types`` may make any column STRING, and a NUMERIC another DECIMAL.  A value
    that Spark's type cannot hold fails the lookup: infinite dates, NaN, and a NUMERIC with too many digits.
    """

    database = "PostgreSQL"

    def __init__(
        self,
        table: str | Sequence[str] | None = None,
        *,
        uri: Credential | str,
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
        if isinstance(uri, str):
            refuse_password(uri)
        for text in self._types.values():
            arrow_type(text)
        self._uri = uri
        self._secrets: tuple[str, ...] = ()

    def redact(self, text: str) -> str:
        return redact(text, self._secrets)

    def cancel(self) -> None:
        connection = self._connection
        if connection is not None:
            connection.adbc_cancel()

    def rows(self) -> int | None:
        """Return the row estimate of PostgreSQL's planner."""
        try:
            return int(self._call_once(lambda source: source._estimate()))
        except Unreachable:
            return None

    def _estimate(self) -> int:
        with closing(self._open_connection().cursor()) as cursor:
            cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})  # COPY takes no EXPLAIN
            cursor.execute(f"EXPLAIN (FORMAT JSON) SELECT * FROM {self._relation} AS t")
            plan = cursor.fetchall()[0][0]
        found = (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]["Plan Rows"]
        return int(found)

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_secrets": ()}

    def _connect(self) -> Any:
        dbapi = _driver()
        uri = read(self._uri, f"the uri of {self!r}")
        found = parse_uri(uri)
        self._secrets = secret_values(found)
        try:
            connection = connect(found)
        except dbapi.Error as error:
            raise ConnectionError(self.redact(str(error).strip())) from None
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET default_transaction_read_only = on")
        except BaseException:
            connection.close()
            raise
        return connection

    def _describe(self, connection: Any) -> tuple[tuple[DbColumn, ...], tuple[tuple[str, ...], ...]]:
        with closing(connection.cursor()) as cursor:
            cursor.execute(f"SELECT * FROM {self._relation} AS t LIMIT 0")
            columns = tuple(_column(field, self._types) for field in cursor.fetch_arrow_table().schema)
            if self._query:
                return columns, ()
            cursor.execute(_UNIQUE, (self._relation,))
            return columns, tuple(tuple(row[0].split("\x01")) for row in cursor.fetchall())

    def _rows_of(self, keys: pa.Table) -> Generator[pa.Table]:
        columns = [self._column(name) for name in keys.column_names]
        for column in columns:
            keys = drop_impossible_keys(keys, column)
        if keys.num_rows:
            yield from self._answers(*self._statement(keys, columns), keys.column_names)

    def _split_rows(self, index: int, count: int, keys: Sequence[DbColumn]) -> Generator[pa.Table]:
        return self._answers(self._split_statement(keys), (index, count), [column.name for column in keys])

    def _answers(self, statement: str, parameters: Any, keys: Sequence[str]) -> Generator[pa.Table]:
        """Yield the rows of a statement in tables as they arrive; at least one table, which may be empty."""
        import pyarrow as pa

        columns = [self._column(name) for name in self._names()]
        with closing(self._open_connection().cursor()) as cursor:
            cursor.execute(statement, parameters)
            reader = cursor.fetch_record_batch()
            for table in chain([reader.schema.empty_table()], (pa.Table.from_batches([batch]) for batch in reader)):
                pairs = zip(columns, table.columns, strict=True)
                found = [(c.name, _convert(values, c)) for c, values in pairs]
                yield drop_unmatched_rows(found, keys, self.remedy, self._constants)

    def _statement(self, keys: pa.Table, columns: Sequence[DbColumn]) -> tuple[str, Any]:
        import pyarrow as pa

        arrays, types, conditions = [], [], []
        for n, column in enumerate(columns):
            arrays.append(_as_list(_bind(keys.column(n), column)))
            types.append(f"${n + 1}::{_array_type(column)}[]")
            conditions.append(_equality_sql(f"t.{quote_identifier(column.name)}", f"k.k{n}", column))
        names = ", ".join(f"k{n}" for n in range(len(columns)))
        statement = (
            f"SELECT {self._items()} FROM unnest({', '.join(types)}) AS k ({names}) "
            f"JOIN {self._relation} AS t ON {' AND '.join(conditions)}"
        )
        batch = pa.record_batch(arrays, names=[f"p{n}" for n in range(len(arrays))])
        return statement, batch

    def _split_statement(self, keys: Sequence[DbColumn]) -> str:
        values = ", ".join(_hash_sql(f"t.{quote_identifier(column.name)}", column) for column in keys)
        return (
            f"SELECT {self._items()} FROM {self._relation} AS t "
            f"WHERE (hashtextextended(ROW({values})::text, 0) & 9223372036854775807) % $2::bigint = $1::bigint"
        )

    def _items(self) -> str:
        columns = [self._column(name) for name in self._names()]
        return ", ".join(f"{_select_sql(column)} AS {quote_identifier(column.name)}" for column in columns)

    def _errors(self) -> tuple[type[Exception], ...]:
        return (_driver().Error,)


def _driver() -> Any:
    """Import the driver.  Raises ``SourceError`` if it is not installed."""
    try:
        return import_module("adbc_driver_postgresql.dbapi")
    except ImportError:
        raise SourceError("adbc-driver-postgresql is not installed; pip install adbc-driver-postgresql") from None


def _select_sql(column: DbColumn) -> str:
    name = f"t.{quote_identifier(column.name)}"
    return name if column.native in _PLAIN or column.native in _TEXTS else f"{name}::text"


def _convert(values: pa.ChunkedArray, column: DbColumn) -> ConvertedColumn:
    """Convert a column of the driver to its type in ``schema``; a type that has changed since stays."""
    import pyarrow as pa

    if pa.types.is_decimal(column.type) and pa.types.is_string(values.type):
        return parse_decimals(values, column.type)
    if column.native in RANGES and values.type == column.type:
        return mark_misfits(values, column)
    return convert_unchanged(values)


def _column(field: pa.Field, types: Mapping[str, str]) -> DbColumn:
    """Build a column from the driver's field metadata and the declared types."""
    import pyarrow as pa

    about = {name.decode(): value.decode() for name, value in (field.metadata or {}).items()}
    native = about.get("POSTGRESQL:type", "").strip("'")
    declared = arrow_type(types[field.name]) if field.name in types else None
    if declared is not None and pa.types.is_string(declared):
        return DbColumn(field.name, declared, native if native in _TEXTS else f"{native} as text")
    if native == "numeric":
        own = pa.decimal128(*_numeric(int(about.get("POSTGRESQL:typmod", "-1").strip("'"))))
        column = DbColumn(field.name, declared if pa.types.is_decimal(declared or own) and declared else own, native)
    else:
        column = DbColumn(field.name, field.type if native in _PLAIN else pa.string(), native)
    if declared is not None and declared != column.type:
        raise SourceError(
            f"types: {field.name} is {native} in PostgreSQL and can be {spark_name(column.type)} or STRING, not "
            f"{spark_name(declared)}; cast it in a query"
        )
    return column


def _numeric(modifier: int) -> tuple[int, int]:
    """Decode the precision and scale of a NUMERIC from its type modifier.

    >>> _numeric(((12 << 16) | 3) + 4), _numeric(-1)
    ((12, 3), (38, 18))
    """
    if modifier < 4:
        return _NUMERIC
    precision, scale = (modifier - 4) >> 16, (modifier - 4) & 0x7FF
    return (precision, scale) if 0 <= scale <= precision <= _NUMERIC[0] else _NUMERIC


def _as_list(keys: pa.ChunkedArray) -> pa.Array:
    """Put all keys into one list, without Python's dates, which end with 9999."""
    import pyarrow as pa

    values = pa.concat_arrays(keys.chunks) if keys.num_chunks else pa.array([], keys.type)
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)


def _bind(keys: pa.ChunkedArray, column: DbColumn) -> pa.ChunkedArray:
    import pyarrow as pa

    if pa.types.is_decimal(column.type):
        return pa.chunked_array([pa.array([f"{value:f}" for value in keys.to_pylist()], pa.string())])
    return keys


def _array_type(column: DbColumn) -> str:
    if column.native == "numeric":
        return "text[]::numeric"
    return "text[]::uuid" if column.native == "uuid" else _PLAIN.get(column.native, "text")


def _equality_sql(name: str, key: str, column: DbColumn) -> str:
    """Return the condition that a column equals a key by Spark's semantics: strings are compared by bytes."""
    if column.native in _PLAIN or column.native in ("numeric", "uuid"):
        return f"{name} = {key}"
    if column.native in _TEXTS:
        return f'{name} = {key} AND {name} COLLATE "C" = {key}'
    if column.native == "bpchar":  # with its own operator, which its index supports, and then by bytes
        return f'{name} = {key}::bpchar AND {name}::text COLLATE "C" = {key}'
    return f'{name}::text COLLATE "C" = {key}'


def _hash_sql(name: str, column: DbColumn) -> str:
    """Return the expression to hash for a column, so that equal values have equal hashes."""
    if column.native == "numeric":
        return f"trim_scale({name})"
    return f"{name} + 0" if column.native in ("float4", "float8") else name
