"""One Spark session for the whole suite, and the marker `spark` on every test that needs a JVM."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A JSON stack trace for each error that a test provokes.
logging.getLogger("SQLQueryContextLogger").disabled = True

# A query on Spark has no deadline worth setting.  `make fuzz` looks further, and elsewhere each time.
settings.register_profile(
    "suite", deadline=None, derandomize=True, max_examples=500, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("fuzz", settings.get_profile("suite"), derandomize=False, max_examples=2000, print_blob=True)
settings.load_profile("suite")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The classic session of the whole suite; `spark.newSession()` has views and settings of its own."""
    from optimizer.doctor import require_java

    require_java()
    from sessions import start

    session = start("classic", tmp_path_factory.mktemp("spark"), **{"spark.driver.memory": "4g"})
    yield session
    session.stop()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what starts a JVM, before `-m` is looked at."""
    for item in items:
        own_process = any(item.iter_markers("cluster")) or any(item.iter_markers("connect"))
        if own_process or "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
