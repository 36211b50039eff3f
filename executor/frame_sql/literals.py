"""Writes a literal of Catalyst's JSON, a text with a type, as a literal of Spark SQL."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlglot import exp

from dovetail.planner.errors import Refused, Unsupported
from dovetail.planner.expr import parse

_SUFFIXES = {"long": "L", "short": "S", "byte": "Y", "double": "D", "float": "F"}
_EPOCH = datetime(1970, 1, 1)  # a time without a zone


def literal_sql(value: str | None, type_: Any, jvm_zone: str) -> str:
    """Write a literal; ``jvm_zone``: the zone in which the JVM writes timestamps.  Raises ``Refused``."""
    name = type_ if isinstance(type_, str) else ""
    if value is None:
        return "NULL" if name == "void" else f"CAST(NULL AS {type_sql(type_)})"
    if name == "boolean":
        return value
    if name.partition(" ")[0] == "string":
        return text_sql(value) if name == "string" else f"CAST({text_sql(value)} AS {type_sql(type_)})"
    if name in ("integer", *_SUFFIXES):
        return _number(value, name)
    if name.startswith("decimal"):
        return f"CAST({Decimal(value):f}BD AS {name})"  # from a string, it could be NULL
    if name == "date":
        return f"DATE {text_sql(value)}"
    if name == "timestamp":
        return f"TIMESTAMP {text_sql(f'{value} {jvm_zone}')}"
    if name == "timestamp_ntz":
        return f"TIMESTAMP_NTZ {text_sql((_EPOCH + timedelta(microseconds=int(value))).isoformat(sep=' '))}"
    if name in ("interval year", "interval month", "interval year to month"):
        return f"CAST(INTERVAL {text_sql(value)} MONTH AS {name})"
    if name.startswith("interval "):
        return _day_time(int(value), name)
    raise Refused(f"a literal of type {name or 'a nested type'} is not written as SQL")


def literal_tree(text: str) -> exp.Expression:
    """Read a literal that was written.  Raises ``Refused``."""
    try:
        return parse(text).copy()
    except Unsupported as error:
        raise Refused(f"the literal {text} is not written as SQL") from error


def text_sql(value: str) -> str:
    """Write a string literal."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def type_sql(type_: Any) -> str:
    """Write a type of Spark's JSON as SQL.  Raises ``Refused`` for a type of another library."""
    from pyspark.sql.types import _parse_datatype_json_value

    if type_ == "void":
        return "void"
    try:
        return _parse_datatype_json_value(type_).simpleString()
    except Exception as error:
        raise Refused(f"the type {type_} is not written as SQL") from error


def _number(value: str, name: str) -> str:
    if value in ("NaN", "Infinity", "-Infinity"):
        return f"CAST('{value}' AS {name})"
    return value + _SUFFIXES.get(name, "")


def _day_time(micros: int, name: str) -> str:
    """Write whole hours as hours, and so on: ``INTERVAL '2' HOUR``; the cast gives the type."""
    sign, micros = "-" if micros < 0 else "", abs(micros)
    for unit, size in (("DAY", 86_400_000_000), ("HOUR", 3_600_000_000), ("MINUTE", 60_000_000)):
        if f"{unit.lower()}" in name and micros % size == 0:
            plain = f"INTERVAL '{sign}{micros // size}' {unit}"
            return plain if name == f"interval {unit.lower()}" else f"CAST({plain} AS {name})"
    seconds, rest = divmod(micros, 1_000_000)
    return f"CAST(INTERVAL '{sign}{seconds}{f'.{rest:06}' if rest else ''}' SECOND AS {name})"
