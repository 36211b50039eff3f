"""Counted times: calls that return the whole units of a TIMESTAMP since 1970.

    q.ts <= t.ts AND unix_timestamp(t.ts) - unix_timestamp(q.ts) <= 300        t.ts <  q.ts + 301 seconds
    o.ts >= c.valid_from AND CAST(o.ts AS DATE) <= c.valid_to                  o.ts <  c.valid_to + 1 day

The time is at least the count and less than one unit more.  A DATE is a count of days in the zone of the session.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from sqlglot import exp

from dovetail.planner.band.axis import DAY, SECOND
from dovetail.planner.types.schema import SqlType, sql_type
from dovetail.planner.types.typed import infer_type

_UNITS: dict[type[exp.Expression], int] = {
    exp.StrToUnix: SECOND,
    exp.UnixSeconds: SECOND,
    exp.UnixMillis: 1_000,
    exp.UnixMicros: 1,
}
_ROUNDING = Fraction(1_000)  # of seconds as DOUBLE, in the year 9999


class CountedTime(NamedTuple):
    """An expression of TIMESTAMP, and the unit in microseconds of which a call returns its count.

    ``rounding``: how far the count may be off, in microseconds.
    """

    time: exp.Expression
    unit: Fraction
    is_date: bool = False
    rounding: Fraction = Fraction(0)


def counted_time(
    tree: exp.Expression, type_of: Callable[[exp.Expression], SqlType | None], *, ansi: bool
) -> CountedTime | None:
    """The time of which a call returns the count; None for any other expression."""
    found = _read(tree, ansi=ansi)
    if found is None or (type_ := infer_type(found.time, type_of)) is None:
        return None
    return found if type_.name == "timestamp" or (found.is_date and type_.name == "timestamp_ntz") else None


def _read(tree: exp.Expression, *, ansi: bool) -> CountedTime | None:
    unit = _UNITS.get(type(tree))
    if unit and not tree.args.get("format"):
        return CountedTime(tree.this, Fraction(unit))
    if isinstance(tree, exp.TsOrDsToDate) and not tree.args.get("format"):
        return CountedTime(tree.this, Fraction(DAY), is_date=True)
    if not isinstance(tree, exp.Cast):
        return None
    match sql_type(tree.to.sql("spark")).name:
        case "date":
            return CountedTime(tree.this, Fraction(DAY), is_date=True)
        case "bigint" | "int" as name if name == "bigint" or ansi:  # without ANSI, INT wraps around in 2038
            return CountedTime(tree.this, Fraction(SECOND))
        case "double":
            return CountedTime(tree.this, Fraction(SECOND), rounding=_ROUNDING)
    return None
