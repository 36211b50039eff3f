"""The values of a matrix over lookup sources: for each type of Spark those at its ends, and what is odd about it.

A value is written as text that Spark casts to the type, or as hexadecimal digits for BINARY, so that dates beyond those
of Python and floats keep all that they have.  ``MISFIT`` is a stored value that Spark's type cannot hold.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import Final

MISFIT: Final = "<misfit>"

FLOATS = ["0.0", "-0.0", "1.5", "NaN", "Infinity", "-Infinity"]
WALL = [
    "1970-01-01 00:00:00",
    "1969-12-31 23:59:59.999999",
    "0001-01-01 00:00:00",
    "0000-12-31 23:59:59",
    "1582-10-10 12:00:00",
    "2020-01-01 10:00:00.5",
    "2020-01-01 10:00:00",
    "2024-03-31 01:30:00.123456",
    "9999-12-31 23:59:59.999999",
    "+10000-01-01 00:00:00",
    "-4712-11-24 00:00:00",
    "+294247-01-10 04:00:54.775807",
    "-290308-12-21 19:59:05.224192",
]
VALUES: dict[str, list[str]] = {
    "BOOLEAN": ["true", "false"],
    "TINYINT": ["0", "1", "127", "-128"],
    "SMALLINT": ["0", "1", "32767", "-32768"],
    "INT": ["0", "1", "2147483647", "-2147483648"],
    "BIGINT": ["0", "1", "9007199254740993", "9223372036854775807", "-9223372036854775808"],
    "FLOAT": [*FLOATS, "3.4028235E38", "-3.4028235E38", "1.4E-45"],
    "DOUBLE": [*FLOATS, "0.1", "0.30000000000000004", "1.7976931348623157E308", "-1.7976931348623157E308", "4.9E-324"],
    "DECIMAL(10, 2)": ["0.00", "0.01", "1.50", "-1.50", "99999999.99", "-99999999.99"],
    "DECIMAL(20, 0)": ["0", "5", "999999999999999", "9007199254740993", "9223372036854775807", "99999999999999999999"],
    "DECIMAL(38, 18)": [
        "0",
        "1.5",
        "0.000000000000000001",
        "9007199254740993",
        "99999999999999999999.999999999999999999",
        "-99999999999999999999.999999999999999999",
    ],
    "STRING": ["", " ", "a", "A", "a ", "é", "e\u0301", "a\0b", "\0", "漢字", "1", "01", "1.0", "x" * 5000],
    "BINARY": ["", "00", "6100", "61", "ff"],
    "DATE": [
        "1970-01-01",
        "0001-01-01",
        "0000-12-31",
        "1582-10-10",
        "2020-01-01",
        "9999-12-31",
        "+10000-01-01",
        "-4712-11-24",
        "+5874897-12-31",
        "+5881580-07-11",
        "-5877641-06-23",
    ],
    "TIMESTAMP": WALL,
    "TIMESTAMP_NTZ": WALL,
    "TIME(6)": ["00:00:00", "12:30:00.5", "23:59:59.999999"],
    "INTERVAL DAY TO SECOND": [
        "INTERVAL '0 00:00:00' DAY TO SECOND",
        "INTERVAL '-1 02:03:04.5' DAY TO SECOND",
        "INTERVAL '106751991 04:00:54.775807' DAY TO SECOND",
        "INTERVAL '-106751991 04:00:54.775808' DAY TO SECOND",
    ],
    "ARRAY<INT>": ["[]", "[1, null, -2147483648]"],
    "STRUCT<a INT, b STRING>": ['{"a": 1, "b": ""}', '{"a": null, "b": null}'],
}
NO_KEYS = ("INTERVAL DAY TO SECOND", "ARRAY<INT>", "STRUCT<a INT, b STRING>")  # no table is asked by these


def typed(type_: str, column: str) -> str:
    """The expression that makes of a text the value that it stands for."""
    if type_.startswith(("ARRAY", "STRUCT")):
        return f"from_json({column}, '{type_}')"
    return f"unhex({column})" if type_ == "BINARY" else f"CAST({column} AS {type_})"


def shown(type_: str, column: str) -> str:
    """The expression that shows all of a value."""
    return f"hex({column})" if type_ == "BINARY" else f"CAST({column} AS STRING)"


def is_decimal(text: str, precision: int, scale: int) -> bool:
    """Whether a number fits a DECIMAL as it is."""
    with localcontext(prec=1000):
        number = Decimal(text)
        if not number.is_finite() or abs(number) >= Decimal(10) ** (precision - scale):
            return False
        return number.scaleb(scale) == number.scaleb(scale).to_integral_value()


def sign(year: int, rest: str) -> str:
    """A date as Spark writes it, with an astronomical year."""
    if 0 <= year <= 9999:
        return f"{year:04d}{rest}"
    return f"{'+' if year > 0 else '-'}{abs(year):04d}{rest}"
