"""The keys of a catalog file: one table for the command line, golden plans, and sources that a file describes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo

from dovetail.planner.catalog import Settings
from dovetail.planner.catalog_file.kinds import (
    FLAG,
    NUMBER,
    SCALAR,
    At,
    Key,
    Kind,
    ListOf,
    Problem,
    Section,
    TableOf,
    Text,
    count,
    shown,
)
from dovetail.planner.errors import Unsupported, one_of
from dovetail.planner.expr.tokens import tokenize
from dovetail.planner.types.schema import sql_type

_TYPES = frozenset(
    "tinyint smallint int bigint float double decimal string char varchar binary boolean date time timestamp "
    "timestamp_ntz interval array map struct variant void geometry geography".split()
)
LOOKUP_TYPES = tuple(
    "boolean tinyint smallint int bigint float double string binary date timestamp timestamp_ntz decimal".split()
)
"""The types that a column of a lookup source can have."""
SQLITE_TYPES = ("text", "clob", "char", "varchar", "blob", "varbinary", "real", "datetime", "bool")
"""The names that SQLite has for some of them."""


def wrong_type(text: str) -> str:
    """Why a text is not a type of Spark's; nothing where it is one."""
    type_ = sql_type(text)
    if type_.name not in _TYPES:
        return f"{shown(text)} is not a type of Spark; {one_of(_TYPES, type_.name)}"
    return _wrong_decimal(text)


def wrong_lookup_type(text: str) -> str:
    """Why a text is not a type that a column of a lookup source can have."""
    type_ = sql_type(text)
    if type_.name not in LOOKUP_TYPES or "<" in text:
        return f"{shown(text)} is not a type of a lookup column; {one_of(LOOKUP_TYPES, type_.name)}"
    return _wrong_decimal(text)


def wrong_sqlite_type(text: str) -> str:
    """Why a text is not a type that a column of an SQLite source can be given."""
    if sql_type(text).name in SQLITE_TYPES:
        return ""
    if text.strip().lower() == "timestamp_ltz":
        return "SQLite has no times with a zone; write TIMESTAMP_NTZ"
    return wrong_lookup_type(text)


def _wrong_decimal(text: str) -> str:
    """Why a DECIMAL is none that Spark has; nothing for another type."""
    type_ = sql_type(text)
    if type_.name != "decimal":
        if re.match(r"\s*(decimal|dec|numeric)\b", text, re.IGNORECASE):
            return f"{shown(text)} is not a decimal; write for example DECIMAL(10, 2)"
        return ""
    if not 1 <= type_.precision <= 38 or type_.scale > type_.precision:
        return f"{shown(text)} is out of range: DECIMAL(p, s) has 1 to 38 digits p, s of them after the decimal point"
    return ""


def wrong_table_name(text: str) -> str:
    """Why a text is not the name of a table."""
    wrong = f"{shown(text)} is not the name of a table; put odd names into backticks"
    try:
        items = tokenize(text).items
    except Unsupported:
        return wrong
    names, dots = items[::2], items[1::2]
    if not names or len(dots) != len(names) - 1 or len(names) > 3 or any(d.word != "." for d in dots):
        return wrong
    return ""


def _wrong_zone(text: str) -> str:
    if re.fullmatch(r"[+-]\d\d:\d\d", text):
        return ""
    try:
        ZoneInfo(text)
    except (ValueError, OSError, KeyError):
        return f"there is no time zone {shown(text)}; write for example Europe/Berlin or +01:00"
    return ""


def _wrong_variable(text: str) -> str:
    if re.fullmatch(r"[A-Za-z_][\w.-]*", text):
        return ""
    return "this is not the name of an environment variable; it is not shown, since it may be a credential"


_NAMES = ListOf(Text('"id"'), '["id"]', "a list of columns", least=1, distinct=True)
_KEYS = ListOf(_NAMES, '[["id"]]', "a list of lists of columns")
_COLUMNS = TableOf(Text('"BIGINT"', check=wrong_type), '{ id = "BIGINT", … }', "a table of columns and types", least=1)
_VARIABLE = Text('"CUSTOMERS_DB"', check=_wrong_variable)

SESSION = Section(
    MappingProxyType(
        {
            f.name: Key(Text('"UTC"', check=_wrong_zone) if f.name == "time_zone" else FLAG)
            for f in fields(Settings)
            if f.name != "others"
        }
    ),
    "[session]",
)
VERSIONS = Section(
    {"key": Key(_NAMES, needed=True), "from": Key(Text('"since"'), needed=True)},
    '{ key = ["currency"], from = "since" }',
)
CHANGELOG = Section(
    {"change": Key(Text('"op"'), needed=True), "key": Key(_NAMES), "insert_only": Key(FLAG)},
    '{ change = "op", key = ["id"] }',
)
TABLE: Mapping[str, Key] = {
    "columns": Key(_COLUMNS),
    "keys": Key(_KEYS),
    "informational_keys": Key(_KEYS),
    "rows": Key(count()),
    "bytes": Key(count("bytes")),
    "data": Key(Text(empty=True)),
    "view": Key(Text('"SELECT id FROM points"', empty=True)),
    "stream": Key(FLAG),
    "watermark": Key(Text('"ts"', empty=True)),
    "versions": Key(VERSIONS),
    "changelog": Key(CHANGELOG),
}
MEASURED = Section(
    {
        "asks": Key(ListOf(Text('"FROM points"'), '["FROM points"]', "a list of texts", least=1), needed=True),
        "rows": Key(
            ListOf(ListOf(NUMBER, "[900, 9e5]", "a list of numbers"), "[[900, 9e5]]", "a list of rows"), needed=True
        ),
    },
    "[[measured]]",
)

PLANNING: Mapping[str, Key] = {
    "columns": Key(_COLUMNS),
    "keys": Key(_KEYS),
    "fetch_keys": Key(_KEYS),
    "rows": Key(count()),
    "scans": Key(FLAG),
    "data": Key(Text(empty=True)),
}
"""Facts of a lookup for planning without its source; a source describes itself."""

_UNIQUE = Key(_KEYS)
_DECLARED = TableOf(Text('"DECIMAL(10, 2)"', check=wrong_sqlite_type), '{ total = "DECIMAL(10, 2)" }')
SOURCES: Mapping[str, Mapping[str, Key]] = {
    "postgresql": {
        "table": Key(Text('"shop.customers"')),
        "query": Key(Text('"SELECT …"')),
        "uri_env": Key(_VARIABLE, needed=True),
        "unique_keys": _UNIQUE,
        "types": Key(TableOf(Text('"STRING"', check=wrong_lookup_type), '{ total = "DECIMAL(10, 2)" }')),
    },
    "sqlite": {
        "table": Key(Text('"customers"')),
        "query": Key(Text('"SELECT …"')),
        "path": Key(Text('"shop.db"'), needed=True),
        "unique_keys": _UNIQUE,
        "types": Key(_DECLARED),
    },
    "http": {
        "url": Key(Text('"https://rates.example/lookup"'), needed=True),
        "columns": Key(
            TableOf(Text('"BIGINT"', check=wrong_lookup_type), '{ id = "BIGINT", … }', "a table of types", least=1),
            needed=True,
        ),
        "keys": Key(_NAMES, needed=True),
        "parameter": Key(Text('"ids"')),
        "rows": Key(Text('"rows"')),
        "headers_env": Key(TableOf(_VARIABLE, '{ Authorization = "RATES_TOKEN" }')),
        "max_bytes": Key(count("bytes", "10_000_000")),
        "unique_keys": _UNIQUE,
    },
    "spark": {
        "table": Key(Text('"shop.customers"')),
        "path": Key(Text('"customers.parquet"')),
        "format": Key(Text('"parquet"')),
        "ddl": Key(Text('"id BIGINT, name STRING"')),
        "options": Key(TableOf(SCALAR, '{ header = "true" }')),
        "unique_keys": _UNIQUE,
    },
}
"""The settings of the sources of lookups, by their kinds."""


class Lookup(Kind):
    """A ``[lookup.NAME]``: what planning may know of it, and with a ``kind`` the settings of its source."""

    expected = "a table of settings"
    example = '[lookup.Customers] with kind = "postgresql"'

    def problem(self, value: Any, at: At) -> Problem | None:
        if not isinstance(value, dict):
            return self.other(value, at)
        if "kind" not in value:
            return _without_kind(value, at) or Section(PLANNING, self.example).problem(value, at)
        if wrong := wrong_kind(value["kind"]):
            return Problem((*at, "kind"), wrong)
        keys = {**PLANNING, **SOURCES[value["kind"]], "kind": Key(Text())}
        found = Section(keys, self.example).problem(value, at)
        return _lacking_column(value, at) if found is None and value["kind"] == "http" else found


def _lacking_column(value: dict[str, Any], at: At) -> Problem | None:
    """The problem of an HTTP service with keys that are none of its columns."""
    wanted = [("keys", name) for name in value["keys"]]
    wanted += [("unique_keys", name) for key in value.get("unique_keys", []) for name in key]
    for key, name in wanted:
        if name not in value["columns"]:
            return Problem((*at, key), f"there is no column {shown(name)}; {one_of(value['columns'], name)}")
    return None


def _without_kind(value: dict[str, Any], at: At) -> Problem | None:
    """What is wrong with a lookup that has settings of a source, and no kind."""
    unknown = [name for name in value if name not in PLANNING]
    if near := get_close_matches("kind", unknown, n=1):
        return Problem((*at, near[0]), f"there is no such key; did you mean 'kind'? possible: {', '.join(SOURCES)}")
    if own := next((name for name in unknown if any(name in keys for keys in SOURCES.values())), None):
        return Problem(at, f'it has {own} and no kind; write kind = "postgresql"; {one_of(SOURCES, "")}')
    return None


def wrong_kind(kind: Any) -> str:
    """Why a value is not the kind of a source; nothing where it is one."""
    if isinstance(kind, str) and kind in SOURCES:
        return ""
    return f"kind is {shown(kind)}; {one_of(SOURCES, shown(kind))}"


FILE = Section(
    {
        "extends": Key(Text('"shop"')),
        "session": Key(SESSION),
        "tables": Key(TableOf(Section(TABLE, "[tables.points]"), "[tables.points]", name=wrong_table_name)),
        "lookup": Key(TableOf(Lookup(), "[lookup.Customers]", name=wrong_table_name)),
        "measured": Key(ListOf(MEASURED, "[[measured]]", "a list of tables")),
    },
    "[tables.points]",
)
"""A whole file."""
