"""Parameters of statements: names positional ones, because a rewriting may repeat a condition; binds literals."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from math import isfinite
from typing import Any

from dovetail.planner.errors import Unsupported, a
from dovetail.planner.expr.tokens import Tokens, tokenize
from dovetail.planner.state.fingerprint import Given


def check_text(text: object, method: str) -> None:
    """Raise ``TypeError`` unless the statement that a method of the optimizer takes is a string."""
    if isinstance(text, str):
        return
    if hasattr(text, "sparkSession"):
        raise TypeError(
            f"{method} takes SQL as a string, not a DataFrame; opt.dataframe(df) and opt.plan(df) take DataFrames"
        )
    raise TypeError(f"{method} takes SQL as a string, not {a(type(text).__name__)}; pass the text of the statement")


def name_parameters(text: str, args: Any) -> tuple[str, Any]:
    """Replace ``?`` and a list of arguments with ``:__arg_0`` … and a dict; other arguments stay as they are."""
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


def bind_literals(text: str, args: Any) -> str | None:
    """Replace each ``:name`` with a literal, as Spark binds it; None if a value has no literal.

    The state of a stream depends on the values, so they are part of its query.
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


def make_given(text: str, args: Any) -> Given:
    """A query with its arguments as literals; without arguments if a value has no literal."""
    try:
        return Given(text, tuple((name, _literal(value)) for name, value in (args or {}).items()))
    except (TypeError, AttributeError):
        return Given(text, ())


def _is_path(t: Tokens, colon: int) -> bool:
    """Whether a colon begins a path into a VARIANT: it directly follows a value."""
    before = t[colon - 1] if colon else None
    return bool(before and before.end == t[colon].start and (before.is_name or before.word in (")", "]", "")))


def _literal(value: Any) -> str:
    """Format a value as a Spark literal.  Raises ``TypeError``."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case int() if -(2**63) < value < 2**63:
            digits = f"{value}" if -(2**31) <= value < 2**31 else f"{value}L"
            return f"({digits})" if value < 0 else digits
        case float() if isfinite(value):
            return f"({value!r}D)" if value < 0 else f"{value!r}D"
        case Decimal() if value.is_finite():
            return f"({value:f}BD)" if value < 0 else f"{value:f}BD"
        case str() if not set(value) & set("'\\\n"):
            return f"'{value}'"
        case datetime():
            return f"TIMESTAMP_LTZ '{value.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S.%f}Z'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case timedelta():
            seconds, micros = divmod(abs(value) // timedelta(microseconds=1), 1_000_000)
            (minutes, second), sign = divmod(seconds, 60), "-" if value < timedelta() else ""
            minute, (days, hour) = minutes % 60, divmod(minutes // 60, 24)
            return f"INTERVAL '{sign}{days} {hour:02}:{minute:02}:{second:02}.{micros:06}' DAY TO SECOND"
    raise TypeError(f"no literal for {value!r}")
