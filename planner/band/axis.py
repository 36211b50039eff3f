"""The axis of a band: the positions of values for each family of types, and their Spark SQL.

A position is a number that grows with the value, whatever the type:

    numbers         the number itself
    DATE            days since 1970-01-01
    TIMESTAMP, _NTZ microseconds since 1970-01-01 00:00:00
    INTERVAL        microseconds
    STRING          its first 15 characters as digits of a number, as far as they are digits and ``-./:``

On the axis of dates a number is so many days; on that of times an interval is so many microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from sys import float_info

from sqlglot import exp

from dovetail.planner.types.schema import SqlType

SECOND = 1_000_000
DAY = 86_400 * SECOND
_FARTHEST = Fraction(float_info.max)
_DIGITS = 21
_UNITS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": SECOND,
    "MINUTE": 60 * SECOND,
    "HOUR": 3_600 * SECOND,
    "DAY": DAY,
    "WEEK": 7 * DAY,
}


@dataclass(frozen=True)
class Axis:
    """An axis: ``name`` is number, date, timestamp, timestamp_ntz, interval or text.

    ``exact``: positions are whole numbers that BIGINT holds, so bins can be cut by integer division.  ``float32``: a
    FLOAT takes part, with 24 bits.  ``small``: values so small that DOUBLE holds them and their sums exactly.
    """

    name: str
    exact: bool
    integral_types: bool = False
    float32: bool = False
    small: bool = False

    def human(self, amount: Fraction) -> str:
        """Format a distance for people: ``10m`` for 600,000,000 microseconds."""
        if self.name in ("number", "text"):
            return number(amount)
        micros = amount * DAY if self.name == "date" else amount
        sign, rest = ("-" if micros < 0 else ""), abs(micros)
        if not rest:
            return "0d" if self.name == "date" else "0s"
        text = ""
        for unit, size in (("d", DAY), ("h", 3_600 * SECOND), ("m", 60 * SECOND)):
            count, rest = divmod(rest, size)
            text += f"{number(Fraction(count))}{unit}" if count else ""
        if rest % SECOND and not text and rest % 1_000 == 0 and rest < SECOND:
            return f"{sign}{rest // 1_000}ms"
        return sign + text + (f"{number(rest / SECOND)}s" if rest else "")

    def position(self, text: str, type_: SqlType) -> str:
        """The position of an expression, as SQL: a whole number on an exact axis, else a DOUBLE."""
        if type_.name == "interval":
            return f"{text} DIV INTERVAL '0.000001' SECOND"
        match self.name:
            case "date":
                return f"unix_date({text})" if type_.name == "date" else text
            case "timestamp":
                same = type_.name == "timestamp"
                return f"unix_micros({text})" if same else f"unix_micros(TRY_CAST({text} AS TIMESTAMP_LTZ))"
            case "timestamp_ntz":
                text = text if type_.name == "timestamp_ntz" else f"TRY_CAST({text} AS TIMESTAMP_NTZ)"
                return f"({text} - TIMESTAMP_NTZ '1970-01-01 00:00:00') DIV INTERVAL '0.000001' SECOND"
            case "text":
                return _text_position(text)
        if self.exact or type_.name == "double":
            return text
        return f"CAST({text} AS DOUBLE)"

    def real_position(self, text: str, type_: SqlType) -> str:
        """The position as DOUBLE; never raises."""
        if type_.name == "micros" or (self.name == "number" and type_.name == "double"):
            return text
        return f"CAST({text if self.name == 'number' else self.position(text, type_)} AS DOUBLE)"

    def position_of_date(self, text: str, type_: SqlType) -> str:
        """The position of a DATE on an axis of timestamps, as DOUBLE; dates beyond all timestamps keep their order.

        ``TRY_CAST`` does not help: Spark 4.3 takes its result for never NULL, and returns 1969-12-31 for such a date.
        """
        days = f"unix_date({text})"  # not BETWEEN: Spark moves its operand to a Project, which LATERAL does not allow
        known = f"{days} >= -{_MOST_DAYS} AND {days} <= {_MOST_DAYS}"
        return f"CASE WHEN {known} THEN {self.real_position(text, type_)} ELSE {days} * 1e12D END"


_MOST_DAYS = 106_751_990  # of which the microseconds fit BIGINT in every zone


def _text_position(text: str) -> str:
    """The position of a text that is compared byte by byte, such as ``2026-01-31``, ``10.4`` or ``000123``.

    The characters from ``-`` to ``:`` follow each other in ASCII and become the hexadecimal digits 1 to E.  The first
    character behind them, F, ends a text like the first one before them, which is left out like a missing character,
    0.  So a greater text never has a smaller position; texts with equal positions are left to the condition.
    """
    cut = f"regexp_replace(regexp_replace({text}, r'(?s)[^\\x00-:].*', '~'), r'(?s)[\\x00-,].*', '')"
    digits = f"rpad(translate({cut}, '-./0123456789:~', '123456789ABCDEF'), {_TEXT_DIGITS}, '0')"
    return f"CAST(conv({digits}, 16, 10) AS BIGINT)"


_TEXT_DIGITS = 15  # hexadecimal, of a BIGINT


def axis_of(
    types: Sequence[SqlType], *, arithmetic: bool, ansi: bool, clock: bool = False, texts: bool = False
) -> Axis | str:
    """The axis on which values of these types are compared, or the reason why there is none.

    ``arithmetic``: the condition adds to them; ``clock``: it adds less than days, which makes a DATE a TIMESTAMP.  The
    type ``micros`` is a length of time that is added, in microseconds.  ``texts``: texts have an axis.
    The reason is for the person whose query was not rewritten.
    """
    names = {t.name for t in types}
    if "string" in names:
        if len(names) > 1:
            return f"{_describe_types(types)} are compared by a cast, which fails on other strings"
        if not texts or arithmetic or any(t.text != "string" for t in types):
            return "strings are compared letter by letter; bins need numbers or times"
        return Axis("text", exact=True)
    months = any(t.name == "interval" and "day" not in t.text and "second" not in t.text for t in types)
    times = names - {"interval", "micros"}
    if not times and not months:
        return Axis("interval", exact=True)
    axis = None if months else _time_axis(times, arithmetic=arithmetic, clock=clock or times != names)
    if not axis and all(t.numeric for t in types):
        return _number_axis(types, arithmetic=arithmetic, ansi=ansi)
    return axis or f"{_describe_types(types)} cannot be put on one axis"


def _time_axis(names: set[str], *, arithmetic: bool, clock: bool) -> Axis | None:
    """The axis of dates and times; None for other types."""
    if "date" in names and not clock and names <= ({"date", "tinyint", "smallint", "int"} if arithmetic else {"date"}):
        return Axis("date", exact=True, small=True)
    if names <= {"date", "timestamp"} or names == {"timestamp", "timestamp_ntz"}:
        return Axis("timestamp", exact=True)
    if names == {"timestamp_ntz"} or (names == {"date", "timestamp_ntz"} and not clock):
        return Axis("timestamp_ntz", exact=True)
    return None


def _number_axis(types: Sequence[SqlType], *, arithmetic: bool, ansi: bool) -> Axis | str:
    names = {t.name for t in types}
    if all(t.integral for t in types):
        return Axis("number", exact=True, integral_types=True, small="bigint" not in names)
    if "float" in names and len(names) > 1 and not ansi and any(not t.fractional for t in types):
        return "FLOAT against an integer is compared as FLOAT, since spark.sql.ansi.enabled is false"
    if names <= {"decimal", "tinyint", "smallint", "int", "bigint"}:
        before, behind = (max(t.digits[i] for t in types) for i in (0, 1))
        if before + behind + (2 if arithmetic else 0) > 38:
            return f"{_describe_types(types)} do not fit one DECIMAL"
    return Axis("number", exact=False, float32="float" in names, integral_types=False)


def _describe_types(types: Sequence[SqlType]) -> str:
    return " and ".join(sorted({str(t) for t in types if t.name != "micros"}))


def interval_micros(tree: exp.Interval) -> Fraction | None:
    """The length of a day-time interval literal in microseconds; None for months, years and non-literals."""
    value, unit = tree.this, tree.args.get("unit")
    if not isinstance(value, exp.Literal) or unit is None:
        return None
    if isinstance(unit, exp.IntervalSpan):
        return _span(value.name, unit.this.name.upper(), unit.expression.name.upper())
    size = _UNITS.get(unit.name.upper().removesuffix("S"))
    try:
        return None if size is None else Fraction(value.name.strip()) * size
    except ValueError:
        return None


def _span(text: str, first: str, last: str) -> Fraction | None:
    """``'1 02:03:04' DAY TO SECOND``."""
    order = ["DAY", "HOUR", "MINUTE", "SECOND"]
    if first not in order or last not in order:
        return None
    units = order[order.index(first) : order.index(last) + 1]
    sign = -1 if text.strip().startswith("-") else 1
    parts = text.strip().lstrip("+-").replace(" ", ":").split(":")
    if len(parts) != len(units):
        return None
    try:
        return sign * sum((Fraction(p) * _UNITS[u] for p, u in zip(parts, units, strict=True)), Fraction(0))
    except ValueError:
        return None


def real(amount: Fraction) -> float:
    """The DOUBLE next to a number; the farthest one there is where the number is beyond all of them."""
    return float(min(max(amount, -_FARTHEST), _FARTHEST))


def number(amount: Fraction | float) -> str:
    """A number in its shortest exact decimal form, a DOUBLE with more digits than that as Python writes it.

    Any other number with more digits has two of them.
    """
    exact = Fraction(amount)
    if exact.denominator == 1 and abs(exact) < 10**_DIGITS:
        return str(exact.numerator)
    decimal = Decimal(exact.numerator) / Decimal(exact.denominator)
    text = f"{decimal.normalize():f}"
    if len(text.lstrip("-")) <= _DIGITS and Fraction(text) == exact:
        return text
    double = real(exact)
    return repr(double) if Fraction(double) == exact else f"{decimal:.2g}"
