"""How much a run of the tests takes, and from which seed.

`make test` draws what its round draws: the number in `tests/round.txt`, which each release counts up, is the seed of
all that is drawn, and no change of the code moves it.  DOVETAIL_SEED is another seed, which `make fuzz` sets.
"""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

ROUND = int(Path(__file__).with_name("round.txt").read_text())
SEED = int(os.environ.get("DOVETAIL_SEED", ROUND))

# Hypothesis mixes constants of all local modules that are loaded into what it draws, and has no setting against it:
# any change of a file, and each file that ran before, would move the examples (`tests/test_effort.py`).
providers._get_local_constants = Constants

# No test sets a number of examples of its own, which would hold for all profiles; some take a part or a multiple, by
# `examples`.  A query on Spark has no deadline worth setting.
settings.register_profile(
    "test",
    deadline=None,
    derandomize=False,  # which draws from the text of the test; `conftest.py` gives SEED to Hypothesis
    database=None,
    print_blob=True,
    max_examples=15,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("all", settings.get_profile("test"), max_examples=60)
settings.register_profile("fuzz", settings.get_profile("test"), max_examples=600)
settings.load_profile("test")


def examples(part: float = 1) -> int:
    """A part of the examples that a test takes under the profile of this run; one at least."""
    assert settings.default is not None
    return max(1, round(settings.default.max_examples * part))


def fuzzing() -> bool:
    """Whether `make fuzz` runs, which takes everything."""
    return settings.get_current_profile_name() == "fuzz"


def quick() -> bool:
    """Whether a run takes as little as `make test`."""
    return settings.get_current_profile_name() == "test"
