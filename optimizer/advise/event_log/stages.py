"""The tasks of stages: their times, and the records that they read."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from statistics import median_low


@dataclass
class Stage:
    """All tasks of one stage that ended, over its attempts: a number each, in the order in which they ended."""

    millis: array[int] = field(default_factory=lambda: array("q"))
    records: array[int] = field(default_factory=lambda: array("q"))
    total: int = 0

    def add(self, millis: int, records: int) -> None:
        """Add a task."""
        self.total += millis
        self.millis.append(millis)
        self.records.append(records)


@dataclass(frozen=True)
class Skew:
    """The longest task of a stage, compared with the others.

    ``ratio``: its time ÷ the median of the others; ``records_ratio``: the same of the records that it read.
    """

    tasks: int
    longest: float
    median: float
    ratio: float
    records_ratio: float

    @property
    def is_hot_key(self) -> bool:
        """Whether one task took much longer than the others, because it had more records."""
        slow = self.ratio >= HOT_TIMES and self.longest - self.median >= HOT_SECONDS
        return slow and self.records_ratio >= HOT_RECORDS


HOT_TIMES = 4.0
HOT_RECORDS = 2.0
HOT_SECONDS = 0.5


def skew_of(stage: Stage) -> Skew | None:
    """The skew of a stage; None for fewer than two tasks."""
    if len(stage.millis) < 2:
        return None
    longest = max(range(len(stage.millis)), key=stage.millis.__getitem__)
    others = [*stage.millis[:longest], *stage.millis[longest + 1 :]]
    other_records = [*stage.records[:longest], *stage.records[longest + 1 :]]
    median = median_low(others)
    return Skew(
        len(stage.millis),
        stage.millis[longest] / 1000,
        median / 1000,
        stage.millis[longest] / max(median, 1),
        stage.records[longest] / max(median_low(other_records), 1),
    )
