"""How many random examples come to what a test is there for: without that it would pass whatever the rules do."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator

import pytest


class Share:
    """Counts the examples of a file, and those among them that came to it."""

    def __init__(self) -> None:
        self.seen: Counter[bool] = Counter()

    def count(self, reached: bool) -> bool:
        """Count an example; returns what was counted."""
        self.seen[reached] += 1
        return reached


def at_least(least: float) -> Callable[[], Iterator[Share]]:
    """A fixture for a file: this part of all its examples has to come to it, which is looked at after its last test.

    Examples are random: fewer than that by chance, four standard deviations at most, are not counted as too few.
    """

    @pytest.fixture(scope="module")
    def share() -> Iterator[Share]:
        counted = Share()
        yield counted
        reached, seen = counted.seen[True], counted.seen.total()
        chance = 4 * math.sqrt(least * (1 - least) * seen)
        assert reached >= least * seen - chance, f"only {reached} of {seen} random examples, not {least:.0%}"

    return share
