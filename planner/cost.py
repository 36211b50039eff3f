"""What a choice costs, in pairs and rows; every threshold is an option of the user's."""

from __future__ import annotations

from dataclasses import dataclass

from planner.stats import Statistics


@dataclass(frozen=True)
class Thresholds:
    """The numbers that decide between plans; ``optimizer.Options`` carries them."""

    nested_loop_pairs: int = 4_000_000
    """Below so many pairs Spark's nested loop is as good as bins; it does about 17 million a second."""

    level_spread: float = 1024.0
    """An interval level is split when its mean length is more than this many times its median."""

    level_reach: int = 65_536
    """No interval is copied to more than about this many bins."""

    one_task_bytes: int = 64 * 2**20
    """Intervals of fewer bytes are measured in one task, without a shuffle."""

    measure_lengths: bool = True
    """Whether planning may run one aggregate over the intervals to learn how long they are."""


def at_most_pairs(left: Statistics, right: Statistics) -> int | None:
    """How many pairs a nested loop would compare, or None when a side is unknown."""
    if left.rows is None or right.rows is None:
        return None
    return left.rows * right.rows


def said(statistics: Statistics) -> str:
    """A number of rows for people: an estimate, or that there is none."""
    return "an unknown number of" if statistics.rows is None else f"about {statistics.rows:,}"


def said_pairs(pairs: int | None) -> str:
    """A number of pairs for people."""
    return "an unknown number of pairs" if pairs is None else f"up to {float(pairs):.2g} pairs"
