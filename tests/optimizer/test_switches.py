"""Switches that leave statements to Spark: the text is passed on unchanged, and ``declined`` names the switch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from comparing import few_rows
from dovetail import Optimizer, Options
from dovetail.optimizer.planning.switches import find_switch
from dovetail.optimizer.warn_once import warn_once
from sessions import for_few_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY = "SELECT p.x  FROM p JOIN i\n ON p.x BETWEEN i.lo AND i.hi -- as written"
HINTS = (
    "SELECT /*+ NO_DOVETAIL */ p.x FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi",
    "SELECT /*+ BROADCAST(p), no_dovetail */ p.x FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi",
    "SELECT /*+ BROADCAST(i) */ /*+ NO_DOVETAIL */ p.x FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi",
    "SELECT x FROM (SELECT /*+ NO_DOVETAIL */ p.x FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi)",
    "WITH r AS (SELECT /*+ NO_DOVETAIL */ p.x FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi) SELECT * FROM r",
)
NO_HINTS = (
    "SELECT /* NO_DOVETAIL */ p.x FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi",
    "SELECT p.x, '/*+ NO_DOVETAIL */' AS t FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi",
)


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    session = for_few_rows(spark)
    few_rows(session, "p", "SELECT id AS x FROM range(20)")
    few_rows(session, "i", "SELECT id * 3 AS lo, id * 3 + 4 AS hi FROM range(9)")
    return session


def _switch(optimizer: Optimizer, query: str) -> str:
    """The reason of the switch that left a query to Spark; empty if it was rewritten."""
    plan = optimizer.plan(query)
    if plan.rewritten:
        return ""
    (declined,) = plan.declined
    assert declined.rule == "switch"
    assert plan.sql() == query
    assert sorted(plan.dataframe().collect()) == sorted(optimizer.session.sql(query).collect())
    return declined.reason


def test_a_setting_of_the_session(session: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    optimizer = Optimizer(session, Options(force=True))
    assert not _switch(optimizer, QUERY)
    warn_once.cache_clear()
    session.conf.set("spark.dovetail.enabled", "false")
    try:
        assert "spark.dovetail.enabled=false" in _switch(optimizer, QUERY)
        assert "spark.dovetail.enabled=false" in _switch(Optimizer(session), QUERY)
        session.conf.set("spark.dovetail.enabled", "off")
        assert "spark.dovetail.enabled=off" in _switch(Optimizer(session), QUERY)
        session.conf.set("spark.dovetail.enabled", "flase")
        assert not _switch(optimizer, QUERY)
        assert "spark.dovetail.enabled=flase is neither on nor off, so Dovetail stays on; did you mean" in caplog.text
    finally:
        session.conf.unset("spark.dovetail.enabled")
    assert not _switch(optimizer, QUERY)


def test_an_option(session: SparkSession) -> None:
    optimizer = Optimizer(session, Options(force=True, enabled=False))
    assert "Options(enabled=False)" in _switch(optimizer, QUERY)
    frame = session.table("p").join(session.table("i"), on=session.table("p").x == session.table("i").lo)
    assert not optimizer.plan(frame).rewritten


def test_the_environment(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOVETAIL", "off")
    assert "DOVETAIL=off" in _switch(Optimizer(session, Options(force=True)), QUERY)
    monkeypatch.setenv("DOVETAIL", "on")
    assert not _switch(Optimizer(session, Options(force=True)), QUERY)


def test_a_value_that_is_neither_on_nor_off_is_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    warn_once.cache_clear()
    for value in ("offf", "offf", " OFF ", "on", "", "disabled"):
        monkeypatch.setenv("DOVETAIL", value)
        assert (find_switch(QUERY, Options()) is not None) == (value == " OFF ")
    possible = "possible: 0, 1, false, no, off, on, true, yes"
    begin = "The environment variable DOVETAIL="
    end = " is neither on nor off, so Dovetail stays on; "
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        f"{begin}offf{end}did you mean 'off'? {possible}",
        f"{begin}disabled{end}{possible}",
    ]


@pytest.mark.parametrize("query", HINTS)
def test_a_hint(session: SparkSession, query: str) -> None:
    optimizer = Optimizer(session, Options(force=True))
    assert "NO_DOVETAIL" in _switch(optimizer, query)
    assert optimizer.plan(query).declined[0].place is not None


@pytest.mark.parametrize("query", NO_HINTS)
def test_no_hint(session: SparkSession, query: str) -> None:
    assert Optimizer(session, Options(force=True)).plan(query).rewritten
