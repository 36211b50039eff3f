"""A lookup source as a catalog file describes it.

    [lookup.Customers]
    kind = "postgresql"
    table = "shop.customers"
    uri_env = "CUSTOMERS_DB"

``kind`` is ``postgresql``, ``sqlite``, ``http`` or ``spark``; no credential stands in the file, only the names of the
environment variables that hold them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.connectors.credentials import env
from planner.connectors.http import HttpSource
from planner.connectors.postgres import PostgresSource
from planner.connectors.source import LookupSource
from planner.connectors.spark_table import SparkTable
from planner.connectors.sqlite import SQLiteSource
from planner.errors import SourceError, one_of
from planner.types.schema import sql_type

if TYPE_CHECKING:
    import pyarrow as pa

_SETTINGS = {
    "postgresql": {"table": str, "query": str, "uri_env": str, "unique_keys": list},
    "sqlite": {"table": str, "query": str, "path": str, "unique_keys": list, "types": dict},
    "http": {
        "url": str,
        "columns": dict,
        "keys": list,
        "parameter": str,
        "rows": str,
        "headers_env": dict,
        "unique_keys": list,
    },
    "spark": {"table": str, "path": str, "format": str, "ddl": str, "options": dict, "unique_keys": list},
}
_NEEDED = {"postgresql": ("uri_env",), "sqlite": ("path",), "http": ("url", "columns", "keys"), "spark": ()}


def described(name: str, settings: Mapping[str, Any], folder: Path | None = None) -> LookupSource:
    """Make the source that the settings of a ``[lookup.<name>]`` table describe.

    A ``path`` is relative to ``folder``, where the file is.  Raises ``SourceError`` for a setting that is unknown,
    missing or of a wrong type.
    """
    rest = dict(settings)
    kind = rest.pop("kind", None)
    if kind not in _SETTINGS:
        raise SourceError(f"lookup.{name}: kind is {kind!r}; {one_of(_SETTINGS, str(kind))}")
    known = _SETTINGS[kind]
    for setting, value in rest.items():
        if setting not in known:
            raise SourceError(f"lookup.{name}: there is no setting {setting!r}; {one_of(known, setting)}")
        if not isinstance(value, known[setting]):
            raise SourceError(f"lookup.{name}: {setting} is {value!r}, not a {_WORDS[known[setting]]}")
    if missing := [setting for setting in _NEEDED[kind] if setting not in rest]:
        raise SourceError(f"lookup.{name}: {kind} needs {missing[0]}")
    if "path" in rest and folder is not None:
        rest["path"] = str(folder / rest["path"])
    try:
        return _made(kind, rest)
    except SourceError as error:
        raise SourceError(f"lookup.{name}: {error}") from None


def arrow_type(text: str) -> pa.DataType:
    """The Arrow type of a type as Spark SQL writes it: ``BIGINT``, ``DECIMAL(10, 2)``, ``TIMESTAMP``."""
    import pyarrow as pa

    types = {
        "boolean": pa.bool_(),
        "tinyint": pa.int8(),
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestamp_ntz": pa.timestamp("us"),
    }
    type_ = sql_type(text)
    if type_.name == "decimal":
        return pa.decimal128(type_.precision, type_.scale)
    if type_.name not in types:
        raise SourceError(f"{text!r} is not a type of a lookup column; {one_of([*types, 'decimal'], type_.name)}")
    return types[type_.name]


_WORDS = {str: "string", list: "list", dict: "table"}


def _made(kind: str, rest: dict[str, Any]) -> LookupSource:
    import pyarrow as pa

    table = rest.pop("table", None)
    if kind == "postgresql":
        return PostgresSource(table, uri=env(rest.pop("uri_env")), **rest)
    if kind == "sqlite":
        return SQLiteSource(table, **rest)
    if kind == "spark":
        return SparkTable(table, **rest)
    schema = pa.schema([(name, arrow_type(str(text))) for name, text in rest.pop("columns").items()])
    headers = {name: env(str(variable)) for name, variable in rest.pop("headers_env", {}).items()}
    return HttpSource(rest.pop("url"), schema=schema, headers=headers, **rest)
