"""`install(frames=True)`: actions of DataFrames run the planned DataFrame, and no other call of theirs changes."""

from __future__ import annotations

import logging
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dovetail import Optimizer, Options
from dovetail.executor.dataframes.installed_frames import ACTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
FORCE = Options(force=True)
PAIRS = sorted((p, i) for p in range(100) for i in range(20) if i <= p % 37 <= i + 2)


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    session = spark.newSession()
    before = {name: vars(type(session.range(1))).get(name) for name in (*ACTIONS, "write")}
    yield session
    assert {name: vars(type(session.range(1))).get(name) for name in before} == before
    assert not [name for name in vars(session) if name.startswith("_dovetail")]


def pairs(session: SparkSession) -> DataFrame:
    """Pairs of ``PAIRS``, selected by column objects of both sides, as programs do."""
    points = session.range(100).selectExpr("id", "id % 37 AS x")
    spans = session.range(20).selectExpr("id AS other", "id AS lo", "id + 2 AS hi")
    joined = points.join(spans, points.x.between(spans.lo, spans.hi))
    return joined.select(points.id, spans.other)


def written(frame: DataFrame, folder: Path) -> list[Any]:
    """The rows of a folder that ``write`` made."""
    frame.write.parquet(str(folder))
    return sorted(frame.sparkSession.read.parquet(str(folder)).collect())


def shown(frame: DataFrame, capsys: pytest.CaptureFixture[str]) -> str:
    """What ``explain`` prints."""
    frame.explain()
    return capsys.readouterr().out


def seen_by_foreach(frame: DataFrame) -> int:
    """The number of rows that ``foreach`` passes to a function in Spark's workers."""
    counted = frame.sparkSession.sparkContext.accumulator(0)
    frame.foreach(lambda _: counted.add(1))
    return int(counted.value)


def by_pandas(frame: DataFrame) -> Any:
    """The rows by ``toPandas``."""
    found: Any = frame.toPandas()
    return sorted(map(tuple, found.values.tolist()))


ANSWERS: dict[str, tuple[Callable[[DataFrame], Any], Any]] = {
    "collect": (lambda f: sorted(map(tuple, f.collect())), PAIRS),
    "count": (lambda f: f.count(), len(PAIRS)),
    "foreach": (seen_by_foreach, len(PAIRS)),
    "isEmpty": (lambda f: f.isEmpty(), False),
    "tail": (lambda f: len(f.tail(7)), 7),
    "take": (lambda f: len(set(f.take(7)) & set(PAIRS)), 7),
    "first": (lambda f: f.first() in PAIRS, True),
    "toLocalIterator": (lambda f: sorted(map(tuple, f.toLocalIterator())), PAIRS),
    "toPandas": (by_pandas, PAIRS),
    "aggregate": (lambda f: f.groupBy().sum("id").collect()[0][0], sum(p for p, _ in PAIRS)),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_action_runs_the_rewriting_once(session: SparkSession, name: str, caplog: pytest.LogCaptureFixture) -> None:
    action, expected = ANSWERS[name]
    caplog.set_level(logging.INFO, "dovetail.plan")
    frame = pairs(session)
    opt = Optimizer.install(session, FORCE, frames=True)
    assert action(frame) == expected
    assert [record.message.partition(" ")[0] for record in caplog.records] == ["Rewritten"]
    opt.uninstall()
    assert action(frame) == expected
    assert len(caplog.records) == 1


def test_explain_shows_what_an_action_runs(session: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    frame = pairs(session)
    assert "Generate explode" not in shown(frame, capsys)
    opt = Optimizer.install(session, FORCE, frames=True)
    assert "Generate explode" in shown(frame, capsys)
    opt.uninstall()
    assert "Generate explode" not in shown(frame, capsys)


def test_writes(session: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dovetail.plan")
    opt = Optimizer.install(session, FORCE, frames=True)
    assert written(pairs(session), tmp_path / "out") == PAIRS
    assert len(caplog.records) == 1
    opt.uninstall()


def test_a_new_table(session: SparkSession, tmp_path: Path) -> None:
    """`writeTo` analyzes the statement again, when the views of planning have gone."""
    opt = Optimizer.install(session, FORCE, frames=True)
    try:
        pairs(session).writeTo("pairs_written").using("parquet").option("path", str(tmp_path / "t")).create()
        assert sorted(map(tuple, session.table("pairs_written").collect())) == PAIRS
        pairs(session).write.insertInto("pairs_written")
        assert session.table("pairs_written").count() == 2 * len(PAIRS)
    finally:
        opt.uninstall()
        session.sql("DROP TABLE IF EXISTS pairs_written")


def test_frames_without_joins_are_not_planned(session: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dovetail.plan")
    opt = Optimizer.install(session, FORCE, frames=True)
    assert session.range(9).filter("id > 3").groupBy().count().collect()[0][0] == 5
    assert not caplog.records
    opt.uninstall()


def test_frames_of_sql_are_planned_once(session: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    session.range(100).selectExpr("id", "id % 37 AS x").createOrReplaceTempView("p")
    session.range(20).selectExpr("id", "id AS lo", "id + 2 AS hi").createOrReplaceTempView("i")
    opt = Optimizer.install(session, FORCE, frames=True)
    frame = session.sql("SELECT p.id, i.id AS other FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi")
    caplog.set_level(logging.INFO, "dovetail.plan")
    assert sorted(map(tuple, frame.collect())) == PAIRS
    assert not caplog.records
    opt.uninstall()


def test_dovetails_own_actions_run_as_written(session: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    """`verify` compares with the query as written, which must not be rewritten as well."""
    session.range(100).selectExpr("id", "id % 37 AS x").createOrReplaceTempView("p")
    session.range(20).selectExpr("id", "id AS lo", "id + 2 AS hi").createOrReplaceTempView("i")
    opt = Optimizer.install(session, FORCE, frames=True)
    caplog.set_level(logging.INFO, "dovetail.plan")
    found = opt.verify("SELECT p.id FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi", measure=True)
    assert (found.same, found.rows, len(caplog.records)) == (True, len(PAIRS), 1)
    assert found.runs is not None
    assert any("NestedLoop" in o.name or "Cartesian" in o.name for o in found.runs.written.operators)
    opt.uninstall()


def test_several_sessions_and_optimizers(session: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    other = session.newSession()
    band_off = Options(force=True, disabled_rules=("lower_band_join",))
    first = Optimizer.install(session, FORCE, frames=True)
    second = Optimizer.install(session, band_off, frames=True)
    assert "Generate explode" not in shown(pairs(session), capsys)
    second.uninstall()
    second.uninstall()
    assert "Generate explode" in shown(pairs(session), capsys)
    assert "Generate explode" not in shown(pairs(other), capsys)
    third = Optimizer.install(other, FORCE, frames=True)
    first.uninstall()
    assert "Generate explode" not in shown(pairs(session), capsys)
    assert "Generate explode" in shown(pairs(other), capsys)
    with first:
        assert "Generate explode" not in shown(pairs(session), capsys)
    third.uninstall()


def test_in_threads(session: SparkSession) -> None:
    opt = Optimizer.install(session, FORCE, frames=True)
    with ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(lambda _: sorted(map(tuple, pairs(session).collect())), range(8)))
    assert rows == [PAIRS] * 8
    opt.uninstall()


def test_beside_the_wrapper_of_another_library(session: SparkSession) -> None:
    opt = Optimizer.install(session, FORCE, frames=True)
    of_frames: Any = type(session.range(1))
    calls: Counter[str] = Counter()
    planned = of_frames.count

    def count(frame: DataFrame) -> Any:
        calls["count"] += 1
        return planned(frame)

    of_frames.count = count
    assert pairs(session).count() == len(PAIRS)
    opt.uninstall()
    assert of_frames.count is count
    assert pairs(session).count() == len(PAIRS)
    assert calls["count"] == 2
    of_frames.count = planned.__wrapped__


def test_errors_are_those_of_spark(session: SparkSession) -> None:
    opt = Optimizer.install(session, FORCE, frames=True)
    frame = pairs(session).selectExpr("raise_error('no')")
    with pytest.raises(Exception, match="USER_RAISED_EXCEPTION"):
        frame.collect()
    with pytest.raises(TypeError):
        frame.tail()  # type: ignore[call-arg]
    opt.uninstall()


def test_a_cached_frame_is_read(session: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    opt = Optimizer.install(session, FORCE, frames=True)
    frame = pairs(session).cache()
    assert frame.count() == len(PAIRS)
    assert "InMemoryTableScan" in shown(frame, capsys)
    frame.unpersist()
    opt.uninstall()
