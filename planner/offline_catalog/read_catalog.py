'''A catalog in a TOML file, against which a golden plan is planned without Spark.

    extends = "shop"                       # optional: take over what shop.toml has; "../shop" is one folder above

    [session]                              # optional, as are its keys
    ansi = true
    time_zone = "UTC"
    case_sensitive = false
    asof_join = false                      # spark.sql.join.asofJoin.enabled
    nearest_by = true                      # Spark is 4.2 or later, and spark.sql.crossJoin.enabled is set
    timestamp_ntz = false                  # spark.sql.timestampType is TIMESTAMP_NTZ
    commas_last = false                    # spark.sql.ansi.relationPrecedence
    double_quoted_identifiers = false      # spark.sql.ansi.doubleQuotedIdentifiers; all of planner/catalog/settings.py

    [tables.points]                        # also [tables."sales.points"], [tables."spark_catalog.sales.points"]
    columns = { id = "BIGINT", x = "INT" } # in order, with Spark's types
    keys = [["id"]]                        # optional: keys that are enforced
    informational_keys = [["x"]]           # optional: keys that nobody enforces
    rows = 2_000_000                       # optional statistics: leave out what you do not know
    bytes = 32_000_000
    stream = false                         # optional: whether rows go on arriving, and are read once
    watermark = "ts"                       # optional, of a stream: the column of times that its watermark is on
    data = """
    id | x
    1  | 10
    2  | NULL
    """

    [tables.rates]                         # optional: each row is a version, valid from a time on
    columns = { currency = "STRING", since = "TIMESTAMP", rate = "DOUBLE" }
    versions = { key = ["currency"], from = "since" }

    [tables.changes]                       # optional: the rows are changes of the rows with that key
    columns = { op = "STRING", id = "BIGINT" }
    changelog = { change = "op", key = ["id"], insert_only = false }

    [lookup.Customers]                     # a table that lives elsewhere: FOR SYSTEM_TIME AS OF PROCTIME()
    columns = { id = "BIGINT", country = "STRING" }
    keys = [["id"]]                        # optional: unique keys
    fetch_keys = [["id"]]                  # optional: the keys of a request; any column, if left out
    rows = 1_000_000                       # optional
    scans = true                           # optional: whether it can be read whole, by shares; false, if left out

    [[measured]]                           # optional: what a small query returns that planning runs in a session
    asks = ["sum(length)", "FROM points"]  # pieces of the query, in their order; the first that fits is taken
    rows = [[900, 9e5, 2e3, 0, 1e9]]       # numbers; "NULL" is NULL

    [tables.near_points]                   # a view: its query instead of data, over the tables of this file
    columns = { id = "BIGINT" }
    view = "SELECT id FROM points WHERE x < 10"

``data`` is a small table in text, for tests that run the plans: its first line names columns, NULL is NULL, a value in
single quotes is taken to the letter, and arrays, maps and structs are written as JSON.  The command line reads such
files as well: ``planner/catalog_file/keys.py`` has every key, with those of the sources of lookups (``kind``).
'''

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime
from functools import cache
from pathlib import Path
from typing import Any

from dovetail.planner.catalog import Settings, UniqueKey
from dovetail.planner.catalog.declared import NOTHING, Changelog, Declaration, LookupTable, Versions
from dovetail.planner.catalog.stats import Statistics
from dovetail.planner.catalog_file import toml
from dovetail.planner.catalog_file.document import Document, read_documents
from dovetail.planner.catalog_file.kinds import At, shown
from dovetail.planner.errors import one_of
from dovetail.planner.expr import quote
from dovetail.planner.offline_catalog.catalog import CatalogFile, Row, Table
from dovetail.planner.offline_catalog.measured import Answer
from dovetail.planner.sql.table_names import name_of
from dovetail.planner.types.schema import Column, SqlType, sql_type


def read_catalog(path: Path) -> CatalogFile:
    """Read a catalog file.  Raises ``CatalogError``, which names the file, the line, and what is wrong in it."""
    found: CatalogFile | None = None
    for document in read_documents(path.resolve()):
        found = _made(document.path, document.text, found)
    assert found is not None
    return found


@cache
def _made(path: Path, text: str, base: CatalogFile | None) -> CatalogFile:
    """Parse a catalog; equal texts over the same base return the same object."""
    document = Document(path, path.name, text, toml.loads(text))
    return _File(document, base or CatalogFile(path, Settings(), ())).read()


class _File:
    """A file whose values have the types of their keys, and whose names of columns are yet to be looked for."""

    def __init__(self, document: Document, base: CatalogFile):
        self.document, self.base = document, base
        self.given = document.data
        self.settings = replace(base.settings, **self.given.get("session", {}))

    def read(self) -> CatalogFile:
        """The catalog, over the tables of another."""
        base = self.base
        tables = {t.name: t for t in base.tables}
        declared = dict(base.declarations)
        lookups = {t.name: t for t in base.lookups}
        for name, body in self.given.get("tables", {}).items():
            at = ("tables", name)
            table = self.table(name, body, at)
            tables[table.name] = table
            declared[table.name] = self.declaration_of(body, table.columns, at)
        for name, body in self.given.get("lookup", {}).items():
            lookup, more = self.lookup(name, body, ("lookup", name))
            lookups[lookup.name] = lookup
            declared[lookup.name] = Declaration(more)
        declarations = tuple((n, d) for n, d in declared.items() if d != NOTHING)
        found = CatalogFile(
            self.document.path,
            self.settings,
            tuple(tables.values()),
            tuple(lookups.values()),
            declarations,
            (*self.answers(), *base.answers),
        )
        if len(found._named) < len(tables):
            raise self.document.error(("tables",), "two tables have the same name; leave one out")
        return found

    def table(self, name: str, body: dict[str, Any], at: At) -> Table:
        columns = self.columns(body, at)
        keys = tuple(self.keys(body, "keys", columns, at))
        informational = tuple(self.keys(body, "informational_keys", columns, at, enforced=False))
        data = self.data(body.get("data", ""), columns, (*at, "data"))
        view, stream, watermark = body.get("view", ""), body.get("stream", False), body.get("watermark") or None
        if view and data:
            raise self.document.error((*at, "data"), "a view has no rows of its own; leave data or view out")
        if watermark and not (stream and any(c.name == watermark for c in columns)):
            raise self.document.error(
                (*at, "watermark"), f"{shown(watermark)} is no column of a stream; write stream = true"
            )
        statistics = Statistics(body.get("rows"), body.get("bytes"), plain=True, cheap=True)
        return Table(name_of(name), columns, (*keys, *informational), statistics, data, view, stream, watermark)

    def lookup(self, name: str, body: dict[str, Any], at: At) -> tuple[Table, LookupTable]:
        """A ``[lookup.NAME]``: its rows, and what planning may know of it."""
        parts, columns = name_of(name), self.columns(body, at)
        fetch_keys, rows = body.get("fetch_keys"), body.get("rows")
        if body.get("kind") == "http":  # its keys are those of a request, and its rows a member of the answer
            body, fetch_keys, rows = {k: v for k, v in body.items() if k != "keys"}, fetch_keys or [body["keys"]], None
        keys = [
            *self.keys(body, "keys", columns, at),
            *self.keys(body, "unique_keys", columns, at),
        ]
        fetched = None
        if fetch_keys is not None:
            known = self.keys({"fetch_keys": fetch_keys}, "fetch_keys", columns, at)
            fetched = tuple(k.columns for k in known)
        data = self.data(body.get("data", ""), columns, (*at, "data"))
        unique = tuple(k.columns for k in keys)
        scans = body.get("scans", False)
        lookup = LookupTable(".".join(map(quote, parts)), columns, unique, fetched, rows, scans)
        return Table(parts, columns, tuple(keys), Statistics(rows), data), lookup

    def answers(self) -> Iterator[Answer]:
        """The results of measurement queries in ``[[measured]]``."""
        for body in self.given.get("measured", []):
            numbers = (tuple(None if n == "NULL" else float(n) for n in row) for row in body["rows"])
            yield Answer(tuple(" ".join(piece.split()) for piece in body["asks"]), tuple(numbers))

    def declaration_of(self, body: dict[str, Any], columns: tuple[Column, ...], at: At) -> Declaration:
        """What a table keeps: ``versions = { key = ["id"], from = "since" }``, ``changelog = { change = "op", … }``."""
        versions, changelog = None, None
        if given := body.get("versions"):
            own, since = (
                self.names(given[k] if k == "key" else [given[k]], columns, (*at, "versions", k))
                for k in ("key", "from")
            )
            versions = Versions(own, since[0])
        if given := body.get("changelog"):
            own = self.names(given.get("key", []), columns, (*at, "changelog", "key"))
            change = self.names([given["change"]], columns, (*at, "changelog", "change"))
            changelog = Changelog(change[0], own, given.get("insert_only", False))
        return Declaration(None, versions, changelog)

    def columns(self, body: dict[str, Any], at: At) -> tuple[Column, ...]:
        if "columns" not in body:
            raise self.document.error(at, 'it has no columns; write columns = { id = "BIGINT", … }')
        found: dict[str, Column] = {}
        for name, text in body["columns"].items():
            folded = self.settings.fold(name)
            if folded in found:
                raise self.document.error((*at, "columns", name), "two columns have the same name")
            found[folded] = Column(name, sql_type(text))
        return tuple(found.values())

    def keys(
        self,
        body: dict[str, Any],
        kind: str,
        columns: tuple[Column, ...],
        at: At,
        *,
        enforced: bool = True,
    ) -> Iterator[UniqueKey]:
        for wanted in body.get(kind, []):
            yield UniqueKey(self.names(wanted, columns, (*at, kind)), enforced)

    def names(self, wanted: list[str], columns: tuple[Column, ...], at: At) -> tuple[str, ...]:
        return tuple(columns[self.column(name, columns, at)].name for name in wanted)

    def data(self, text: str, columns: tuple[Column, ...], at: At) -> tuple[Row, ...]:
        lines = [line for line in text.splitlines() if line.strip()]
        if not lines:
            return ()
        indexes = [self.column(cell or "", columns, at) for cell in _cells(lines[0])]
        rows = []
        for number, line in enumerate(lines[1:], 1):
            cells = _cells(line)
            if len(cells) != len(indexes):
                raise self.document.error(at, f"row {number}: {len(cells)} values for {len(indexes)} columns")
            row: list[str | None] = [None] * len(columns)
            for index, cell in zip(indexes, cells, strict=True):
                column = columns[index]
                if cell is not None and column.type and not _fits(cell, column.type):
                    message = f"row {number}: {shown(cell)} is not a {column.type} ({column.name})"
                    raise self.document.error(at, message)
                row[index] = cell
            rows.append(tuple(row))
        return tuple(rows)

    def column(self, name: str, columns: tuple[Column, ...], at: At) -> int:
        for index, column in enumerate(columns):
            if self.settings.is_same(column.name, name):
                return index
        possible = one_of((c.name for c in columns), name)
        raise self.document.error(at, f"there is no column {shown(name)}; {possible}")


def _cells(line: str) -> list[str | None]:
    """The values of a line; a bar inside single quotes does not separate."""
    return [_cell(part.strip()) for part in re.findall(r"((?:'(?:[^']|'')*'|[^|'])*)(?:\||$)", line.strip())[:-1]]


def _cell(text: str) -> str | None:
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return None if text == "NULL" else text


def _fits(text: str, type_: SqlType) -> bool:
    """Whether a text reads as a value of a type, as Python parses it."""
    try:
        if type_.integral:
            int(text)
        elif type_.fractional:
            float(text)
        elif type_.name == "date":
            date.fromisoformat(text)
        elif type_.name in ("timestamp", "timestamp_ntz"):
            datetime.fromisoformat(text)
        elif type_.name == "boolean":
            return text.lower() in ("true", "false")
        elif type_.name in ("array", "map", "struct"):
            json.loads(text)
    except ValueError:
        return False
    return True
