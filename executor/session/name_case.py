"""How a session compares names: ``spark.sql.caseSensitive``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

Fold = Callable[[str], str]
"""Names that are equal after it are one name."""


def fold_of(settings: Mapping[str, str]) -> Fold:
    """Return the form of a name in which a session with these settings compares two of them."""
    return str if settings.get("spark.sql.caseSensitive", "").lower() == "true" else str.lower
