"""How a session compares names: ``spark.sql.caseSensitive``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dovetail.planner.catalog.name_case import NameCase

Fold = Callable[[str], str]
"""Names that are equal after it are one name."""


def name_case(settings: Mapping[str, str]) -> NameCase:
    """Return how a session with these settings compares names."""
    return NameCase(settings.get("spark.sql.caseSensitive", "").lower() == "true")


def fold_of(settings: Mapping[str, str]) -> Fold:
    """Return the form of a name in which a session with these settings compares two of them."""
    return name_case(settings).fold
