"""Values of every wrong type, for options of the command line and keys of catalog files; catalogs with such values."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from typing import Any

TEXTS = (
    "",
    " ",
    "x",
    "0",
    "-1",
    "1.5",
    "nan",
    "inf",
    "-inf",
    "1e400",
    "9" * 400,
    "2147483648",
    "true",
    "null",
    "[]",
    "[[1]]",
    "{}",
    "2024-01-01",
    "x" * 200,
    "a\x1b[31mb\x07",
    "[/red]",
    "../elsewhere",
    "/dev/null",
    "/proc/self/mem",
    "=",
    "a=",
    "=b",
    "a=b=c",
    "a.b='1 minute'",
    "ü`\"'; --",
)
"""What an option may be given."""

VALUES: tuple[Any, ...] = (
    -1,
    0,
    1,
    2**70,
    10**5000,
    1.5,
    float("nan"),
    float("inf"),
    True,
    "",
    " ",
    "x",
    "x" * 10_000,
    "a\x1b[31mb",
    "=",
    "DECIMAL(99,2)",
    [],
    [1],
    ["x"],
    [[]],
    [[1]],
    [["x"]],
    [[["x"]]],
    ["x"] * 3,
    {},
    {"x": 1},
    {"x": "x"},
    {"x": {"x": "x"}},
    date(2024, 1, 1),
    datetime(2024, 1, 1, tzinfo=UTC),
    time(12),
)
"""What a key may be given."""

Place = tuple[str | int, ...]

_SOURCES: dict[str, dict[str, Any]] = {
    "postgresql": {"table": "shop.customers", "uri_env": "CUSTOMERS_DB", "types": {"id": "STRING"}},
    "sqlite": {"table": "customers", "path": "shop.db", "types": {"id": "DECIMAL(10, 2)"}},
    "http": {
        "url": "http://localhost/x",
        "keys": ["id"],
        "headers_env": {"Authorization": "TOKEN"},
        "rows": "rows",
        "max_bytes": 9,
    },
    "spark": {"path": "c.csv", "format": "csv", "ddl": "id BIGINT", "options": {"header": "true"}},
}
_QUERIES = {"postgresql": "query", "sqlite": "query", "http": "parameter", "spark": "table"}


def catalog() -> dict[str, Any]:
    """A catalog that has every key, and is right."""
    columns = {"id": "BIGINT", "op": "STRING", "since": "TIMESTAMP"}
    lookup: dict[str, Any] = {}
    for kind, settings in _SOURCES.items():
        planning = {"columns": dict(columns), "scans": True, "fetch_keys": [["id"]]}
        more = {} if kind == "http" else {"keys": [["id"]], "rows": 5}
        lookup[f"{kind}_1"] = {"kind": kind, "unique_keys": [["id"]], **planning, **more, **copy.deepcopy(settings)}
        other = {k: v for k, v in settings.items() if k not in ("table", "path") or (k, kind) == ("path", "sqlite")}
        lookup[f"{kind}_2"] = {"kind": kind, **planning, **more, **copy.deepcopy(other), _QUERIES[kind]: "id"}
    return {
        "session": {"ansi": True, "time_zone": "UTC", "case_sensitive": False, "asof_join": False, "nearest_by": True},
        "measured": [{"asks": ["FROM points"], "rows": [[1, 9.5, "NULL"]]}],
        "tables": {
            "points": {
                "columns": dict(columns),
                "keys": [["id"]],
                "informational_keys": [["op"]],
                "rows": 10,
                "bytes": 100,
                "stream": True,
                "watermark": "since",
                "data": "id | op\n1 | x",
                "versions": {"key": ["id"], "from": "since"},
                "changelog": {"change": "op", "key": ["id"], "insert_only": True},
            },
            "near": {"columns": {"id": "BIGINT"}, "view": "SELECT id FROM points"},
        },
        "lookup": lookup,
    }


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Every place in a catalog that has a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*at, key)
        yield from places(inner, (*at, key))


def at_place(document: Any, place: Place) -> Any:
    for part in place:
        document = document[part]
    return document


def with_value(place: Place, value: Any) -> dict[str, Any]:
    """The catalog with another value at one place."""
    document = catalog()
    at_place(document, place[:-1])[place[-1]] = value
    return document


def with_key(place: Place, name: str) -> dict[str, Any]:
    """The catalog with another name for one key."""
    document = catalog()
    table = at_place(document, place[:-1])
    table[name] = table.pop(place[-1])
    return document


def toml(document: dict[str, Any]) -> str:
    """A catalog as text: a header for each table of tables, a line for each of its keys."""
    lines = []
    for section, body in document.items():
        tables = {f"{section}": body} if section == "session" and isinstance(body, dict) else None
        if section in ("tables", "lookup") and isinstance(body, dict) and body:
            tables = {f"{section}.{_name(name)}": inner for name, inner in body.items()}
        if tables and all(isinstance(inner, dict) for inner in tables.values()):
            for header, inner in tables.items():
                lines.append(f"[{header}]")
                lines += [f"{_name(key)} = {inline(value)}" for key, value in inner.items()]
        else:
            lines.insert(0, f"{_name(section)} = {inline(body)}")
    return "\n".join(lines) + "\n"


def _name(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_]+", key) else json.dumps(key)


def inline(value: Any) -> str:
    """A value as TOML writes it in one line."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return json.dumps(value)
        case dict():
            return "{" + ", ".join(f"{_name(k)} = {inline(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(inline, value)) + "]"
        case date() | time():
            return value.isoformat()
        case int():
            return hex(value) if value > 1 << 64 else str(value)
    return repr(value)
