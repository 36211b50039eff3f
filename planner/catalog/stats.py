"""Statistics: None is unknown, 0 is empty."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True)
class Statistics:
    """The statistics of a relation: rows, and bytes as Spark estimates them.

    ``plain``: only scans, filters and projections, so its first rows are available at once.  ``cheap``: reading it
    costs about a scan, since no expression in it is expensive.  ``guessed``: the rows are guessed from the bytes of
    files, or a filter leaves fewer of them.
    """

    rows: int | None = None
    bytes: int | None = None
    plain: bool = False
    cheap: bool = False
    guessed: bool = False

    @property
    def known(self) -> bool:
        """Whether the number of rows is known."""
        return self.rows is not None


UNKNOWN = Statistics()


@dataclass(frozen=True)
class LengthClass:
    """A class of intervals of similar length: count, total and greatest length, first and last position."""

    count: int
    total: float
    longest: float
    first: float = -inf
    last: float = inf
