"""What a user may see: the thing, its place in the SQL, and the way out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches


@dataclass(frozen=True, order=True)
class Place:
    """A position in the user's SQL, both counted from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


class DovetailError(Exception):
    """The base of every error that Dovetail raises on purpose."""


class OptionError(DovetailError, ValueError):
    """An option, or a rule name in an option, that does not exist or has a wrong value."""


class CatalogError(DovetailError, ValueError):
    """A table or column that the catalog does not have, or a catalog file that cannot be read."""


class GoldenError(DovetailError, ValueError):
    """A golden plan file that is not well formed, or a plan that breaks a claim written in it."""


class InputError(DovetailError, ValueError):
    """A file, table argument or output of the command line that cannot be used."""


class SourceError(DovetailError, ValueError):
    """A lookup source that is described wrongly, or answers something other than asked; trying again is no use."""


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
    """A hint that does not do what it asks for, where the user wants to be stopped by it."""


class EnvironmentProblem(DovetailError, RuntimeError):
    """Something the machine lacks, with the sentence that mends it."""

    def __init__(self, message: str, *, remedy: str):
        super().__init__(f"{message}; {remedy}")
        self.remedy = remedy


class RuleError(DovetailError, RuntimeError):
    """A rule broke a promise: our bug.  The user's query runs as written; tests raise it."""


class Unsupported(DovetailError):
    """The logical algebra cannot carry this SQL; it goes to Spark as written.  Not an error for the user."""

    def __init__(self, reason: str, place: Place | None = None):
        super().__init__(reason)
        self.reason = reason
        self.place = place


def is_users(error: Exception) -> bool:
    """Whether an error is the user's to mend; any other is a fault in here, and costs nobody a query."""
    return isinstance(error, DovetailError) and not isinstance(error, RuleError | Unsupported)


def brief(error: Exception) -> str:
    """An error's class and the first line of what it says."""
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0]}" if said else type(error).__name__


def one_of(names: Iterable[str], wrong: str) -> str:
    """Return the end of a message that names what is possible, nearest first: ``did you mean …; possible: …``."""
    possible = sorted(names)
    near = get_close_matches(wrong, possible, n=1)
    listed = ", ".join(possible) or "none"
    return f"did you mean {near[0]!r}? possible: {listed}" if near else f"possible: {listed}"


def a(word: str) -> str:
    """The word with its article."""
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"
