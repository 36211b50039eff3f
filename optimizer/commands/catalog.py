"""Reads ``--catalog FILE.toml``: lookups, and declarations about tables.

    [lookup.Customers]
    kind = "postgresql"
    table = "shop.customers"
    uri_env = "CUSTOMERS_DB"

    [tables.Rates]
    versions = { key = ["currency"], from = "since" }

    [tables.Changes]
    changelog = { change = "op", key = ["id"] }

A catalog of golden plans is such a file as well, with the same keys and checks; what else is in it is not for here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from dovetail.optimizer.failures import located
from dovetail.planner.errors import CatalogError, InputError, SourceError, one_of

if TYPE_CHECKING:
    from dovetail.executor.connectors.source import LookupSource
    from dovetail.optimizer.api import Optimizer
    from dovetail.planner.catalog_file.document import Document

_OPTION = "--catalog"


@dataclass(frozen=True)
class _Lookup:
    """A lookup of a catalog: where it stands, the settings of its source, and the source."""

    document: Document
    settings: dict[str, Any]
    source: LookupSource


@dataclass(frozen=True)
class CatalogFile:
    """A catalog file with those that it extends: lookups and tables by name, all of them checked."""

    path: str
    lookups: dict[str, _Lookup]
    tables: dict[str, tuple[Document, dict[str, Any]]]

    def declare(self, opt: Optimizer) -> None:
        """Register and declare all of it.  Raises errors that name file, line and key."""
        for name, lookup in self.lookups.items():
            with located(_place(lookup.document, ("lookup", name))):
                opt.register_lookup(name, lookup.source)
            _check_columns(opt, name, lookup)
        for name, (document, settings) in self.tables.items():
            if versions := settings.get("versions"):
                with located(_place(document, ("tables", name, "versions"))):
                    opt.declare_versions(name, versions["key"], versions["from"])
            if changelog := settings.get("changelog"):
                insert_only = changelog.get("insert_only", False)
                with located(_place(document, ("tables", name, "changelog"))):
                    opt.declare_changelog(name, changelog["change"], changelog.get("key", []), insert_only=insert_only)


def read_catalog(path: str | None) -> CatalogFile | None:
    """Read ``--catalog`` and check all of it.  Raises ``InputError``, which names file, line and key."""
    if path is None:
        return None
    from dovetail.planner.catalog_file.document import read_documents

    if not path.strip():
        raise InputError(f"{_OPTION}: the name of the file is empty")
    lookups: dict[str, _Lookup] = {}
    tables: dict[str, tuple[Document, dict[str, Any]]] = {}
    try:
        for document in read_documents(Path(path), path):
            for name, settings in document.data.get("lookup", {}).items():
                lookups[name] = _Lookup(document, settings, _source(document, name, settings))
            tables |= {name: (document, body) for name, body in document.data.get("tables", {}).items()}
    except CatalogError as error:
        raise InputError(f"{_OPTION} {error}") from error
    return CatalogFile(path, lookups, tables)


def _source(document: Document, name: str, settings: dict[str, Any]) -> LookupSource:
    """The source of a lookup, which is not connected to yet."""
    from dovetail.executor.connectors.source_settings import build_source
    from dovetail.planner.catalog_file.keys import SOURCES

    kind = settings.get("kind")
    if kind is None:
        wrong = f'it has no kind of source; write for example kind = "postgresql"; {one_of(SOURCES, "")}'
        raise document.error(("lookup", name), wrong)
    own = {key: value for key, value in settings.items() if key == "kind" or key in SOURCES[kind]}
    try:
        return build_source(name, own, document.path.parent)
    except SourceError as error:
        message = str(error).removeprefix(f"lookup.{name}: ")
        raise document.error(("lookup", name), shorten(message, 300, placeholder="…")) from error


def _check_columns(opt: Optimizer, name: str, lookup: _Lookup) -> None:
    """Raise ``InputError`` where settings name columns that the source does not have."""
    from dovetail.planner.sql.table_names import name_of

    found = opt.declarations.tables[name_of(name)].lookup
    columns = [column.name for column in found.columns] if found else []
    for key, wanted in _named_columns(lookup.settings):
        if odd := next((column for column in wanted if column not in columns), None):
            error = lookup.document.error(("lookup", name, key), f"there is no column {odd!r}; {one_of(columns, odd)}")
            raise InputError(f"{_OPTION} {error}")


def _named_columns(settings: dict[str, Any]) -> Iterable[tuple[str, Iterable[str]]]:
    yield "unique_keys", (column for key in settings.get("unique_keys", []) for column in key)
    yield "types", settings.get("types", {})


def _place(document: Document, at: tuple[str, ...]) -> str:
    """A place in a catalog as messages begin with it."""
    return f"{_OPTION} {str(document.error(at, '')).rstrip()}"
