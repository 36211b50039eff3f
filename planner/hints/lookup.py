"""The LOOKUP hint, ``LOOKUP('table'='c', 'shuffle'='true')``: its options, with Flink's values.

The first ten are those of FLIP-462; the others are for what FLIP-204 left for later.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from dovetail.planner.errors import Place, Unsupported, one_of
from dovetail.planner.expr import Scalar
from dovetail.planner.hints.blocks import Hint

LOOKUP = "LOOKUP"
FORM = "write LOOKUP('table'='name', 'option'='value', …)"
Value = str | int | float | bool

_SECONDS = {"ms": 0.001, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"([0-9]{1,12})\s*(ms|s|sec|m|min|h|d)")
_LONGEST = 10_000 * 86_400  # seconds: what waits in Python takes no more than 292 years


@dataclass(frozen=True)
class Complaint:
    """A problem of a hint and its place."""

    reason: str
    place: Place | None


def _flag(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text)


def _count(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[1-9][0-9]{0,8}", text) else None


def _size(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None


def _seconds(text: str) -> float | None:
    found = _DURATION.fullmatch(text)
    seconds = int(found[1]) * _SECONDS[found[2]] if found else None
    return seconds if seconds is not None and seconds <= _LONGEST else None


def _positive_seconds(text: str) -> float | None:
    return _seconds(text) or None


def _ordered(text: str) -> bool | None:
    return {"ordered": True, "allow_unordered": False}.get(text)


def _missing(text: str) -> bool | None:
    return True if text == "lookup_miss" else None


def _fixed(text: str) -> str | None:
    return text if text == "fixed_delay" else None


# Option: the field of LookupSpec that it sets (nothing: it sets none), how its value is read, what the values are.
_OPTIONS: dict[str, tuple[str, Callable[[str], Value | None], str]] = {
    "async": ("asynchronous", _flag, "'true' or 'false'"),
    "output-mode": ("ordered", _ordered, "'ordered' or 'allow_unordered'"),
    "capacity": ("", _count, "a whole number above zero"),
    "timeout": ("timeout", _positive_seconds, "a time such as '300s' or '3 min', of 10000 d at most"),
    "retry-predicate": ("retry_missing", _missing, "'lookup_miss'"),
    "retry-strategy": ("", _fixed, "'fixed_delay'"),
    "fixed-delay": ("delay", _seconds, "a time such as '10s' or '100 ms', of 10000 d at most"),
    "max-attempts": ("attempts", _count, "a whole number above zero"),
    "shuffle": ("shuffle", _flag, "'true' or 'false'"),
    "skew": ("skew", _flag, "'true' or 'false'"),
    "batch": ("batch", _count, "a whole number above zero"),
    "cache-ttl": ("cache_ttl", _seconds, "a time such as '60s' or '1 h', of 10000 d at most"),
    "cache-size": ("cache_size", _size, "a whole number"),
}


@dataclass(frozen=True)
class LookupHint:
    """A parsed LOOKUP hint: its table, its options, and its problems."""

    table: str
    options: dict[str, Value]
    complaints: tuple[Complaint, ...]


def read_lookup_hint(hint: Hint) -> LookupHint:
    """Parse a LOOKUP hint.  ``table`` is empty if the hint names none, and so has no effect."""
    options: dict[str, Value] = {}
    complaints: list[Complaint] = []
    table = ""
    seen: set[str] = set()
    for argument, pair in _pairs(hint):
        if pair is None:
            complaints.append(Complaint(f"{LOOKUP}: {argument.shown} is no option; {FORM}", argument.place))
            continue
        key, value = pair
        if key in seen:
            complaints.append(Complaint(f"{LOOKUP}: '{key}' is given twice; the last one counts", argument.place))
        seen.add(key)
        if key == "table":
            table = value
        elif key not in _OPTIONS:
            known = one_of(("table", *_OPTIONS), key)
            complaints.append(Complaint(f"{LOOKUP}: there is no option '{key}'; {known}", argument.place))
        else:
            field, read, possible = _OPTIONS[key]
            found = read(value)
            if found is None:
                reason = f"'{key}' is {possible}, not '{value}'; it is ignored"
                complaints.append(Complaint(f"{LOOKUP}: {reason}", argument.place))
            elif field:
                options[field] = found
    if not table:
        complaints.append(Complaint(f"{hint.text} names no table; {FORM}", hint.place))
    if options.get("skew"):
        if options.get("shuffle") is False:
            reason = "'skew' spreads what 'shuffle' brings together; without 'shuffle' it does nothing"
            complaints.append(Complaint(f"{LOOKUP}: {reason}", hint.place))
            del options["skew"]
        else:
            options["shuffle"] = True
    return LookupHint(table, options, tuple(complaints))


def _pairs(hint: Hint) -> Iterator[tuple[Scalar, tuple[str, str] | None]]:
    for argument in hint.arguments:
        try:
            tree = argument.tree
        except Unsupported:
            yield argument, None
            continue
        sides = (tree.this, tree.expression) if isinstance(tree, exp.EQ) else ()
        texts = [s.name for s in sides if isinstance(s, exp.Literal) and s.is_string]
        yield argument, (texts[0], texts[1]) if len(texts) == 2 else None
