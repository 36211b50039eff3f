"""Writes a literal of Spark Connect's protocol, a value with a type, as a literal of Spark SQL."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from dovetail.executor.frame_sql.literals import literal_sql, type_sql
from dovetail.planner.errors import Refused

_EPOCH = datetime(1970, 1, 1)  # a time without a zone
_LIKE_AN_ID = re.compile(r"#\d")
_NUMBERS = {
    "byte": "byte",
    "short": "short",
    "integer": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "timestamp_ntz": "timestamp_ntz",
    "year_month_interval": "interval year to month",
    "day_time_interval": "interval day to second",
}


def proto_literal_sql(literal: Any) -> str:
    """Write a literal.  Raises ``Refused`` for another kind, and for a text that looks like the ID of a column."""
    kind = str(literal.WhichOneof("literal_type"))
    value: Any = getattr(literal, kind, None)
    if kind == "null":
        return literal_sql(None, type_of(value).jsonValue(), "")
    if kind == "boolean":
        return "true" if value else "false"
    if kind == "string":
        check_text(str(value))
        return literal_sql(str(value), "string", "")
    if kind in _NUMBERS:
        return literal_sql(_spark_number(value), _NUMBERS[kind], "")
    if kind == "decimal":
        return _decimal(literal.decimal)
    try:
        if kind == "date":
            return literal_sql((date(1970, 1, 1) + timedelta(days=value)).isoformat(), "date", "")
        if kind == "timestamp":
            moment = (_EPOCH + timedelta(microseconds=value)).isoformat(sep=" ")
            return literal_sql(moment, "timestamp", "UTC")
    except OverflowError as error:
        raise Refused(f"a {kind} outside of Python's is not written as SQL") from error
    raise Refused(f"a literal of type {kind.replace('_', ' ')} is not written as SQL")


def check_text(text: str) -> None:
    """Raise ``Refused`` for a string literal that the text of a plan would show as the ID of a column."""
    if _LIKE_AN_ID.search(text):
        raise Refused(f"the text {text!r} looks like a column in the text of a plan, which could not be compared")


def type_of(message: Any) -> Any:
    """Return the type of PySpark for one of the protocol.  Raises ``Refused``."""
    from pyspark.sql.connect.types import proto_schema_to_pyspark_data_type

    try:
        return proto_schema_to_pyspark_data_type(message)
    except Exception as error:
        raise Refused("a type of the protocol is not known here") from error


def proto_type_sql(message: Any) -> str:
    """Write a type of the protocol as SQL.  Raises ``Refused``."""
    return type_sql(type_of(message).jsonValue())


def _spark_number(value: float) -> str:
    return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(repr(value), repr(value))


def _decimal(literal: Any) -> str:
    """Write a decimal: the server takes the larger of its own digits and those that the client passes."""
    number = Decimal(literal.value)
    if not number.is_finite():
        raise Refused("a decimal that is no number is not written as SQL")
    digits, exponent = len(number.as_tuple().digits), int(number.as_tuple().exponent)
    scale = max(-exponent, 0, literal.scale)
    precision = max(digits if exponent <= 0 else digits + exponent, literal.precision, scale)
    if precision > 38:
        raise Refused("a decimal of more than 38 digits is not written as SQL")
    return literal_sql(f"{number:f}", f"decimal({precision},{scale})", "")
