"""One Spark session for the whole suite, and the marker `spark` on every test that needs a JVM."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.scheduler import LoadFileScheduling

# For the JVMs of all tests, which spent half of their time in the second compiler; no query here repays it.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC")

# A query on Spark has no deadline worth setting.  `make fuzz` takes ten times as many examples, and others each time.
# No test sets a number of its own, which would hold for both; some take a multiple of `settings.default.max_examples`.
settings.register_profile(
    "suite", deadline=None, derandomize=True, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("fuzz", settings.get_profile("suite"), derandomize=False, max_examples=600, print_blob=True)
settings.load_profile("suite")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The classic session of the whole suite; `spark.newSession()` has views and settings of its own."""
    from optimizer.doctor import require_java

    require_java()
    from pyspark.logger import PySparkLogger

    from sessions import quick_parts, start

    # A JSON stack trace for each error that a test provokes.
    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True

    scratch = tmp_path_factory.mktemp("spark")
    session = start("classic", scratch, **{"spark.driver.memory": "4g"}, **quick_parts(scratch))
    yield session
    session.stop()


# The files that take longest, first: two workers that take one file after the other end at about the same time.
LONGEST = (
    "tests/tpc/test_tpc.py",
    "tests/golden/test_answers.py",
    "tests/answers/test_random_bands.py",
    "tests/answers/test_lookups.py",
    "tests/golden/test_metamorphic.py",
)
PLANS_GOLDENS = (
    "tests/golden/test_coverage.py",
    "tests/golden/test_goldens.py",
    "tests/golden/test_metamorphic.py",
    "tests/golden/test_streams_of_goldens.py",
    "tests/planner/test_second_reading.py",
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """One worker takes all that plans the golden cases, since what one has planned the other would plan again."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = str(super()._split_scope(nodeid))
            return "golden cases" if file in PLANS_GOLDENS or file.endswith(".plan") else file

    return Scheduling(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what starts a JVM, before `-m` is looked at; and begin with the longest files."""
    for item in items:
        own_process = any(item.iter_markers("cluster")) or any(item.iter_markers("connect"))
        if own_process or "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
    order = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.nodeid.partition("::")[0], len(order)))
