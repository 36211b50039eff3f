"""SQLite: ``FROM json_each(?) AS k CROSS JOIN customers AS t WHERE t.id = k.value``, one statement for a batch."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import pathname2url

from planner.connectors.adbc import AdbcSource, DbColumn, driver, quoted
from planner.connectors.keys import key_values
from planner.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa

_NUMERIC = (38, 18)


class SQLiteSource(AdbcSource):
    """A table, view or query of an SQLite database, a file that every worker can read.

    Columns have the types that they are declared with, DATE, TIMESTAMP, DECIMAL(p, s) and BOOLEAN among them; what is
    declared otherwise follows SQLite's rules of affinity, and a column of an expression is text unless ``types`` says
    what it is (``{"total": "DECIMAL(10, 2)"}``).  Dates are ISO texts; a value that is not what its column is declared
    as fails the lookup.
    """

    database = "SQLite"

    def __init__(
        self,
        table: str | Sequence[str] | None = None,
        *,
        path: str | Path,
        query: str | None = None,
        unique_keys: Sequence[Sequence[str]] = (),
        types: dict[str, str] | None = None,
    ) -> None:
        super().__init__(table, query=query, unique_keys=unique_keys)
        self._path = str(Path(path).absolute())
        self._types = dict(types or {})

    def rows(self) -> int | None:
        """The greatest row number of a table, which is at least the number of rows it has had; None for others."""
        if self._query:
            return None
        with self._connect() as connection, connection.cursor() as cursor:
            try:
                cursor.execute(f"SELECT max(rowid) FROM {self._relation}")
                found = cursor.fetchone()
            except connection.Error:  # a view, a table WITHOUT ROWID
                return None
        return int(found[0] or 0)

    def _connect(self) -> Any:
        dbapi = driver("adbc_driver_sqlite.dbapi", "adbc-driver-sqlite")
        if not Path(self._path).is_file():
            raise SourceError(f"{self!r}: there is no file {self._path} on this machine")
        return dbapi.connect(f"file:{pathname2url(self._path)}?mode=ro", autocommit=True)

    def _describe(self, cursor: Any) -> tuple[tuple[DbColumn, ...], tuple[tuple[str, ...], ...]]:
        name = self._parts[-1] if self._parts else "__dt_query"
        if self._query:
            cursor.execute(f"CREATE TEMP VIEW __dt_query AS {self._query}")
        cursor.execute("SELECT name, type FROM pragma_table_info(?) ORDER BY cid", (name,))
        declared = {name: self._types.get(name, type_ or "") for name, type_ in cursor.fetchall()}
        columns = tuple(DbColumn(name, _type(text), text.upper()) for name, text in declared.items())
        if self._query:
            return columns, ()
        cursor.execute(
            "SELECT l.name, i.name FROM pragma_index_list(?) AS l, pragma_index_info(l.name) AS i "
            'WHERE l."unique" AND NOT l.partial ORDER BY l.seq, i.seqno',
            (name,),
        )
        found: dict[str, list[str | None]] = {}
        for index, column in cursor.fetchall():
            found.setdefault(index, []).append(column)
        keys = [tuple(map(str, columns_)) for columns_ in found.values() if None not in columns_]
        cursor.execute("SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", (name,))
        primary = tuple(row[0] for row in cursor.fetchall())
        return columns, tuple(dict.fromkeys(([primary] if primary else []) + keys))

    def fetch(self, keys: pa.Table) -> pa.Table:
        import pyarrow as pa

        rows = super().fetch(keys)
        if not any(pa.types.is_decimal(field.type) for field in keys.schema):
            return rows
        asked = set(key_values(keys, keys.column_names))  # SQLite compares decimals as floating-point numbers
        kept = [value in asked for value in key_values(rows, keys.column_names)]
        return rows.filter(pa.array(kept, pa.bool_()))

    def _statement(self, keys: pa.Table) -> tuple[int, str, Any]:
        columns = [self._column(name) for name in keys.column_names]
        spelled = [row for key in keys.to_pylist() for row in _spellings(list(key.values()))]
        conditions = []
        for n, column in enumerate(columns):
            key = "k.value" if len(columns) == 1 else f"json_extract(k.value, '$[{n}]')"
            conditions.append(_equal(f"t.{quoted(column.name)}", key, column))
        values = [_json(row[0]) if len(columns) == 1 else f"[{','.join(map(_json, row))}]" for row in spelled]
        statement = self._select("json_each(?) AS k CROSS JOIN", " AND ".join(conditions))
        return len(spelled), statement, (f"[{','.join(values)}]",)

    def _share_statement(self, keys: Sequence[DbColumn]) -> str:
        hashed = " + ".join(_hashed(f"t.{quoted(column.name)}", column) for column in keys)
        return self._select("", f"abs(coalesce({hashed}, 0) % ?2) = ?1")

    def _select(self, before: str, condition: str) -> str:
        first = [f"{_first(self._column(name))} AS {quoted(name)}" for name in self._names()]
        return (
            f"SELECT {', '.join(first)} UNION ALL SELECT * FROM "
            f"(SELECT {self._items()} FROM {before} {self._relation} AS t WHERE {condition})"
        )

    def _selected(self, column: DbColumn) -> str:
        name = f"t.{quoted(column.name)}"
        return f"CAST({name} AS TEXT)" if _storage(column) == "text" else name

    def _answers(self, cursor: Any) -> Iterator[pa.Table]:
        first = True
        for table in super()._answers(cursor):
            yield table.slice(1) if first and table.num_rows else table
            first = first and not table.num_rows

    def _converted(self, table: pa.Table, columns: Sequence[DbColumn]) -> pa.Table:
        import pyarrow as pa

        arrays = [array.cast(column.type) for array, column in zip(table.columns, columns, strict=True)]
        return pa.table(arrays, names=[column.name for column in columns])


def _type(declared: str) -> pa.DataType:
    """The Arrow type of a column, by the type that it is declared with."""
    import pyarrow as pa

    text = declared.upper().strip()
    if found := re.fullmatch(r"(?:DECIMAL|NUMERIC)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", text):
        return pa.decimal128(int(found[1]), int(found[2] or 0))
    if "INT" in text:
        return pa.int64()
    if text.startswith("BOOL"):
        return pa.bool_()
    if text == "DATE":
        return pa.date32()
    if text.startswith(("DATETIME", "TIMESTAMP")):
        return pa.timestamp("us")
    if any(word in text for word in ("REAL", "FLOA", "DOUB")):
        return pa.float64()
    if "BLOB" in text:
        return pa.binary()
    return pa.decimal128(*_NUMERIC) if text.startswith(("DECIMAL", "NUMERIC")) else pa.string()


def _storage(column: DbColumn) -> str:
    """What the driver gets of a column: dates and decimals as texts."""
    import pyarrow as pa

    if pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        return "integer"
    if pa.types.is_floating(column.type):
        return "real"
    return "blob" if pa.types.is_binary(column.type) else "text"


def _first(column: DbColumn) -> str:
    """A value for a row before all others: the driver takes the types of columns from the first rows that it gets."""
    import pyarrow as pa

    if pa.types.is_date(column.type):
        return "'1970-01-01'"
    if pa.types.is_timestamp(column.type):
        return "'1970-01-01 00:00:00'"
    if pa.types.is_decimal(column.type):
        return "'0'"
    return {"integer": "0", "real": "0.0", "text": "''", "blob": "x''"}[_storage(column)]


def _equal(name: str, key: str, column: DbColumn) -> str:
    """The condition that a column is equal to a key as Spark sees it: texts to the byte, whatever the collation."""
    import pyarrow as pa

    if pa.types.is_binary(column.type):
        return f"CAST({name} AS BLOB) = unhex({key})"  # in a query, a column without a type passes for one
    if not pa.types.is_string(column.type):
        return f"{name} = {key}"
    exactly = f"CAST({name} AS TEXT) COLLATE BINARY = {key}"
    return f"{name} = {key} AND {exactly}" if re.search("CHAR|CLOB|TEXT", column.native) else exactly


def _hashed(name: str, column: DbColumn) -> str:
    """A number that is the same for equal values; SQLite has no hash function."""
    if _storage(column) == "integer":
        return name
    text = f"CAST({name} AS TEXT)"
    letters = [f"{factor} * coalesce(unicode(substr({text}, {place})), 0)" for factor, place in _LETTERS]
    return f"({' + '.join([f'{_LENGTH} * length({text})', *letters])})"


_LENGTH = 7919
_LETTERS = ((1, -1), (257, -2), (66_049, -3), (31, 1), (8_191, 2))


def _spellings(values: list[Any]) -> list[list[Any]]:
    """A key as JSON has it, in all the ways in which the database may have written it; none for one it cannot have."""
    each = [_spelled(value) for value in values]
    return [list(row) for row in product(*each)]


def _spelled(value: Any) -> list[Any]:
    if isinstance(value, datetime):
        return _moments(value)
    if isinstance(value, date):
        return [value.isoformat()]
    if isinstance(value, bytes):
        return [value.hex()]
    if isinstance(value, Decimal):
        return [str(value)]
    if isinstance(value, float):
        return [] if math.isnan(value) else [value]
    if isinstance(value, str) and "\0" in value:
        return []
    return [value]


def _json(value: Any) -> str:
    if isinstance(value, float) and math.isinf(value):
        return "9e999" if value > 0 else "-9e999"
    return json.dumps(value)


def _moments(value: datetime) -> list[str]:
    """A moment with and without a T, and with as many digits of a second as it needs, or more."""
    whole = value.strftime("%Y-%m-%d %H:%M:%S") if value.year >= 1000 else value.isoformat(" ", "seconds")
    digits = f"{value.microsecond:06d}"
    fractions = ["." + digits]
    if value.microsecond % 1000 == 0:
        fractions.append("." + digits[:3])
    if value.microsecond == 0:
        fractions.append("")
    return [whole.replace(" ", between) + fraction for between in (" ", "T") for fraction in fractions]
