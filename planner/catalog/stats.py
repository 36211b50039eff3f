"""Statistics: None is unknown, 0 is empty."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True)
class Statistics:
    """What is known about a relation: rows, and bytes as Spark estimates them.

    ``plain``: it is read, filtered and projected, and no more, so that its first rows come at once.
    """

    rows: int | None = None
    bytes: int | None = None
    plain: bool = False

    @property
    def known(self) -> bool:
        """Whether the number of rows is known."""
        return self.rows is not None


UNKNOWN = Statistics()


@dataclass(frozen=True)
class LengthClass:
    """Intervals of about one length: how many, their total and greatest length, and from where to where they lie."""

    count: int
    total: float
    longest: float
    first: float = -inf
    last: float = inf
