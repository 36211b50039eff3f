"""Statistics: None is unknown, 0 is empty."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Statistics:
    """What is known about a relation: rows, and bytes as Spark estimates them."""

    rows: int | None = None
    bytes: int | None = None

    @property
    def known(self) -> bool:
        """Whether the number of rows is known."""
        return self.rows is not None


UNKNOWN = Statistics()


@dataclass(frozen=True)
class LengthClass:
    """Intervals of about one length: how many, their total and their greatest length, in units of the axis."""

    count: int
    total: float
    longest: float
