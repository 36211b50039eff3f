"""Converts dates and timestamps between ISO 8601 strings and Arrow's integers, exactly and for any year.

Python's ``datetime`` ends with the year 9999, and its ``fromisoformat`` accepts strings that are not RFC 3339.  Years
of more than four digits, and years before 0, have a sign, as in ISO 8601 and Spark: ``+12024-01-31``, ``-0001-01-31``.
"""

from __future__ import annotations

import re

_DATE = r"(?P<year>[+-]\d{4,7}|\d{4})-(?P<month>\d\d)-(?P<day>\d\d)"
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:\.(?P<fraction>\d{1,9}))?"
_OFFSET = r"(?P<offset>[Zz]|[+-]\d\d:\d\d)?"
_DATES = re.compile(_DATE, re.ASCII)
_TIMESTAMPS = re.compile(f"{_DATE}[Tt ]{_TIME}{_OFFSET}", re.ASCII)
_DAY = 86_400
_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_ERA = 146_097  # days of 400 years
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def days(text: str) -> int | None:
    """Parse a date such as ``2024-02-29`` into days since 1970-01-01; None for any other string."""
    found = _DATES.fullmatch(text)
    return None if found is None else _days_of(found)


def ticks(text: str, unit: str, *, zoned: bool) -> int | None:
    """Parse a timestamp into units since 1970-01-01; it has an offset if ``zoned``, and none otherwise.

    None for any other string, and for a fraction finer than the unit.
    """
    found = _TIMESTAMPS.fullmatch(text)
    if found is None or (found["offset"] is not None) != zoned:
        return None
    date = _days_of(found)
    hour, minute, second = (int(found[name]) for name in ("hour", "minute", "second"))
    if date is None or hour > 23 or minute > 59 or second > 59:
        return None
    shift = _shift(found["offset"])
    nanoseconds = int((found["fraction"] or "").ljust(9, "0"))
    fraction, finer = divmod(nanoseconds, 10**9 // PER_SECOND[unit])
    if shift is None or finer:
        return None
    return (date * _DAY + hour * 3600 + minute * 60 + second - shift) * PER_SECOND[unit] + fraction


def date_text(number: int) -> str:
    """Format days since 1970-01-01 as a date."""
    era, day_of_era = divmod(number + 719_468, _ERA)  # years begin in March, so the leap day is the last of a year
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // (_ERA - 1)) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * from_march + 2) // 5 + 1
    month = from_march + 3 if from_march < 10 else from_march - 9
    year = year_of_era + era * 400 + (month <= 2)
    years = f"{year:04}" if 0 <= year <= 9999 else f"{year:+05}"
    return f"{years}-{month:02}-{day:02}"


def timestamp_text(number: int, unit: str, *, zoned: bool) -> str:
    """Format units since 1970-01-01 as a timestamp in UTC, with 0, 6 or 9 fractional digits."""
    seconds, part = divmod(number, PER_SECOND[unit])
    day, second = divmod(seconds, _DAY)
    nanoseconds = part * (10**9 // PER_SECOND[unit])
    fraction = f".{nanoseconds // 1000:06}" if nanoseconds % 1000 == 0 else f".{nanoseconds:09}"
    time = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}{fraction if nanoseconds else ''}"
    return f"{date_text(day)}T{time}{'+00:00' if zoned else ''}"


def _days_of(found: re.Match[str]) -> int | None:
    if found["year"] == "-0000":
        return None
    year, month, day = int(found["year"]), int(found["month"]), int(found["day"])
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= month <= 12 or not 1 <= day <= _DAYS[month - 1] + (leap and month == 2):
        return None
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * _ERA + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


def _shift(offset: str | None) -> int | None:
    """Return the seconds that an offset is ahead of UTC; None for an invalid offset."""
    if offset is None or offset in "Zz":
        return 0
    hours, minutes = int(offset[1:3]), int(offset[4:6])
    if hours > 23 or minutes > 59:
        return None
    return (hours * 3600 + minutes * 60) * (-1 if offset[0] == "-" else 1)
