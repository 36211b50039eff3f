"""What planning logs, and the names of the jobs that it runs."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

import pytest

from dovetail import Optimizer, Options
from dovetail.executor.catalog import spark_catalog as catalog
from dovetail.executor.catalog.spark_catalog import SparkCatalog
from dovetail.executor.session.job_names import job_name
from sessions import with_points_and_intervals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BAND = "SELECT p.x, i.lo FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi"
DESCRIPTION = "spark.job.description"


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    return with_points_and_intervals(spark)


class _Fails(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        raise ValueError("a fault in the logging of a user")


def test_a_filter_that_fails_fails_no_statement(session: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dovetail")
    logger, fails = logging.getLogger("dovetail.plan"), _Fails()
    logger.addFilter(fails)
    try:
        assert Optimizer(session).sql("SELECT x FROM p WHERE x > 3").count() == 96
        assert Optimizer(session, Options(force=True)).plan(BAND).rewritten
    finally:
        logger.removeFilter(fails)


def test_each_statement_is_one_line(session: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dovetail")
    opt, forced = Optimizer(session), Optimizer(session, Options(force=True))
    forced.sql(BAND)
    forced.plan(BAND).dataframe()
    opt.sql("SELECT x FROM p WHERE x > 3")
    opt.sql(BAND)
    opt.plan("SELECT nope FROM p")
    opt.sql("SELECT {f}.x FROM {f}", f=session.table("p"))
    opt.dataframe(session.table("p"))
    lines = [record.getMessage() for record in caplog.records if record.name == "dovetail.plan"]
    expected = [
        r"Rewritten in \d+ ms by band_join, .*lower_band_join.*",
        r"Rewritten in \d+ ms by band_join, .*lower_band_join.*",
        r"Not rewritten, planned in \d+ ms: no rule matched",
        r"Not rewritten, planned in \d+ ms: lower_band_join: .* \(nested_loop_pairs\)",
        r"Not rewritten, planned in \d+ ms: Spark cannot run the statement: \[UNRESOLVED_COLUMN.*",
        r"Not rewritten, planned in \d+ ms: no rule matched",
        r"Not rewritten, planned in \d+ ms: dataframe: the plan of the DataFrame has no join",
    ]
    identity = rf" \(statement [0-9a-f]{{8}} at {re.escape(__file__)}:\d+, \d+ catalog requests\)"
    assert len(lines) == len(expected), lines
    for line, pattern in zip(lines, expected, strict=True):
        assert re.fullmatch(pattern + identity, line), line


def test_the_queries_of_planning_have_a_name(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    context, seen = session.sparkContext, []
    real = catalog._collect

    def collect(frame: Any) -> Any:
        seen.append(context.getLocalProperty(DESCRIPTION))
        return real(frame)

    def statistics(self: SparkCatalog, relation: str) -> Any:
        seen.append(context.getLocalProperty(DESCRIPTION))
        return real_statistics(self, relation)

    real_statistics = SparkCatalog._find_statistics
    monkeypatch.setattr(catalog, "_collect", collect)
    monkeypatch.setattr(SparkCatalog, "_find_statistics", statistics)
    context.setJobDescription("mine")
    try:
        assert Optimizer(session, Options(nested_loop_pairs=1, broadcast_pairs=1)).plan(BAND).rewritten
        assert set(seen) == {"Dovetail measures data to plan a query", "Dovetail plans a query"}
        assert context.getLocalProperty(DESCRIPTION) == "mine"
    finally:
        context.setLocalProperty(DESCRIPTION, None)  # type: ignore[arg-type]


def test_the_name_of_jobs_is_restored_after_an_error(session: SparkSession) -> None:
    def fail() -> None:
        with job_name(session, "a name"):
            assert session.sparkContext.getLocalProperty(DESCRIPTION) == "a name"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert session.sparkContext.getLocalProperty(DESCRIPTION) is None


def test_connect_gets_a_tag() -> None:
    class Remote:
        def __init__(self) -> None:
            self.tags = {"mine"}

        def getTags(self) -> set[str]:  # noqa: N802 - Spark's name
            return set(self.tags)

        def addTag(self, tag: str) -> None:  # noqa: N802 - Spark's name
            self.tags.add(tag)

        def removeTag(self, tag: str) -> None:  # noqa: N802 - Spark's name
            self.tags.discard(tag)

    remote: Any = Remote()
    with job_name(remote, "Dovetail measures"):
        assert remote.tags == {"mine", "Dovetail-measures"}
    assert remote.tags == {"mine"}
    with job_name(remote, "mine"):
        pass
    assert remote.tags == {"mine"}
