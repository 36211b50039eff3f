"""How much a run of the random tests takes, and from which seed; hypothesis profiles are in `tests/conftest.py`."""

from __future__ import annotations

import os

from hypothesis import settings

SEED = int(os.environ.get("DOVETAIL_SEED", "1"))  # what is drawn without hypothesis: sweeps, kills, changes


def examples(part: float = 1) -> int:
    """A part of the examples that a test takes under the profile of this run; one at least."""
    assert settings.default is not None
    return max(1, round(settings.default.max_examples * part))


def fuzzing() -> bool:
    """Whether `make fuzz` runs, which takes everything."""
    return settings.get_current_profile_name() == "fuzz"


def same_each_time() -> bool:
    """Whether the examples are those of every other run."""
    return settings().derandomize
