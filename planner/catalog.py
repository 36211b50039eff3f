"""What the planner may ask about the world: tables, session settings, statistics.

The runtime answers from a Spark session, the golden plans from a TOML file; both say None when they do not know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from planner.schema import Column
from planner.stats import LengthClass, Statistics


@dataclass(frozen=True)
class Settings:
    """The session settings that decide what SQL means."""

    ansi: bool = True
    case_sensitive: bool = False
    time_zone: str = "UTC"

    @property
    def fixed_zone(self) -> bool:
        """Whether every day of the session's time zone has 24 hours."""
        zone = self.time_zone.upper()
        return zone in ("UTC", "ETC/UTC", "GMT", "ETC/GMT", "Z", "ZULU", "UCT") or zone[:1] in "+-"


class Catalog(Protocol):
    """Tables, settings and statistics."""

    @property
    def settings(self) -> Settings:
        """The settings of the session."""
        ...

    def columns(self, name: tuple[str, ...]) -> tuple[Column, ...] | None:
        """The columns of a table or view, or None when there is no such table."""
        ...

    def schema(self, query: str) -> tuple[Column, ...] | None:
        """The columns that a query returns, with their types; None when that cannot be told.  Never runs it."""
        ...

    def statistics(self, relation: str) -> Statistics:
        """What is known about the rows of ``relation``, a query in SQL; never runs it."""
        ...

    def lengths(self, query: str, *, few: bool) -> tuple[LengthClass, ...] | None:
        """Sort the one column ``length`` of ``query`` into classes by running it; None if it cannot be run.

        ``few``: the rows are so few that one task is faster than several and a shuffle.
        """
        ...
