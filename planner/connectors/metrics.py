"""What a lookup did, in numbers."""

from __future__ import annotations

from dataclasses import astuple, dataclass


@dataclass
class Counters:
    """Counts of one task, or the sum over tasks."""

    keys: int = 0  # distinct keys that went to the source
    fetches: int = 0  # round trips, those that failed included
    rows: int = 0  # rows that came back
    retries: int = 0  # round trips that were tried again
    hits: int = 0  # keys that the cache had, also those it knew to have no rows
    misses: int = 0  # keys that it had not

    def __add__(self, other: Counters) -> Counters:
        return Counters(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __sub__(self, other: Counters) -> Counters:
        return Counters(*(a - b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def hit_ratio(self) -> float | None:
        """Hits among all that the cache was asked for; None when it was asked for nothing."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else None
