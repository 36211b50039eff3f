"""Errors for users: what is wrong, its place in the SQL, and what to do."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import ClassVar, Literal

ReasonCode = Literal[
    "no_equality",
    "one_sided",
    "or_condition",
    "correlated",
    "after_outer_join",
    "may_raise",
    "no_key",
    "using",
    "few_rows",
    "unique_match",
    "equality_join",
    "clause_above_join",
]
"""The kinds of reasons why a rule declined.  Advice depends on them, never on the text of a reason."""


@dataclass(frozen=True, order=True)
class Place:
    """A position in the user's SQL, both counted from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


class DovetailError(Exception):
    """The base of every error that Dovetail raises on purpose."""


def add_note(error: BaseException, note: str) -> None:
    """Add a line to what is printed of an error; nothing on Python 3.10, whose errors have no notes."""
    if sys.version_info >= (3, 11):
        error.add_note(note)


class OptionError(DovetailError, ValueError):
    """An option, or a rule name in an option, that does not exist or has a wrong value."""


class CatalogError(DovetailError, ValueError):
    """A table or column that the catalog does not have, or a catalog file that cannot be read."""


class GoldenError(DovetailError, ValueError):
    """A golden plan file that is not well formed, or a plan that breaks a claim written in it."""


class InputError(DovetailError, ValueError):
    """A file, table argument or output of the command line that cannot be used."""


class SourceError(DovetailError, ValueError):
    """A lookup source with wrong settings, or with an answer that does not fit the request; a retry does not help."""


class LookupFailed(DovetailError, RuntimeError):
    """A lookup source did not answer in the attempts it was given: which source, which keys, how many attempts."""


class StateError(DovetailError, RuntimeError):
    """State of a join of streams that is damaged, or is of another query: which file, and what is wrong with it."""


class QueryError(DovetailError, ValueError):
    """A query that neither Dovetail nor Spark can run as it stands: what is wrong, where, and what would do."""

    def __init__(self, reason: str, place: Place | None = None):
        super().__init__(f"{place}: {reason}" if place else reason)
        self.reason = reason
        self.place = place


class HintError(QueryError):
    """A hint without effect, when the user has made such hints an error."""


class EnvironmentProblem(DovetailError, RuntimeError):
    """Something that the machine lacks, with the remedy."""

    def __init__(self, message: str, *, remedy: str):
        super().__init__(f"{message}; {remedy}")
        self.remedy = remedy


class RuleError(DovetailError, RuntimeError):
    """An internal check of a rule failed: our bug.  The user's query runs as written; tests raise it."""


class Refused(DovetailError):
    """A rewriting that does not apply: the reason for the user, and the place in the SQL, where there is one.

    Control flow inside planning, never an error of a query: the driver reports it, and the query keeps its shape.
    """

    code: ClassVar[ReasonCode | None] = None

    def __init__(self, reason: str, place: Place | None = None):
        super().__init__(reason)
        self.reason = reason
        self.place = place


class UnknownName(Refused):
    """A name in the SQL that cannot be resolved unambiguously."""


class NoSuchColumn(UnknownName):
    """A name that certainly is not a column of the relations at hand."""


class Unsupported(Refused):
    """SQL that the logical algebra or the expression trees cannot carry."""


class UnmatchedBracket(Unsupported):
    """A bracket that nothing closes or opens, which Spark cannot read either."""


class ShowsAddedColumn(Unsupported):
    """A ``*`` that would return a column that a rewriting adds; ``what`` is this ``*``."""

    def __init__(self, what: str, place: Place | None = None):
        super().__init__(f"{what} would show a column that the rewriting adds", place)


class ClauseAboveJoin(Refused):
    """A clause above a join of streams, so that the query does not return a row for each row of the join."""

    code = "clause_above_join"


def is_user_error(error: BaseException) -> bool:
    """Whether the user can fix an error; any other is an internal fault, and the query runs as written."""
    return isinstance(error, DovetailError) and not isinstance(error, RuleError | Refused)


def summarize(error: BaseException) -> str:
    """Return an error's class and the first line of its message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def reason_of(error: OSError) -> str:
    """The reason that the system gives, in small letters and without the file."""
    return (error.strerror or str(error)).lower()


def one_of(names: Iterable[str], wrong: str) -> str:
    """Return the end of a message that names what is possible, nearest first: ``did you mean …; possible: …``."""
    possible = sorted(names)
    near = get_close_matches(wrong, possible, n=1)
    listed = ", ".join(possible) or "none"
    return f"did you mean {near[0]!r}? possible: {listed}" if near else f"possible: {listed}"


def plural(count: int, noun: str) -> str:
    """Return a number with its noun: ``1 row``, ``1,200 rows``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def a(word: str) -> str:
    """Return a word with its indefinite article."""
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"
