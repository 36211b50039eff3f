"""What a value that SQLite stores is in Spark, said anew for tests: by the declared type, from what sqlite3 returns."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

MISFIT = object()


def a_decimal(precision: int, scale: int) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if not isinstance(value, int | float):
            return MISFIT
        number = Decimal(value) if abs(value) >= 10**15 else Decimal(f"{value:.15g}") + 0
        if not number.is_finite() or abs(number) >= Decimal(10) ** (precision - scale):
            return MISFIT
        units = number.scaleb(scale)
        return MISFIT if units != units.to_integral_value() else Decimal(int(units)).scaleb(-scale)

    return read


def a_time(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("0000-"):  # a year that Python lacks: as text
        found = a_time(f"0400{value[4:]}")
        return found if found is MISFIT else f"0000{found:-%m-%d %H:%M:%S.%f}"
    for form in ("%Y-%m-%d", "%Y-%m-%d %H", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S.%f"):
        try:
            found = datetime.strptime(value.replace("T", " "), form)
        except (ValueError, AttributeError, TypeError):
            continue
        padded = len(value.partition(".")[0]) in (10, 13, 16, 19)
        return found if padded and value.count("T") <= 1 and value[10:11] in ("", " ", "T") else MISFIT
    return MISFIT


def a_day(value: Any) -> Any:
    found: Any = a_time(value) if isinstance(value, str) and len(value) == 10 else MISFIT
    return found if found is MISFIT else found[:10] if isinstance(found, str) else found.date()


def of(*kinds: type) -> Callable[[Any], Any]:
    return lambda value: value if isinstance(value, kinds) else MISFIT


def a_whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and -(2**63) <= value < 2**63:
        return int(value)
    return value if isinstance(value, int) else MISFIT


def a_real(value: Any) -> Any:
    if isinstance(value, float):
        return value
    return float(value) if isinstance(value, int) and int(float(value)) == value else MISFIT


def any_text(value: Any) -> Any:
    return str(value) if isinstance(value, int | str) else f"{value:.15g}" if isinstance(value, float) else MISFIT


READ: dict[str, Callable[[Any], Any]] = {
    "INTEGER": a_whole,
    "REAL": a_real,
    "DOUBLE": a_real,
    "TEXT": of(str),
    "TEXT COLLATE NOCASE": of(str),
    "ANY": any_text,
    "BLOB": of(bytes),
    "BOOLEAN": lambda value: bool(value) if value in (0, 1) and isinstance(value, int) else MISFIT,
    "DATE": a_day,
    "TIMESTAMP": a_time,
    "DECIMAL(10, 2)": a_decimal(10, 2),
    "DECIMAL(20, 0)": a_decimal(20, 0),
    "DECIMAL(38, 18)": a_decimal(38, 18),
}
