"""How a session compares names: ``spark.sql.caseSensitive``."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.planner.catalog.settings import NameCase


def name_case(settings: Mapping[str, str]) -> NameCase:
    """Return how a session with these settings compares names."""
    return NameCase(settings.get("spark.sql.caseSensitive", "").lower() == "true")
