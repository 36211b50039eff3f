"""What a matrix of tests counts, printed at the end of its file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest


def matrix_counts(name: str) -> Callable[[pytest.FixtureRequest], Iterator[Counter[str]]]:
    """A fixture for a file: cells, rows and errors by their names."""

    @pytest.fixture(scope="module")
    def counts(request: pytest.FixtureRequest) -> Iterator[Counter[str]]:
        found: Counter[str] = Counter()
        yield found
        numbers = ", ".join(f"{number:,} {what}" for what, number in sorted(found.items()))
        with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            print(f"\nmatrix of {name}: {numbers}")

    return counts
