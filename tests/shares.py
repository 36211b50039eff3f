"""How many random examples come to what a test is there for: without that it would pass whatever the rules do."""

from __future__ import annotations

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
    """A fixture for a file: this part of all its examples has to come to it, which is looked at after its last test."""

    @pytest.fixture(scope="module")
    def share() -> Iterator[Share]:
        counted = Share()
        yield counted
        reached, seen = counted.seen[True], counted.seen.total()
        assert reached >= least * seen, f"{reached} of {seen} random examples only, of {least:.0%} that there should be"

    return share
