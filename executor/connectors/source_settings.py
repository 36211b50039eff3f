"""Builds lookup sources from the settings of a catalog file.

    [lookup.Customers]
    kind = "postgresql"
    table = "shop.customers"
    uri_env = "CUSTOMERS_DB"

``kind`` is ``postgresql``, ``sqlite``, ``http`` or ``spark``.  The file contains no credentials, only the names of the
environment variables that hold them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dovetail.executor.connectors.credentials import env
from dovetail.executor.connectors.http import HttpSource
from dovetail.executor.connectors.postgres import PostgresSource
from dovetail.executor.connectors.source import LookupSource
from dovetail.executor.connectors.spark_table import SparkTable
from dovetail.executor.connectors.sqlite import SQLiteSource
from dovetail.executor.connectors.values import arrow_type
from dovetail.planner.catalog_file.keys import SOURCES, wrong_kind
from dovetail.planner.catalog_file.kinds import Section
from dovetail.planner.errors import SourceError


def build_source(name: str, settings: Mapping[str, Any], folder: Path | None = None) -> LookupSource:
    """Build the source that the settings of a ``[lookup.<name>]`` table describe.

    A ``path`` is relative to ``folder``, the folder of the file.  Raises ``SourceError`` for a setting that is unknown,
    missing or of a wrong type.
    """
    rest = dict(settings)
    kind = rest.pop("kind", None)
    if wrong := wrong_kind(kind):
        raise SourceError(f"lookup.{name}: {wrong}")
    if found := Section(SOURCES[kind], "").problem(rest, ()):
        place = ".".join(["lookup", name, *map(str, found.at)])
        raise SourceError(f"{place}: {found.message}")
    if "path" in rest and folder is not None:
        rest["path"] = str(folder / rest["path"])
    try:
        return _build(kind, rest)
    except SourceError as error:
        raise SourceError(f"lookup.{name}: {error}") from None


def _build(kind: str, rest: dict[str, Any]) -> LookupSource:
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
