"""One Spark session for the whole suite, and the marker `spark` on every test that needs a JVM."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import nullcontext
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

import execution
from connect_port import connect_port
from effort import ROUND, SEED
from selection import in_part, left_out

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.scheduler import LoadFileScheduling

BEGAN = time.monotonic()

# For the JVMs of all tests, which spent half of their time in the second compiler; no query here repays it.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session of the whole suite; `spark.newSession()` has views and settings of its own.

    It is classic but in tests/streams/test_connect.py, which runs tests on Spark Connect by DOVETAIL_SESSION=connect.
    """
    from dovetail.optimizer.doctor import require_java

    require_java()
    from pyspark.logger import PySparkLogger

    from dovetail.optimizer.session import plan_cache
    from dovetail.optimizer.session import planner as session_planner
    from sessions import start

    # Whether planning took long hangs on the machine: tests keep the plans of rewritten queries alone, but for those
    # of the other plans.
    plan_cache._WORTH = math.inf
    session_planner._SCALE = 100
    # A JSON stack trace for each error that a test provokes.
    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True

    scratch = tmp_path_factory.mktemp("spark")
    where = os.environ.get("DOVETAIL_SESSION", "classic")
    session = start(where, scratch, **{"spark.driver.memory": "4g"})
    yield session
    if where == "classic":  # clients of Connect look for their server at their end
        session.stop()


@pytest.fixture(autouse=True)
def _one_connect_server(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests on Spark Connect wait for each other, in any worker."""
    with connect_port() if request.node.get_closest_marker("connect") else nullcontext():
        yield


# The files that take longest, first: two workers that take one file after the other end at about the same time.
LONGEST = (
    "tests/golden/test_answers.py",
    "tests/golden/test_metamorphic.py",
    "tests/optimizer/test_dataframes.py",
    "tests/tpc/test_tpc.py",
    "tests/answers/test_columns_of_tables.py",
    "tests/answers/test_lookups.py",
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

    class Scheduling(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = str(super()._split_scope(nodeid))
            return "golden cases" if file in PLANS_GOLDENS or file.endswith(".plan") else file

    return Scheduling(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Hypothesis has the seed of this run, unless another one is given."""
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(SEED)


def pytest_report_header() -> str:
    """What `effort.py` says of this run."""
    return f"profile {settings.get_current_profile_name()}, round {ROUND}, seed {SEED}"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--part`` and ``--minutes``."""
    parser.addoption("--part", default="1/1", help="k/n: the tests of one of n parts, by their names")
    parser.addoption("--minutes", type=float, help="for `make fuzz`: tests that have not begun by then are skipped")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Sessions run each test in the way that its name says; with ``--minutes`` a test may come too late."""
    minutes = item.config.getoption("minutes")
    if minutes and time.monotonic() - BEGAN > 60 * minutes:
        pytest.skip(f"{minutes:g} minutes are over; another seed has other tests first")
    execution.begin(item.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what starts a JVM, and what `make test` leaves out, before `-m` is looked at; and put files in order."""
    for item in items:
        own_process = any(item.iter_markers("cluster")) or any(item.iter_markers("connect"))
        if own_process or "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
    for item in left_out(items):
        item.add_marker("thorough")
    part, parts = map(int, config.getoption("part").split("/"))
    items[:] = [item for item in items if in_part(item.nodeid, part, parts)]
    order = {name: number for number, name in enumerate(LONGEST)}
    if config.getoption("minutes"):
        files = sorted({item.nodeid.partition("::")[0] for item in items})
        order = {file: number for number, file in enumerate(Random(SEED).sample(files, len(files)))}
    items.sort(key=lambda item: order.get(item.nodeid.partition("::")[0], len(order)))
