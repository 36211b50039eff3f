"""Parameters: positional ones by name, since a rewriting may say a condition twice, and all of them as literals."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any

from planner.errors import Unsupported
from planner.expr.tokens import Tokens, tokenize


def named(text: str, args: Any) -> tuple[str, Any]:
    """Turn ``?`` with a list of arguments into ``:__arg_0`` … with a dict; anything else is returned as it is."""
    if not isinstance(args, list | tuple) or "?" not in text:
        return text, args
    try:
        marks = [t for t in tokenize(text).items if t.word == "?"]
    except Unsupported:
        return text, args
    if len(marks) != len(args):
        return text, args
    parts, at = [], 0
    for number, mark in enumerate(marks):
        parts += [text[at : mark.start], f":__arg_{number}"]
        at = mark.end
    return "".join([*parts, text[at:]]), {f"__arg_{n}": value for n, value in enumerate(args)}


def bound(text: str, args: Any) -> str | None:
    """The text with literals in the place of ``:name``, as Spark binds them; None where a value has no literal.

    What is kept of a stream depends on them, and so they are a part of the query that it is kept for.
    """
    try:
        literals = {name: _literal(value) for name, value in args.items()}
        t = tokenize(text)
    except (TypeError, AttributeError, Unsupported):
        return None
    parts, at = [], 0
    for i in range(len(t) - 1):
        name = t[i + 1]
        if t[i].word == ":" and t[i].end == name.start and name.text in literals and not _is_path(t, i):
            parts += [text[at : t[i].start], literals[name.text]]
            at = name.end
    return "".join([*parts, text[at:]])


def _is_path(t: Tokens, colon: int) -> bool:
    """Whether a colon leads into a VARIANT: it stands directly behind a value."""
    before = t[colon - 1] if colon else None
    return bool(before and before.end == t[colon].start and (before.is_name or before.word in (")", "]", "")))


def _literal(value: Any) -> str:
    """A value as Spark reads it.  Raises ``TypeError``."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case int() if -(2**63) < value < 2**63:
            said = f"{value}" if -(2**31) <= value < 2**31 else f"{value}L"
            return f"({said})" if value < 0 else said
        case float() if isfinite(value):
            return f"({value!r}D)" if value < 0 else f"{value!r}D"
        case Decimal() if value.is_finite():
            return f"({value:f}BD)" if value < 0 else f"{value:f}BD"
        case str() if not set(value) & set("'\\\n"):
            return f"'{value}'"
        case datetime():
            return f"TIMESTAMP_LTZ '{value.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}Z'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case timedelta():
            seconds, micros = divmod(abs(value) // timedelta(microseconds=1), 1_000_000)
            (minutes, second), sign = divmod(seconds, 60), "-" if value < timedelta() else ""
            minute, (days, hour) = minutes % 60, divmod(minutes // 60, 24)
            return f"INTERVAL '{sign}{days} {hour:02}:{minute:02}:{second:02}.{micros:06}' DAY TO SECOND"
    raise TypeError(f"no literal for {value!r}")
