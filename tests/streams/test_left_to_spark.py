"""Which joins of streams state modules take, and why the others are left to Spark's own; the rows are the same."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from dovetail import Optimizer, Sink
from stream_feeds import Feed, run

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

ON = "a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL 3 SECONDS AND b.ts + INTERVAL 2 SECONDS"


@pytest.fixture
def opt(spark: SparkSession, tmp_path: Path) -> Optimizer:
    session = spark.newSession()
    for name in "s", "t":
        Feed(session, tmp_path / name, name, delay=5)
    session.createDataFrame([(1, "one")], "k INT, name STRING").createOrReplaceTempView("names")
    return Optimizer(session)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (f"SELECT a.k, count(*) FROM s a JOIN t b ON {ON} GROUP BY a.k", "Aggregate stands above the join"),
        (f"SELECT count(*) FROM s a JOIN t b ON {ON}", "is not computed row by row"),
        (f"SELECT DISTINCT a.k FROM s a JOIN t b ON {ON}", "DISTINCT stands above the join"),
        (
            "SELECT a.k FROM s a LEFT JOIN t b ON a.k = b.k",
            "no watermark says when a row of s .* is final: t needs one",
        ),
        ("SELECT a.k FROM s a FULL JOIN t b ON a.k = b.k AND a.ts >= b.ts", "when a row of t .* is final: s needs one"),
        ("SELECT * FROM s JOIN t USING (k)", "USING and NATURAL"),
        ("SELECT a.id FROM s a JOIN t b ON a.k = b.k JOIN names n ON a.k = n.k", "n is no stream"),
        ("SELECT a.id FROM s a JOIN t b ON a.id <> b.id", "neither an equality nor a band"),
        (f"SELECT a.k FROM s a JOIN (SELECT DISTINCT k, ts FROM t) b ON {ON}", "more than filter and rename"),
        (f"SELECT a.k, (SELECT max(k) FROM names) FROM s a JOIN t b ON {ON}", "holds a subquery"),
        (f"SELECT a.k FROM s a JOIN t b ON {ON} UNION ALL SELECT k FROM s", "more than one SELECT"),
    ],
)
def test_why_not(opt: Optimizer, query: str, said: str) -> None:
    plan = opt.stream_plan(query, state_modules=True)
    assert plan.join is None
    assert re.search(said, plan.reason)
    assert plan.explain() == f"Spark's own stream-stream join runs: {plan.reason}"


@pytest.mark.parametrize("name", ["s", "arriving"])
def test_lines_of_a_plan_that_are_no_operators(opt: Optimizer, name: str) -> None:
    """A literal may have several lines, and so has the relation of a table that is read as a stream."""
    opt.session.sql("CREATE TABLE IF NOT EXISTS arriving_rows (id INT, k INT, ts TIMESTAMP) USING parquet")
    stream = opt.session.readStream.table("arriving_rows")
    stream.withWatermark("ts", "5 seconds").createOrReplaceTempView("arriving")
    literal = "'several\nAggregate lines'"
    taken = opt.stream_plan(f"SELECT a.id, {literal} AS note FROM {name} a JOIN t b ON {ON}")
    assert taken.reason == ""
    refused = opt.stream_plan(f"SELECT a.id FROM (SELECT DISTINCT * FROM {name}) a JOIN t b ON {ON}")
    assert "more than filter" in refused.reason
    opt.session.sql("DROP TABLE arriving_rows")


@pytest.mark.parametrize(
    ("query", "taken"),
    [
        ("SELECT a.id FROM s a JOIN t b ON a.k = b.k", False),
        ("SELECT a.id FROM s a JOIN t b ON a.k = b.k AND a.id = b.id + 3", False),
        ("SELECT a.id FROM s a JOIN s b ON a.k = b.k", True),
        ("SELECT a.id FROM s a JOIN t b ON a.k = b.k AND a.ts >= b.ts", True),
        (f"SELECT a.id FROM s a JOIN t b ON {ON}", True),
        ("SELECT a.id FROM s a JOIN t b ON a.ts BETWEEN b.ts AND b.ts + INTERVAL 1 SECOND", True),
    ],
)
def test_what_is_taken_unless_asked(opt: Optimizer, query: str, *, taken: bool) -> None:
    plan = opt.stream_plan(query)
    assert (plan.join is not None) == taken
    assert taken or "by equalities alone" in plan.reason
    assert opt.stream_plan(query, state_modules=True).join
    assert opt.stream_plan(query, state_modules=False).reason == "state_modules=False requests it"


@pytest.mark.parametrize("query", ["SELECT * FROM s", "SELECT a.id FROM s a JOIN names n ON a.k = n.k", "SELECT 1"])
def test_nothing_to_keep(opt: Optimizer, query: str) -> None:
    assert opt.stream_plan(query).explain() == "no two streams are joined; no state is held"


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT a.id, b.id AS bid FROM s a JOIN t b ON {ON} WHERE a.id % 2 = 0",
        f"SELECT a.id, b.id AS bid FROM s a JOIN s b ON {ON} AND a.id <> b.id",
        f"SELECT a.id, b.id AS bid FROM s a LEFT JOIN t b ON {ON} AND b.id % 2 = 0 WHERE a.id % 3 > 0",
        f"SELECT a.id, b.id AS bid FROM s a FULL JOIN t b ON {ON} AND a.id % 2 = 0",
        f"SELECT a.id FROM s a LEFT SEMI JOIN t b ON {ON} AND a.id % 2 = b.id % 2",
    ],
)
def test_the_rows_of_sparks_own_join(opt: Optimizer, tmp_path: Path, query: str) -> None:
    """Late rows included: Spark is given the time to let its watermark follow, which it does in an epoch of its own."""
    session = opt.session
    feeds = [Feed(session, tmp_path / name, name, delay=5) for name in "st"]
    native = opt.stream(query, checkpoint=tmp_path / "n", sink=Sink("memory"), name="native", state_modules=False)
    try:
        for epoch in range(4):
            for side, feed in enumerate(feeds):
                times = [epoch * 10_000 + at for at in (0, 900, 5_000 + side, 9_000)] + [max(0, epoch - 2) * 10_000]
                feed.add([(epoch * 10 + n, n % 2, time) for n, time in enumerate(times)])
            native.processAllAvailable()
    finally:
        native.stop()
    expected = Counter(map(tuple, session.table("native").collect()))
    assert run(opt, query, tmp_path) == expected
    assert len(expected) > 5


def test_an_old_checkpoint_of_sparks_stays_sparks(
    opt: Optimizer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "dovetail")
    query = f"SELECT a.id, b.id AS bid FROM s a JOIN t b ON {ON}"
    feeds = [Feed(opt.session, tmp_path / name, name, delay=5) for name in "st"]
    for run_ in range(2):
        for feed in feeds:
            feed.add([(run_, 1, run_ * 1000)])
        more = {"checkpoint": tmp_path / "c", "sink": Sink("noop"), "trigger": "available now"}
        opt.stream(query, **more, state_modules=False if run_ == 0 else None).awaitTermination()  # type: ignore[arg-type]
    assert "c was begun by Spark's own join" in caplog.text
    assert not (tmp_path / "c" / "dovetail").exists()


def test_a_session_variable(opt: Optimizer, tmp_path: Path) -> None:
    opt.session.sql("DECLARE OR REPLACE VARIABLE least INT DEFAULT 1")
    for name in "st":
        feed = Feed(opt.session, tmp_path / name, name, delay=5)
        feed.add([(n, 1, n * 1000) for n in range(4)])
    query = f"SELECT a.id, least AS l FROM s a JOIN t b ON {ON} AND b.id >= least"
    assert sum(run(opt, query, tmp_path).values()) == 12
    assert not (tmp_path / "checkpoint" / "dovetail").exists()


def test_files_of_the_state_do_not_hang_on_settings_of_a_user(opt: Optimizer, tmp_path: Path) -> None:
    """The calendar before 1582 that LEGACY writes would move such times by days."""
    for name in "datetime", "int96":
        opt.session.conf.set(f"spark.sql.parquet.{name}RebaseModeInWrite", "LEGACY")
    for name in "st":
        feed = Feed(opt.session, tmp_path / name, name, delay=5)
        feed.add([(n, 1, n * 1000) for n in range(4)])
    opt.session.sql("CREATE TEMP VIEW old AS SELECT *, TIMESTAMP'1582-10-10 00:00:00' AS at FROM s")
    query = f"SELECT a.id, string(a.at) AS at FROM old a JOIN t b ON {ON}"
    assert {at for _, at in run(opt, query, tmp_path)} == {"1582-10-10 00:00:00"}
    assert (tmp_path / "checkpoint" / "dovetail").exists()
    assert opt.verify(query).same
