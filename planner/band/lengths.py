"""Bounds of the length of an interval literal: ``INTERVAL 1 MONTH`` is 28 to 31 days."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction

from sqlglot import exp

from dovetail.planner.band.axis import DAY, interval_micros
from dovetail.planner.expr import without_parentheses

_MAKE_INTERVAL = ("year", "month", "week", "day", "hour", "minute", "second")
_MAKE_DT_INTERVAL = ("day", "hour", "minute", "second")
_WHOLE = re.compile(r"[+-]?\d{1,8}")
_CAST = {"DAY": _WHOLE, "HOUR": _WHOLE, "MINUTE": _WHOLE, "SECOND": re.compile(r"[+-]?\d{1,8}(\.\d{1,6})?")}
_PAIRS = re.compile(r"\s*([+-]?[\d.]+)\s+([a-z]+)", re.IGNORECASE)


@dataclass(frozen=True)
class Length:
    """A length of time in microseconds, give or take ``spread``; ``whole_days``: a DATE plus it is a DATE."""

    micros: Fraction
    spread: Fraction = Fraction(0)
    whole_days: bool = False

    def times(self, count: Fraction) -> Length:
        """So many of it, one after another."""
        return Length(self.micros * count, self.spread * abs(count), self.whole_days)


def months(count: Fraction | int) -> Length:
    """Calendar months: a year has 365 or 366 days, each month beyond 28 to 31."""
    years, rest = divmod(abs(int(count)), 12)
    least, most = 365 * years + 28 * rest, 366 * years + 31 * rest
    sign = -1 if count < 0 else 1
    return Length(sign * Fraction(least + most, 2) * DAY, Fraction(most - least, 2) * DAY, whole_days=True)


def interval_of(text: str, unit: str) -> Length | None:
    """``'3'`` of a unit; None for a unit that is not known, or a number that is none."""
    unit = unit.upper().removesuffix("S")
    if unit in ("MONTH", "YEAR"):
        return months(int(text) * (12 if unit == "YEAR" else 1)) if re.fullmatch(r"\s*[+-]?\d+\s*", text) else None
    literal = exp.Interval(this=exp.Literal.string(text), unit=exp.var(unit))
    micros = interval_micros(literal)
    return None if micros is None else Length(micros, whole_days=unit in ("DAY", "WEEK"))


def interval_length(tree: exp.Expression) -> Length | None:
    """The length of an interval literal; None for anything else."""
    if not isinstance(tree, exp.Interval) or not isinstance(value := without_parentheses(tree.this), exp.Literal):
        return None
    text, unit = value.name, tree.args.get("unit")
    if isinstance(unit, exp.IntervalSpan):
        if unit.this.name.upper() == "YEAR":
            found = re.fullmatch(r"\s*([+-]?)(\d+)-(\d+)\s*", text)
            return months(int(f"{found[1]}{int(found[2]) * 12 + int(found[3])}")) if found else None
        micros = interval_micros(tree)
        return None if micros is None else Length(micros)
    if unit is not None:
        return interval_of(text, unit.name)
    return _pairs(text)


def cast_length(tree: exp.Cast) -> Length | None:
    """The length of ``CAST('4' AS INTERVAL SECOND)`` or ``CAST('1 hour' AS INTERVAL)``; None for anything else."""
    interval, type_ = tree.this, tree.to.this
    if not isinstance(interval, exp.Literal) or not interval.is_string:
        return None
    if type_ == exp.DType.INTERVAL:
        return _pairs(interval.name)
    if not isinstance(type_, exp.Interval):
        return None
    unit = type_.args.get("unit")
    number = _CAST.get(unit.name.upper()) if isinstance(unit, exp.Var) else None
    if unit is None or number is None or not number.fullmatch(interval.name):
        return None
    return interval_of(interval.name, unit.name)


def _pairs(text: str) -> Length | None:
    """``'1 day 2 hours'``."""
    text = re.sub(r"^\s*interval\b", "", text, flags=re.IGNORECASE)
    total = Length(Fraction(0), whole_days=True)
    if not _PAIRS.match(text) or _PAIRS.sub("", text).strip():
        return None
    for count, unit in _PAIRS.findall(text):
        one = interval_of(count, unit)
        if one is None:
            return None
        total = Length(total.micros + one.micros, total.spread + one.spread, total.whole_days and one.whole_days)
    return total


def counted_lengths(tree: exp.Expression) -> list[tuple[Length | None, exp.Expression]] | None:
    """The lengths of time that an expression adds, with the number of each; None for any other expression.

    ``make_interval(…)`` adds them; ``n * INTERVAL 1 DAY`` and ``make_dt_interval(…)`` also make a DATE a TIMESTAMP.
    """
    if isinstance(tree, exp.Mul):
        both = tree.this, tree.expression
        count, each = both if isinstance(tree.expression, exp.Interval) else both[::-1]
        return [(by_the_clock(interval_length(each)), count)] if isinstance(each, exp.Interval) else None
    if isinstance(tree, exp.MakeInterval):
        written = [(interval_of("1", unit), count) for unit in _MAKE_INTERVAL if (count := tree.args.get(unit))]
        written = [(each, count) for each, count in written if count.name != "0"]
    elif isinstance(tree, exp.Anonymous) and tree.name.lower() == "make_dt_interval":
        units = [by_the_clock(interval_of("1", unit)) for unit in _MAKE_DT_INTERVAL]
        written = list(zip(units, tree.expressions, strict=False))
    else:
        return None
    return None if any(isinstance(count, exp.Kwarg) for _, count in written) else written


def by_the_clock(length: Length | None) -> Length | None:
    """The length as one that makes a DATE a TIMESTAMP, even in whole days."""
    return length and replace(length, whole_days=False)
