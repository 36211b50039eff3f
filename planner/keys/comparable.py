"""The common type of two operands of an equality, whose equal values have equal hashes."""

from __future__ import annotations

import re

from dovetail.planner.errors import Refused
from dovetail.planner.types.schema import SqlType, sql_type
from dovetail.planner.types.typed import known_type

_HASHED = frozenset(
    "tinyint smallint int bigint decimal float double boolean date timestamp timestamp_ntz string binary interval "
    "array struct".split()
)
_NOT_HASHED = re.compile(r"\b(map|variant|collate|char|void)\b")  # equal values may have other hashes, or none
_MOST_DIGITS = 38  # of a DECIMAL
_VARCHAR = re.compile(r"varchar\(\d+\)")  # only the length of what is stored differs from STRING
_FIELD = re.compile(r"(?<=[<,])\s*(`[^`]*`|[^<>,:`()]+):\s*")  # the name of a field; Spark compares fields by place
# What Spark casts a text to that is compared with a value of another type.
_TEXT_AS = {"boolean": "BOOLEAN", "date": "DATE", "timestamp": "TIMESTAMP_LTZ", "timestamp_ntz": "TIMESTAMP_NTZ"}


def _hashed(type_: SqlType | None) -> SqlType:
    """The type without its length and names of fields.

    Raises ``Refused`` for a type whose equal values may have different hashes.
    """
    known = without_names(without_length(known_type(type_, "an operand")))
    if known.name not in _HASHED or _NOT_HASHED.search(known.text):
        raise Refused(f"equal values of {known} may have different hashes")
    return known


def common_cast(types: tuple[SqlType | None, ...], *, ansi: bool) -> str:
    """The type to cast values to, so that values that Spark takes for equal have one hash; empty if no cast is needed.

    Spark compares numbers of different types exactly, or as FLOAT or DOUBLE; values that are equal then are equal as
    FLOAT, too, or as DOUBLE if there is no FLOAT.  Decimals that have too many digits for one type are rounded first.
    Raises ``Refused`` for types whose equal values may be hashed differently, and for a text beside another type
    without ANSI, where Spark reads texts otherwise.
    """
    known = [_hashed(type_) for type_ in types]
    if len(set(known)) == 1:
        return ""
    names = {type_.name for type_ in known}
    if all(type_.numeric for type_ in known):
        if all(type_.integral for type_ in known):
            return "BIGINT"
        return "FLOAT" if "float" in names else "DOUBLE" if "double" in names else _decimal_cast(known)
    if names <= {"date", "timestamp", "timestamp_ntz"}:
        return "TIMESTAMP_LTZ" if "timestamp" in names else "TIMESTAMP_NTZ"
    others = [type_ for type_ in known if type_.name != "string"]
    if ansi and len(set(others)) == 1 and (others[0].numeric or others[0].name in _TEXT_AS):
        return "DOUBLE" if others[0].numeric else _TEXT_AS[others[0].name]
    raise Refused(f"Spark compares {' with '.join(map(str, dict.fromkeys(known)))} by a cast")


def _decimal_cast(types: list[SqlType]) -> str:
    """The type to cast decimals and whole numbers to: DOUBLE, unless Spark rounds them to 38 digits."""
    whole, scale = (max(digits) for digits in zip(*(type_.digits for type_ in types), strict=True))
    if whole + scale <= _MOST_DIGITS:
        return "DOUBLE"
    if len(types) > 2:
        raise Refused(f"Spark rounds {', '.join(map(str, types))} before it compares them")
    return f"DECIMAL({_MOST_DIGITS},{max(0, _MOST_DIGITS - whole)})"


def without_names(type_: SqlType) -> SqlType:
    """A type without the names of fields, which Spark compares by their places."""
    return sql_type(_FIELD.sub("", type_.text)) if "struct" in type_.text else type_


def without_length(type_: SqlType) -> SqlType:
    """A type with STRING in the place of VARCHAR."""
    return sql_type(_VARCHAR.sub("string", type_.text))
