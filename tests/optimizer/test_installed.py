"""An installed optimizer: ``session.sql`` plans, answers as before, and is what it was when it is uninstalled."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from dovetail import Optimizer, OptionError, Options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
BAND = "SELECT p.id, i.id AS i FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi"
FORCE = Options(force=True)


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    session = spark.newSession()
    session.range(100).selectExpr("id", "id % 37 AS x").createOrReplaceTempView("p")
    session.range(20).selectExpr("id", "id AS lo", "id + 2 AS hi").createOrReplaceTempView("i")
    yield session
    assert "sql" not in vars(session)
    assert session.sql == type(session).sql.__get__(session)


def is_rewritten(session: SparkSession) -> bool:
    """Whether Spark runs bins for the band."""
    frame: Any = session.sql(BAND)
    return "Generate explode" in frame._jdf.queryExecution().toString()


def test_statements_are_planned_while_it_is_installed(session: SparkSession) -> None:
    expected = sorted(session.sql(BAND).collect())
    assert not is_rewritten(session)
    opt = Optimizer.install(session, FORCE)
    assert is_rewritten(session)
    assert sorted(session.sql(BAND).collect()) == expected == sorted(opt.sql(BAND).collect())
    assert sorted(session.table("p").sparkSession.sql(BAND).collect()) == expected
    assert [r.v for r in session.sql("SELECT {x} + :y AS v", args={"y": 1}, x=2).collect()] == [3]
    assert opt.verify(BAND).same
    opt.uninstall()
    assert not is_rewritten(session)
    opt.uninstall()


def test_errors_are_those_of_spark(session: SparkSession) -> None:
    from pyspark.errors import AnalysisException, ParseException, PySparkTypeError

    for text, error in (("SELECT nowhere FROM p", AnalysisException), ("SELEC 1", ParseException)):
        with pytest.raises(error) as plain:
            session.sql(text)
        with Optimizer(session), pytest.raises(error) as planned:
            session.sql(text)
        assert str(planned.value) == str(plain.value)
    with Optimizer(session):
        for wrong in ({"args": 5}, {"args": "x"}):
            with pytest.raises(PySparkTypeError):
                session.sql("SELECT 1", **wrong)


def test_the_last_of_several_plans(session: SparkSession) -> None:
    band_off = Options(force=True, disabled_rules=("lower_band_join",))
    first, second = Optimizer.install(session, FORCE), Optimizer(session, band_off)
    with second:
        assert not is_rewritten(session)
        with first:
            assert is_rewritten(session)
        assert not is_rewritten(session)
        first.uninstall()  # out of turn
        assert not is_rewritten(session)
    assert not is_rewritten(session)


def test_it_goes_when_the_block_raises(session: SparkSession) -> None:
    with pytest.raises(RuntimeError), Optimizer(session, FORCE):
        raise RuntimeError("in the block")


def test_in_threads(session: SparkSession) -> None:
    expected = sorted(session.sql(BAND).collect())

    def run(_: int) -> bool:
        with Optimizer(session, FORCE):
            return sorted(session.sql(BAND).collect()) == expected

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(12)))


def test_beside_the_wrapper_of_another_library(session: SparkSession) -> None:
    calls: list[str] = []
    plain = session.sql

    def wrapper(text: str, *args: Any, **more: Any) -> Any:
        calls.append(text)
        return plain(text, *args, **more)

    setattr(session, "sql", wrapper)  # noqa: B010  # mypy does not take an assignment
    with Optimizer(session, FORCE):
        assert is_rewritten(session)
    assert vars(session)["sql"] is wrapper
    assert any("explode" in text for text in calls)
    del session.sql


def test_after_a_wrapper_on_top_has_gone(session: SparkSession) -> None:
    opt = Optimizer.install(session, FORCE)
    planned = session.sql
    setattr(session, "sql", partial(planned))  # noqa: B010
    assert is_rewritten(session)
    opt.uninstall()
    assert not is_rewritten(session)
    del session.sql  # the other library takes its wrapper away, and ours with it
    with Optimizer(session, FORCE):
        assert is_rewritten(session)


def test_making_an_optimizer_reads_all_settings_at_once(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql.conf import RuntimeConfig

    def refuse(*_: object) -> Any:
        raise AssertionError("a call for each setting")

    monkeypatch.setattr(RuntimeConfig, "get", refuse)
    monkeypatch.setattr(RuntimeConfig, "getAll", property(refuse))
    session.conf.set("spark.dovetail.force", "true")
    assert Optimizer(session).options.force


def test_options_are_read_from_the_session(session: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    session.conf.set("spark.dovetail.force", "true")
    session.conf.set("spark.dovetail.disabled_rules", "push_filters, lower_band_join")
    opt = Optimizer(session)
    assert opt.options == Options(force=True, disabled_rules=("push_filters", "lower_band_join"))
    assert Optimizer(session, FORCE).options == FORCE
    (warning,) = [r.getMessage() for r in caplog.records]  # and none of `force`, which the options have as well
    assert warning.startswith("The setting spark.dovetail.disabled_rules=push_filters, lower_band_join has no effect: ")
    session.conf.set("spark.dovetail.forse", "true")
    with pytest.raises(OptionError, match=r"spark\.dovetail\.….*'forse'.*force"):
        Optimizer(session)


def test_the_session_of_a_builder_is_the_same(spark: SparkSession) -> None:
    from pyspark.sql import SparkSession

    with Optimizer(spark):
        assert "sql" in vars(SparkSession.builder.getOrCreate())
    assert "sql" not in vars(spark)
