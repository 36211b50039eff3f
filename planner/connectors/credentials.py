"""Credentials: named or computed, read when a connection is made, and taken out of what errors say.

    PostgresSource(table="customers", uri=env("CUSTOMERS_DB"))

The value itself is in no source, no pickle and no ``repr``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote

from planner.connectors.conninfo import Malformed, parameters, secrets
from planner.errors import SourceError

_HIDDEN = "…"
_PART = 4  # characters: what is shorter than that is not worth hiding, unless it is all of a secret
_sent: dict[str, str] = {}  # in a worker: what the driver's environment had, see ``planner/runtime/lookup/fetched.py``


@dataclass(frozen=True)
class env:  # noqa: N801 - reads as the function that it is
    """A credential in an environment variable of the driver; where that has none, of the worker that connects."""

    name: str

    def __call__(self) -> str:
        value = _sent.get(self.name) or os.environ.get(self.name)
        if not value:
            raise SourceError(f"the environment variable {self.name} is not set")
        return value


Credential = env | Callable[[], str]


def read(credential: Credential | str, what: str) -> str:
    """The value now.  Raises ``SourceError`` where a callable fails, without what it said: that may hold a secret."""
    if isinstance(credential, str):
        return credential
    try:
        value = credential()
    except SourceError:
        raise
    except Exception as error:  # noqa: BLE001
        raise ConnectionError(f"the callable for {what} raised {type(error).__name__}") from None
    if not isinstance(value, str):
        raise SourceError(f"the callable for {what} returned {type(value).__name__}, not a string")
    return value


def readable(uri: str) -> dict[str, str]:
    """The parameters of a connection string of PostgreSQL.

    Raises ``SourceError`` for one that is not well formed, without a word of it.
    """
    try:
        return parameters(uri)
    except Malformed as wrong:
        raise SourceError(f"the connection string cannot be read: {wrong}") from None


def refuse_password(uri: str) -> None:
    """Raise ``SourceError`` for a connection string with a password in it: it belongs into the environment."""
    if secrets(readable(uri)):
        raise SourceError(
            "the uri has a password in it; put the uri into an environment variable and name that: env(…)"
        )


def redacted(text: str, secrets: Iterable[str]) -> str:
    """The text without these secrets, and without any part of one that is long enough to tell something."""
    hidden: set[int] = set()
    for secret in filter(None, secrets):
        for form in {secret, quote(secret, safe=""), unquote(secret), secret.replace("'", "\\'")}:
            size = min(_PART, len(form))
            parts = {form[n : n + size] for n in range(len(form) - size + 1)}
            for n in range(len(text) - size + 1):
                if text[n : n + size] in parts:
                    hidden.update(range(n, n + size))
    shown = (_HIDDEN if n in hidden and n - 1 not in hidden else "" if n in hidden else c for n, c in enumerate(text))
    return "".join(shown)


def named_in(source: object) -> dict[str, str]:
    """What this process's environment has for the names that a source mentions."""
    names = {value.name for value in vars(source).values() if isinstance(value, env)}
    for value in vars(source).values():
        if isinstance(value, Mapping):
            names |= {inner.name for inner in value.values() if isinstance(inner, env)}
    return {name: os.environ[name] for name in sorted(names) if name in os.environ}


def receive(values: Mapping[str, str]) -> None:
    """Take in what the driver's environment has: a worker's own was made when Spark started, and may lack it."""
    _sent.update(values)
