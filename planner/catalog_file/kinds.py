"""The kinds of values in a catalog file, each with its check and an example."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any

from dovetail.planner.errors import one_of

At = tuple[str | int, ...]
"""A place in a file: keys, and numbers of list items from 0."""

_SHOWN = 60  # letters of a value in a message


@dataclass(frozen=True)
class Problem:
    """What is wrong in a file, and where."""

    at: At
    message: str


class Kind:
    """A kind of value."""

    expected: str
    example: str

    @abstractmethod
    def problem(self, value: Any, at: At) -> Problem | None:
        """The first thing that is wrong with a value; None where it is as it should be."""

    def other(self, value: Any, at: At) -> Problem:
        """The problem of a value that is of another kind."""
        return Problem(at, f"{shown(value)} is not {self.expected}; write for example {self.example}")


def nothing_wrong(_text: str) -> str:
    """The check of a text that may be any."""
    return ""


@dataclass(frozen=True)
class Text(Kind):
    """A text that is not blank, unless it may be ``empty``; ``check`` returns what else is wrong with it."""

    example: str = '"…"'
    empty: bool = False
    check: Callable[[str], str] = nothing_wrong
    expected: str = "a text"

    def problem(self, value: Any, at: At) -> Problem | None:
        if not isinstance(value, str):
            return self.other(value, at)
        if not self.empty and not value.strip():
            return Problem(at, f"the text is empty; write for example {self.example}")
        wrong = self.check(value)
        return Problem(at, wrong) if wrong else None


@dataclass(frozen=True)
class Value(Kind):
    """A value that a test accepts."""

    expected: str
    example: str
    accepts: Callable[[Any], bool]

    def problem(self, value: Any, at: At) -> Problem | None:
        return None if self.accepts(value) else self.other(value, at)


def _is_number(value: Any, limit: int = 1 << 1000) -> bool:
    """Whether a value is a number; a whole one has to lie below a limit, by default what a double holds."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, float) or (whole and abs(value) < limit)


def count(what: str = "rows", example: str = "2_000_000") -> Value:
    """A whole number from 0 to what 64 bits hold."""
    return Value(
        f"a number of {what}, 0 or more",
        example,
        lambda value: not isinstance(value, float) and _is_number(value, 1 << 63) and value >= 0,
    )


FLAG = Value("true or false", "true", lambda value: isinstance(value, bool))
NUMBER = Value('a number or "NULL"', "9e5", lambda value: value == "NULL" or _is_number(value))
SCALAR = Value(
    "a text, a number, true or false",
    '"true"',
    lambda value: isinstance(value, str | bool) or _is_number(value, 1 << 63),
)
"""What an option of Spark's readers takes."""


@dataclass(frozen=True)
class ListOf(Kind):
    """A list with ``least`` items or more, all of one kind, and none twice if they are ``distinct``."""

    item: Kind
    example: str
    expected: str
    least: int = 0
    distinct: bool = False

    def problem(self, value: Any, at: At) -> Problem | None:
        if not isinstance(value, list):
            return self.other(value, at)
        if len(value) < self.least:
            return Problem(at, f"the list is empty; write for example {self.example}")
        found = (self.item.problem(item, (*at, number)) for number, item in enumerate(value))
        if wrong := next(filter(None, found), None):
            return wrong
        if self.distinct and (twice := next((v for n, v in enumerate(value) if v in value[:n]), None)):
            return Problem(at, f"{shown(twice)} is there twice")
        return None


@dataclass(frozen=True)
class TableOf(Kind):
    """A table with names of the user's, all of whose values are of one kind; ``name`` checks the names."""

    value: Kind
    example: str
    expected: str = "a table"
    name: Callable[[str], str] = nothing_wrong
    least: int = 0

    def problem(self, value: Any, at: At) -> Problem | None:
        if not isinstance(value, dict):
            return self.other(value, at)
        if len(value) < self.least:
            return Problem(at, f"the table is empty; write for example {self.example}")
        for name, inner in value.items():
            if wrong := self.name(name):
                return Problem((*at, name), wrong)
            if found := self.value.problem(inner, (*at, name)):
                return found
        return None


@dataclass(frozen=True)
class Key:
    """A key of a section: what its value must be, and whether the section needs it."""

    kind: Kind
    needed: bool = False


@dataclass(frozen=True)
class Section(Kind):
    """A table whose keys are known."""

    keys: Mapping[str, Key]
    example: str
    expected: str = "a table"

    def problem(self, value: Any, at: At) -> Problem | None:
        if not isinstance(value, dict):
            return self.other(value, at)
        if unknown := next((name for name in value if name not in self.keys), None):
            return Problem((*at, unknown), f"there is no such key; {one_of(self.keys, unknown)}")
        for name, inner in value.items():
            if found := self.keys[name].kind.problem(inner, (*at, name)):
                return found
        lacking = next((name for name, key in self.keys.items() if key.needed and name not in value), None)
        if lacking:
            plural = "columns" if lacking == "columns" else lacking
            return Problem(at, f"it has no {plural}; write {lacking} = {self.keys[lacking].kind.example}")
        return None


def shown(value: Any) -> str:
    """A value as TOML writes it, in short and without control characters."""
    match value:
        case bool():
            text = str(value).lower()
        case date() | datetime() | time():
            text = value.isoformat()
        case dict():
            text = "{…}" if value else "{}"
        case list():
            text = f"[{', '.join(map(shown, value[:5]))}{', …' if len(value) > 5 else ''}]"
        case int():
            text = str(value) if abs(value) < 10**_SHOWN else "a number of many digits"
        case _:
            text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
