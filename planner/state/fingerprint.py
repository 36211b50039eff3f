"""Fingerprints of queries without the values of arguments, which may be secrets and are never stored.

A salted hash is enough to check, at the next start, whether a query and its arguments are the same.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_SHORT = 5  # a literal of a text that is part of many words


@dataclass(frozen=True)
class Given:
    """A query as the user wrote it, with its arguments: names and literals."""

    text: str
    arguments: tuple[tuple[str, str], ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """The text values among the arguments, as they stand in the query that runs."""
        return tuple(literal[1:-1] for _, literal in self.arguments if literal.startswith("'") and len(literal) > 2)

    def masked(self, message: str) -> str:
        """Replace the values of text arguments in a message by the names of the arguments."""
        for name, literal in self.arguments:
            if literal[1:-1] in self.texts:
                message = message.replace(literal, f":{name}")
                message = message.replace(literal[1:-1], f":{name}") if len(literal) > _SHORT else message
        return message

    def other(self, found: Mapping[str, Any]) -> list[str]:
        """Return the names of arguments that differ from those that ``describe_arguments`` has stored."""
        written = dict(found.get("arguments", {}))
        now = {name: fingerprint(str(found.get("salt")), literal) for name, literal in self.arguments}
        return sorted(name for name in {*written, *now} if written.get(name) != now.get(name))


def new_salt() -> str:
    """Return a random salt, so that a list of known values does not reveal the value of a hash."""
    return secrets.token_hex(16)


def fingerprint(salt: str, value: Any) -> str:
    """Hash a JSON value."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(f"{salt}\n{text}".encode()).hexdigest()


def describe_arguments(given: Given | None, salt: str) -> dict[str, Any]:
    """Return what is stored of arguments: their names, each with a hash."""
    if given is None:
        return {}
    return {"arguments": {name: fingerprint(salt, literal) for name, literal in given.arguments}}
