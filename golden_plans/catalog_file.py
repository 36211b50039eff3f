'''A catalog in a TOML file: what a golden plan is planned against, without Spark.

    extends = "shop"                       # optional: take over what shop.toml has, and override some of it

    [session]                              # optional, as are its keys
    ansi = true
    time_zone = "UTC"
    case_sensitive = false
    asof_join = false                      # spark.sql.join.asofJoin.enabled
    timestamp_ntz = false                  # spark.sql.timestampType is TIMESTAMP_NTZ
    commas_last = false                    # spark.sql.ansi.relationPrecedence
    double_quoted_identifiers = false      # spark.sql.ansi.doubleQuotedIdentifiers; all of planner.catalog.Settings

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
    fetch_keys = [["id"]]                  # optional: what it can be asked by; anything, if left out
    rows = 1_000_000                       # optional
    scans = true                           # optional: whether it can be read whole, by shares; false, if left out

    [[measured]]                           # optional: what a small query returns that planning runs in a session
    asks = ["sum(length)", "FROM points"]  # pieces of the query, in their order; the first that fits is taken
    rows = [[900, 9e5, 2e3, 0, 1e9]]       # numbers; "NULL" is NULL

    [tables.near_points]                   # a view: its query instead of data, over the tables of this file
    columns = { id = "BIGINT" }
    view = "SELECT id FROM points WHERE x < 10"

``data`` is a small table in text, for tests that run the plans: its first line names columns, NULL is NULL, a value in
single quotes is taken to the letter, and arrays, maps and structs are written as JSON.
'''

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import date, datetime
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from golden_plans.catalog import CatalogFile, Row, Table
from golden_plans.measured import Answer
from planner.catalog import Settings, UniqueKey
from planner.catalog.declared import NOTHING, Changelog, Declaration, LookupTable, Versions
from planner.catalog.stats import Statistics
from planner.errors import CatalogError, Unsupported, one_of
from planner.expr import quote
from planner.expr.tokens import tokenize
from planner.types.schema import Column, SqlType, sql_type

_FILE_KEYS = ("extends", "lookup", "measured", "session", "tables")
_SESSION_KEYS = {f.name: str if f.name == "time_zone" else bool for f in fields(Settings) if f.name != "others"}
_TABLE_KEYS = (
    "bytes",
    "changelog",
    "columns",
    "data",
    "informational_keys",
    "keys",
    "rows",
    "stream",
    "versions",
    "view",
    "watermark",
)
_LOOKUP_KEYS = ("columns", "data", "fetch_keys", "keys", "rows", "scans")
_TYPES = frozenset(
    "tinyint smallint int bigint float double decimal string char varchar binary boolean date timestamp timestamp_ntz "
    "interval array map struct variant void".split()
)

T = TypeVar("T")


def read_catalog(path: Path) -> CatalogFile:
    """Read a catalog file.  Raises ``CatalogError``, which names the file and what is wrong in it."""
    return _read(path, ())


def _read(path: Path, seen: tuple[Path, ...]) -> CatalogFile:
    path = path.resolve()
    if path in seen:
        raise CatalogError(f"{path.name}: extends itself: {' > '.join(p.name for p in (*seen, path))}")
    try:
        text = path.read_text(encoding="utf-8")
        extended = _File(path, _parsed(text)).extended()
    except FileNotFoundError as error:
        raise CatalogError(f"there is no catalog file {path.name} in {path.parent.name}/") from error
    except (OSError, UnicodeDecodeError) as error:
        raise CatalogError(f"{path.name}: cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise CatalogError(f"{path.name}: not TOML: {error}") from error
    return _made(path, text, _read(extended, (*seen, path)) if extended else None)


@cache
def _parsed(text: str) -> dict[str, Any]:
    return tomllib.loads(text)


@cache
def _made(path: Path, text: str, base: CatalogFile | None) -> CatalogFile:
    """The catalog that a text says: the same object as long as neither it nor what it extends has changed."""
    return _File(path, _parsed(text)).read(base or CatalogFile(path, Settings(), ()))


class _File:
    """One parsed TOML file; every complaint names the file and the key."""

    def __init__(self, path: Path, given: dict[str, Any]):
        self.path = path
        self.given = given

    def extended(self) -> Path | None:
        """The file whose tables this one takes over."""
        self.check(self.given, _FILE_KEYS, "")
        if "extends" not in self.given:
            return None
        name = self.expect(self.given["extends"], str, "extends")
        beside = self.path.with_name(name if name.endswith(".toml") else f"{name}.toml")
        if not beside.exists():
            others = [p.stem for p in self.path.parent.glob("*.toml") if p != self.path]
            raise self.wrong("extends", f"there is no catalog {name!r} beside this file; {one_of(others, name)}")
        return beside

    def read(self, base: CatalogFile) -> CatalogFile:
        """The catalog, over the tables of another."""
        settings = self.settings(base.settings)
        tables = {t.name: t for t in base.tables}
        for name, body in self.expect(self.given.get("tables", {}), dict, "tables").items():
            table = self.table(name, body, settings)
            tables[table.name] = table
        declared = dict(base.declarations)
        lookups = {t.name: t for t in base.lookups}
        for name, body in self.expect(self.given.get("tables", {}), dict, "tables").items():
            parts = self.name(name, f"tables.{name}")
            declared[parts] = self.declaration_of(body, tables[parts].columns, f"tables.{name}", settings)
        for name, body in self.expect(self.given.get("lookup", {}), dict, "lookup").items():
            lookup, more = self.lookup(name, body, settings)
            lookups[lookup.name] = lookup
            declared[lookup.name] = Declaration(more)
        declarations = tuple((n, d) for n, d in declared.items() if d != NOTHING)
        found = CatalogFile(
            self.path,
            settings,
            tuple(tables.values()),
            tuple(lookups.values()),
            declarations,
            (*self.answers(), *base.answers),
        )
        if len(found._named) < len(tables):
            raise self.wrong("tables", "two tables have the same name")
        return found

    def settings(self, base: Settings) -> Settings:
        given = self.expect(self.given.get("session", {}), dict, "session")
        self.check(given, tuple(_SESSION_KEYS), "session")
        values: dict[str, Any] = {k: self.expect(v, _SESSION_KEYS[k], f"session.{k}") for k, v in given.items()}
        zone = values.get("time_zone", "UTC")
        if not re.fullmatch(r"[+-]\d\d:\d\d", zone):
            try:
                ZoneInfo(zone)
            except (ValueError, OSError, KeyError) as error:
                raise self.wrong("session.time_zone", f"there is no time zone {zone!r}") from error
        return replace(base, **values)

    def table(self, name: str, body: Any, settings: Settings) -> Table:
        key = f"tables.{name}"
        parts = self.name(name, key)
        self.check(self.expect(body, dict, key), _TABLE_KEYS, key)
        columns = self.columns(body, key, settings)
        rows, size = (self.count(body.get(k), f"{key}.{k}") for k in ("rows", "bytes"))
        statistics = Statistics(rows, size, plain=True)
        kinds = ("keys", "informational_keys")
        keys = tuple(one for kind in kinds for one in self.keys(body, kind, columns, key, settings))
        data = self.data(self.expect(body.get("data", ""), str, f"{key}.data"), columns, key, settings)
        view = self.expect(body.get("view", ""), str, f"{key}.view")
        if view and data:
            raise self.wrong(f"{key}.data", "a view has no rows of its own")
        stream = self.expect(body.get("stream", False), bool, f"{key}.stream")
        watermark = self.expect(body.get("watermark", ""), str, f"{key}.watermark") or None
        if watermark and not (stream and any(c.name == watermark for c in columns)):
            raise self.wrong(f"{key}.watermark", f"{watermark} is no column of a stream")
        return Table(parts, columns, keys, statistics, data, view, stream, watermark)

    def lookup(self, name: str, body: Any, settings: Settings) -> tuple[Table, LookupTable]:
        """A ``[lookup.NAME]``: its rows, and what planning may know of it."""
        key = f"lookup.{name}"
        parts = self.name(name, key)
        self.check(self.expect(body, dict, key), _LOOKUP_KEYS, key)
        columns = self.columns(body, key, settings)
        keys = tuple(self.keys(body, "keys", columns, key, settings))
        unique = tuple(k.columns for k in keys)
        asked = tuple(k.columns for k in self.keys(body, "fetch_keys", columns, key, settings))
        fetched = asked if "fetch_keys" in body else None
        rows = self.count(body.get("rows"), f"{key}.rows")
        scans = self.expect(body.get("scans", False), bool, f"{key}.scans")
        data = self.data(self.expect(body.get("data", ""), str, f"{key}.data"), columns, key, settings)
        lookup = LookupTable(".".join(map(quote, parts)), columns, unique, fetched, rows, scans)
        return Table(parts, columns, keys, Statistics(rows), data), lookup

    def answers(self) -> Iterator[Answer]:
        """What ``[[measured]]`` tells of the small queries that planning runs."""
        for number, body in enumerate(self.expect(self.given.get("measured", []), list, "measured"), 1):
            key = f"measured {number}"
            self.check(self.expect(body, dict, key), ("asks", "rows"), key)
            pieces = [
                self.expect(piece, str, f"{key}.asks") for piece in self.expect(body.get("asks"), list, f"{key}.asks")
            ]
            rows = self.expect(body.get("rows"), list, f"{key}.rows")
            numbers = (
                tuple(self.number(n, f"{key}.rows") for n in self.expect(row, list, f"{key}.rows")) for row in rows
            )
            yield Answer(tuple(" ".join(piece.split()) for piece in pieces), tuple(numbers))

    def number(self, value: Any, key: str) -> float | None:
        if value == "NULL":
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(key, f"{value!r} is not a number")
        return float(value)

    def declaration_of(
        self, body: dict[str, Any], columns: tuple[Column, ...], key: str, settings: Settings
    ) -> Declaration:
        """What a table keeps: ``versions = { key = ["id"], from = "since" }``, ``changelog = { change = "op", … }``."""
        versions, changelog = None, None
        if "versions" in body:
            given = self.expect(body["versions"], dict, f"{key}.versions")
            self.check(given, ("from", "key"), f"{key}.versions")
            own = self.key(given, columns, f"{key}.versions", settings)
            since = self.expect(given.get("from", ""), str, f"{key}.versions.from")
            versions = Versions(own, columns[self.column(since, columns, f"{key}.versions.from", settings)].name)
        if "changelog" in body:
            given = self.expect(body["changelog"], dict, f"{key}.changelog")
            self.check(given, ("change", "insert_only", "key"), f"{key}.changelog")
            own = self.key(given, columns, f"{key}.changelog", settings)
            change = self.expect(given.get("change", ""), str, f"{key}.changelog.change")
            change = columns[self.column(change, columns, f"{key}.changelog.change", settings)].name
            only = self.expect(given.get("insert_only", False), bool, f"{key}.changelog.insert_only")
            changelog = Changelog(change, own, only)
        return Declaration(None, versions, changelog)

    def name(self, text: str, key: str) -> tuple[str, ...]:
        """The parts of a table's name, as SQL writes it."""
        try:
            tokens = tokenize(text)
        except Unsupported as error:
            raise self.wrong(key, f"{text!r} is not the name of a table") from error
        names, dots = tokens.items[::2], tokens.items[1::2]
        if len(dots) != len(names) - 1 or len(names) > 3 or any(d.word != "." for d in dots):
            raise self.wrong(key, f"{text!r} is not the name of a table; put odd names into backticks")
        return tuple(n.text for n in names)

    def columns(self, body: dict[str, Any], key: str, settings: Settings) -> tuple[Column, ...]:
        if not body.get("columns"):
            raise self.wrong(key, 'it has no columns; write columns = { id = "BIGINT", … }')
        found: dict[str, Column] = {}
        for name, text in self.expect(body["columns"], dict, f"{key}.columns").items():
            type_ = sql_type(self.expect(text, str, f"{key}.columns.{name}"))
            if type_.name not in _TYPES:
                known = one_of(_TYPES, type_.name)
                raise self.wrong(f"{key}.columns.{name}", f"{text!r} is not a type of Spark; {known}")
            folded = name if settings.case_sensitive else name.lower()
            if folded in found:
                raise self.wrong(f"{key}.columns.{name}", "two columns have the same name")
            found[folded] = Column(name, type_)
        return tuple(found.values())

    def keys(
        self, body: dict[str, Any], kind: str, columns: tuple[Column, ...], key: str, settings: Settings
    ) -> Iterator[UniqueKey]:
        where = f"{key}.{kind}"
        for one in self.expect(body.get(kind, []), list, where):
            wanted = self.expect(one, list, f"{where} (a list of lists)")
            names = tuple(columns[self.column(str(c), columns, where, settings)].name for c in wanted)
            yield UniqueKey(names, kind == "keys")

    def key(self, body: dict[str, Any], columns: tuple[Column, ...], key: str, settings: Settings) -> tuple[str, ...]:
        (found,) = self.keys({"key": [body.get("key", [])]}, "key", columns, key, settings)
        return found.columns

    def data(self, text: str, columns: tuple[Column, ...], key: str, settings: Settings) -> tuple[Row, ...]:
        lines = [line for line in text.splitlines() if line.strip()]
        if not lines:
            return ()
        at = [self.column(cell or "", columns, f"{key}.data", settings) for cell in _cells(lines[0])]
        rows = []
        for number, line in enumerate(lines[1:], 1):
            where = f"{key}.data, row {number}"
            cells = _cells(line)
            if len(cells) != len(at):
                raise self.wrong(where, f"{len(cells)} values for {len(at)} columns")
            row: list[str | None] = [None] * len(columns)
            for index, cell in zip(at, cells, strict=True):
                column = columns[index]
                if cell is not None and column.type and not _fits(cell, column.type):
                    raise self.wrong(where, f"{cell!r} is not a {column.type} ({column.name})")
                row[index] = cell
            rows.append(tuple(row))
        return tuple(rows)

    def column(self, name: str, columns: tuple[Column, ...], where: str, settings: Settings) -> int:
        fold = (lambda n: n) if settings.case_sensitive else str.lower
        for index, column in enumerate(columns):
            if fold(column.name) == fold(name):
                return index
        raise self.wrong(where, f"there is no column {name!r}; {one_of((c.name for c in columns), name)}")

    def count(self, value: Any, key: str) -> int | None:
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.wrong(key, f"{value!r} is not a number of {key.rpartition('.')[2]}")
        return value

    def expect(self, value: Any, kind: type[T], key: str) -> T:
        if not isinstance(value, kind):
            said = {str: "a text", bool: "true or false", dict: "a table", list: "a list"}[kind]
            raise self.wrong(key, f"{value!r} is not {said}")
        return value

    def check(self, given: dict[str, Any], known: tuple[str, ...], key: str) -> None:
        for name in given:
            if name not in known:
                raise self.wrong(f"{key}.{name}".lstrip("."), f"there is no such key; {one_of(known, name)}")

    def wrong(self, key: str, message: str) -> CatalogError:
        return CatalogError(f"{self.path.name}: {key}: {message}")


def _cells(line: str) -> list[str | None]:
    """The values of a line; a bar inside single quotes does not separate."""
    return [_cell(part.strip()) for part in re.findall(r"((?:'(?:[^']|'')*'|[^|'])*)(?:\||$)", line.strip())[:-1]]


def _cell(text: str) -> str | None:
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return None if text == "NULL" else text


def _fits(text: str, type_: SqlType) -> bool:
    """Whether a text reads as a value of a type, as far as Python can tell."""
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
