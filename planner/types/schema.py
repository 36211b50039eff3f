"""Columns and Spark types, as far as rules need them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Generic, TypeVar

T = TypeVar("T")

INTEGRAL = ("tinyint", "smallint", "int", "bigint")
TEMPORAL = ("date", "timestamp", "timestamp_ntz")
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
_FILLERS = {
    "string": "''",
    "boolean": "false",
    "date": "DATE '1970-01-01'",
    "timestamp": "TIMESTAMP_LTZ '1970-01-01 00:00:00'",
    "timestamp_ntz": "TIMESTAMP_NTZ '1970-01-01 00:00:00'",
}
_ZONED = re.compile(r"\btimestamp\b(?![`\s]*:)", re.IGNORECASE)  # not the name of a field
# Digits before the point and behind it that hold every value of an integral type, as Spark widens it.
_DIGITS = {"tinyint": (3, 0), "smallint": (5, 0), "int": (10, 0), "bigint": (20, 0)}


@dataclass(frozen=True)
class SqlType:
    """A Spark type: its name, precision and scale of decimals, and ``text``, the complete type in Spark's syntax."""

    name: str
    precision: int = 0
    scale: int = 0
    text: str = ""

    def __post_init__(self) -> None:
        if not self.text:
            object.__setattr__(self, "text", self.name)

    @property
    def integral(self) -> bool:
        """TINYINT to BIGINT."""
        return self.name in INTEGRAL

    @property
    def fractional(self) -> bool:
        """FLOAT, DOUBLE, DECIMAL."""
        return self.approximate or self.name == "decimal"

    @property
    def numeric(self) -> bool:
        """Any number."""
        return self.integral or self.fractional

    @property
    def exact_numeric(self) -> bool:
        """Whole numbers and DECIMAL: the SQL standard's exact numeric types."""
        return self.integral or self.name == "decimal"

    @property
    def approximate(self) -> bool:
        """FLOAT and DOUBLE: the SQL standard's approximate numeric types."""
        return self.name in ("float", "double")

    @property
    def temporal(self) -> bool:
        """DATE, TIMESTAMP and TIMESTAMP_NTZ."""
        return self.name in TEMPORAL

    @property
    def exact(self) -> bool:
        """Whether equal values are identical, so that one can replace the other.

        Exceptions: 0.0 and -0.0, strings with a collation, CHAR and VARCHAR (Spark pads and trims them), nested types.
        """
        scalar = self.exact_numeric or self.temporal or self.name in ("boolean", "string")
        return scalar and "collate" not in self.text

    @property
    def ordered(self) -> bool:
        """Whether min() and max() of the type are the least and the greatest value by ``<``."""
        return self.numeric or self.temporal or self.name in ("boolean", "string")

    @property
    def digits(self) -> tuple[int, int]:
        """Digits before and behind the decimal point; (0, 0) where it does not apply."""
        if self.name == "decimal":
            return self.precision - self.scale, self.scale
        return _DIGITS.get(self.name, (0, 0))

    def field(self, names: tuple[str, ...]) -> SqlType | None:
        """The type of a struct field, possibly nested; None if unknown."""
        if not names:
            return self
        if self.name != "struct":
            return None
        parts = [field.partition(":") for field in self._inner]
        found = [text for name, _, text in parts if name.strip().strip("`") == names[0].lower()]
        return sql_type(found[0]).field(names[1:]) if len(found) == 1 and found[0].strip() else None

    @property
    def elements(self) -> tuple[SqlType, ...]:
        """The type of the elements of an array, or of the keys and the values of a map; none for another type."""
        return tuple(map(sql_type, self._inner)) if self.name in ("array", "map") else ()

    @property
    def _inner(self) -> list[str]:
        """What stands in the brackets of a nested type, between its commas."""
        if not self.text.endswith(">"):
            return []
        depth, parts = 0, [""]
        for letter in self.text[self.text.index("<") + 1 : -1]:
            depth += (letter in "<(") - (letter in ">)")
            parts = [*parts, ""] if letter == "," and not depth else [*parts[:-1], parts[-1] + letter]
        return parts

    @property
    def filler(self) -> str | None:
        """A value that is not NULL, so that a column of a union is NULL only where it was; None if there is none."""
        if self.numeric:  # a cast of 0, an INT, to a DECIMAL may be NULL without ANSI
            return f"CAST({'0BD' if self.name == 'decimal' else '0'} AS {self})"
        return _FILLERS.get(self.name) if self.text == self.name else None

    @property
    def sql(self) -> str:
        """The type in SQL; plain TIMESTAMP would depend on a session setting."""
        text = self.text if "<" in self.text else self.text.upper()  # names of fields keep their case
        return _ZONED.sub("TIMESTAMP_LTZ", text)

    def __str__(self) -> str:
        return self.text.upper()


@dataclass(frozen=True)
class Deferred(Generic[T]):
    """A fact about column ``number`` of a query, found when a rule needs it; ``find`` may send a request to Spark."""

    query: object
    number: int
    find: Callable[[], T] = field(compare=False, repr=False)

    @cached_property
    def found(self) -> T:
        """The fact."""
        return self.find()


@dataclass(frozen=True)
class Column:
    """A column of a relation; ``type`` is None if unknown.

    ``field``: what follows the column where a name means a field of it, whose ``type`` it then is.
    """

    name: str
    typed: SqlType | Deferred[SqlType | None] | None = None
    field: tuple[str, ...] = ()
    nullable: bool | Deferred[bool] = True

    @property
    def type(self) -> SqlType | None:
        """Its type; None if unknown."""
        return self.typed.found if isinstance(self.typed, Deferred) else self.typed

    @property
    def may_be_null(self) -> bool:
        """Whether a row may have NULL in it, or that is not known."""
        return self.nullable.found if isinstance(self.nullable, Deferred) else self.nullable


@lru_cache(maxsize=1024)  # tables have many columns of few types
def sql_type(text: str) -> SqlType:
    """Parse a type in Spark's syntax (``decimal(10,2)``, ``timestamp_ntz``, ``array<int>``)."""
    text = text.strip().lower()
    if found := re.fullmatch(r"(decimal|dec|numeric)(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?", text):
        precision, scale = int(found[2] or 10), int(found[3] or 0)
        return SqlType("decimal", precision, scale, f"decimal({precision},{scale})")
    name = _ALIASES.get(text, text)
    if found := re.fullmatch(r"(timestamp\w*)\s*\(\s*(\d+)\s*\)", name):
        # Six digits are microseconds, the type without digits; more are another type.
        return sql_type(found[1]) if found[2] == "6" else SqlType(name, text=name)
    return SqlType(re.split(r"[<( ]", name)[0], text=name)
