"""Columns and types, as far as the rules need to know them; types are written as Spark writes them."""

from __future__ import annotations

import re
from dataclasses import dataclass

INTEGRAL = ("tinyint", "smallint", "int", "bigint")
_ALIASES = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "timestamp_ltz": "timestamp",
    "timestampntz": "timestamp_ntz",
    "timestampltz": "timestamp",
}
_ZONED = re.compile(r"\btimestamp\b(?![`\s]*:)", re.IGNORECASE)  # not the name of a field
# Digits before the point and behind it that hold every value of an integral type, as Spark widens it.
_DIGITS = {"tinyint": (3, 0), "smallint": (5, 0), "int": (10, 0), "bigint": (20, 0)}


@dataclass(frozen=True)
class SqlType:
    """A Spark type: its name, with precision and scale for decimals; ``text`` is the whole of it."""

    name: str
    precision: int = 0
    scale: int = 0
    text: str = ""

    @property
    def integral(self) -> bool:
        """TINYINT to BIGINT."""
        return self.name in INTEGRAL

    @property
    def fractional(self) -> bool:
        """FLOAT, DOUBLE, DECIMAL."""
        return self.name in ("float", "double", "decimal")

    @property
    def numeric(self) -> bool:
        """Any number."""
        return self.integral or self.fractional

    @property
    def digits(self) -> tuple[int, int]:
        """Digits before and behind the decimal point; (0, 0) where it does not apply."""
        if self.name == "decimal":
            return self.precision - self.scale, self.scale
        return _DIGITS.get(self.name, (0, 0))

    def field(self, names: tuple[str, ...]) -> SqlType | None:
        """The type of a field of a struct, or of a field of its fields; None where that cannot be told."""
        if not names:
            return self
        if self.name != "struct" or not self.text.endswith(">"):
            return None
        depth, fields = 0, [""]
        for letter in self.text[self.text.index("<") + 1 : -1]:
            depth += (letter in "<(") - (letter in ">)")
            fields = [*fields, ""] if letter == "," and not depth else [*fields[:-1], fields[-1] + letter]
        parts = [field.partition(":") for field in fields]
        found = [text for name, _, text in parts if name.strip().strip("`") == names[0].lower()]
        return sql_type(found[0]).field(names[1:]) if len(found) == 1 and found[0].strip() else None

    @property
    def sql(self) -> str:
        """The type in a statement: what TIMESTAMP alone means there hangs on a setting of the session."""
        said = self.text or self.name  # names of fields keep their case
        return _ZONED.sub("TIMESTAMP_LTZ", said if "<" in said else said.upper())

    def __str__(self) -> str:
        return (self.text or self.name).upper()


@dataclass(frozen=True)
class Column:
    """A column of a relation; ``type`` is None where it is not known.

    ``field``: what follows the column where a name means a field of it, whose ``type`` it then is.
    """

    name: str
    type: SqlType | None = None
    field: tuple[str, ...] = ()


def sql_type(text: str) -> SqlType:
    """Read a type as Spark writes it (``decimal(10,2)``, ``timestamp_ntz``, ``array<int>``)."""
    text = text.strip().lower()
    if found := re.fullmatch(r"(decimal|dec|numeric)(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?", text):
        precision, scale = int(found[2] or 10), int(found[3] or 0)
        return SqlType("decimal", precision, scale, f"decimal({precision},{scale})")
    name = _ALIASES.get(text, text)
    if found := re.fullmatch(r"(timestamp\w*)\s*\(\s*(\d+)\s*\)", name):
        # Six digits are microseconds, the type without digits; more are another type.
        return sql_type(found[1]) if found[2] == "6" else SqlType(name, text=name)
    return SqlType(re.split(r"[<( ]", name)[0], text=name)
