"""Credentials: resolved when a connection is opened, and removed from error messages.

    PostgresSource(table="customers", uri=env("CUSTOMERS_DB"))

No source, pickle or ``repr`` contains the value itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote

from dovetail.executor.connectors.conninfo import Malformed, parse_conninfo, secret_values
from dovetail.planner.errors import SourceError

_HIDDEN = "…"
_VARIABLE = re.compile(r"[A-Za-z_][\w.-]*")
_PART = 4  # characters: a shorter part of a secret need not be hidden
_sent: dict[str, str] = {}  # in a worker: the driver's variables, sent by ``executor/lookup/fetch_rows.py``


@dataclass(frozen=True)
class env:  # noqa: N801 - reads as the function that it is
    """A credential in an environment variable of the driver or, if it is not set there, of the worker that connects."""

    name: str

    def __post_init__(self) -> None:
        if not _VARIABLE.fullmatch(self.name):
            raise SourceError(
                "env() takes the name of an environment variable: letters, digits and _. Its argument is not such a "
                "name; it is not shown, since it may be a credential"
            )

    def __call__(self) -> str:
        value = _sent.get(self.name) or os.environ.get(self.name)
        if not value:
            raise SourceError(f"the environment variable {self.name} is not set")
        return value


Credential = env | Callable[[], str]


def read(credential: Credential | str, what: str) -> str:
    """Resolve a credential.  The error for a callable that fails omits its message, which may hold a secret."""
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


def parse_uri(uri: str) -> dict[str, str]:
    """Parse a PostgreSQL connection string.

    Raises ``SourceError`` for a malformed one; the message quotes no part of it.
    """
    try:
        return parse_conninfo(uri)
    except Malformed as wrong:
        raise SourceError(f"the connection string cannot be read: {wrong}") from None


def refuse_password(uri: str) -> None:
    """Raise ``SourceError`` for a connection string that contains a password."""
    if secret_values(parse_uri(uri)):
        raise SourceError(
            "the uri has a password in it; put the uri into an environment variable and name that: env(…)"
        )


def redact(text: str, secrets: Iterable[str]) -> str:
    """Remove secrets, and parts of them of four characters or more, from a text."""
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


def environment_of(source: object) -> dict[str, str]:
    """Return the environment variables that a source refers to, with their values in this process."""
    names = {value.name for value in vars(source).values() if isinstance(value, env)}
    for value in vars(source).values():
        if isinstance(value, Mapping):
            names |= {inner.name for inner in value.values() if isinstance(inner, env)}
    return {name: os.environ[name] for name in sorted(names) if name in os.environ}


def receive(values: Mapping[str, str]) -> None:
    """Store the driver's variables: a worker's environment dates from Spark's start and may lack them."""
    _sent.update(values)
