"""Counters of a lookup."""

from __future__ import annotations

from dataclasses import astuple, dataclass


@dataclass
class Counters:
    """Counts of one task, or the sum over tasks."""

    keys: int = 0  # distinct keys sent to the source
    fetches: int = 0  # round trips, including failed ones
    rows: int = 0  # rows returned
    retries: int = 0  # repeated round trips
    hits: int = 0  # keys found in the cache, including keys without rows
    misses: int = 0  # keys not found in the cache

    def __add__(self, other: Counters) -> Counters:
        return Counters(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __sub__(self, other: Counters) -> Counters:
        return Counters(*(a - b for a, b in zip(astuple(self), astuple(other), strict=True)))
