"""Statements in production: names in Spark's events, shadow and canary, the circuit breaker, listeners, the table."""

from __future__ import annotations

import json
import logging
import multiprocessing
import re
from dataclasses import replace
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any

import pytest

from command_line import dovetail
from dovetail import Optimizer, OptionError, Options, StatementEvent
from dovetail.optimizer.planning.driver import Driver
from dovetail.optimizer.planning.plan import Plan
from dovetail.optimizer.statements.log import Record, StatementLog, append, read_log
from dovetail.optimizer.statements.shadow_report import ShadowReport
from dovetail.planner.errors import InputError
from dovetail.planner.explain.records import Declined
from sessions import with_points_and_intervals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BAND = "SELECT p.x, i.lo FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi"
FAILS = "SELECT p.x, 10 DIV (p.x - 5) AS y FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi"
FORCED = Options(force=True)
DESCRIPTION = "spark.job.description"


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    return with_points_and_intervals(spark)


def frame(session: SparkSession) -> DataFrame:
    from pyspark.sql import functions as fn

    points, intervals = session.table("p"), session.table("i")
    return points.join(intervals, fn.expr("x BETWEEN lo AND hi"))


def executions(session: SparkSession) -> dict[int, str]:
    """The descriptions of the SQL executions that Spark still lists, by their numbers: it keeps the last thousand."""
    session.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    listed = session._jsparkSession.sharedState().statusStore().executionsList()
    return {int(one.executionId()): one.description() for one in (listed.apply(n) for n in range(listed.size()))}


def last_execution(session: SparkSession) -> int:
    """The number of the last SQL execution so far."""
    return max(executions(session), default=-1)


def descriptions(session: SparkSession, after: int) -> list[str]:
    """The descriptions of later executions but those of planning, as the SQL tab and event logs show them."""
    found = [text for number, text in sorted(executions(session).items()) if number > after]
    return [text for text in found if not re.match("Dovetail (plans|measures)", text)]


def test_the_name_is_in_spark_and_nowhere_afterwards(session: SparkSession, tmp_path: Path) -> None:
    opt, context = Optimizer(session, FORCED), session.sparkContext
    name = f"Dovetail: band_join, {opt.plan(BAND).hash}"
    rows = opt.sql(BAND)
    before = last_execution(session)
    context.setJobDescription("mine")
    try:
        assert rows.filter("x > 3").groupBy("lo").count().count() > 0
        rows.write.format("noop").mode("overwrite").save()
        opt.sql(f"INSERT OVERWRITE DIRECTORY '{tmp_path}/out' USING parquet {BAND}")
        assert context.getLocalProperty(DESCRIPTION) == "mine"
    finally:
        context.setLocalProperty(DESCRIPTION, None)  # type: ignore[arg-type]
    rows.collect()
    opt.dataframe(frame(session)).count()
    session.range(3).count()
    found = descriptions(session, before)
    assert [d for d in found if d == f"{name} · mine"] == [f"{name} · mine"] * 2
    assert sum(d.startswith("Dovetail: band_join, ") and d.endswith(" · mine") for d in found) in (3, 4)
    assert name in found
    assert sum(d.startswith("Dovetail: band_join, ") for d in found) >= 5
    assert not found[-1].startswith("Dovetail")
    assert context.getLocalProperty(DESCRIPTION) is None


def last_job(session: SparkSession) -> str:
    """The name of the last job: its call site, as the UI and event logs show it."""
    spark = session.sparkContext._jsc.sc()
    spark.listenerBus().waitUntilEmpty()
    listed = spark.statusStore().jobsList(None)
    job = max((listed.apply(n) for n in range(listed.size())), key=lambda job: job.jobId())
    return str(job.name())


@pytest.mark.parametrize("installed", [False, True])
def test_the_call_site_is_the_line_of_the_user(session: SparkSession, *, installed: bool) -> None:
    opt = Optimizer.install(session, FORCED, frames=True) if installed else Optimizer(session, FORCED)
    try:
        rows = opt.sql(BAND)
        frames = (rows, rows.filter("x > 3"), *((frame(session), session.range(3)) if installed else ()))
        for one in frames:
            one.collect()
            assert re.fullmatch(rf"collect at {re.escape(__file__)}:\d+", last_job(session))
            one.toPandas()
            assert re.fullmatch(rf"toPandas at {re.escape(__file__)}:\d+", last_job(session))
            one.head(2)
            assert re.fullmatch(rf"head at {re.escape(__file__)}:\d+", last_job(session))
    finally:
        opt.uninstall()


def test_spark_gets_a_comment(session: SparkSession) -> None:
    plan = Optimizer(session, FORCED).plan(f"INSERT OVERWRITE DIRECTORY 'x' USING parquet {BAND}")
    assert plan.named_sql.startswith("INSERT OVERWRITE DIRECTORY 'x' USING parquet /* Dovetail ")
    assert ": band_join */\nSELECT" in plan.named_sql
    assert "/*" not in plan.sql()
    untouched = Optimizer(session).plan("SELECT x FROM p")
    assert untouched.named_sql == untouched.named_query == "SELECT x FROM p"


def test_shadow_runs_what_is_written_and_reports_the_rest(session: SparkSession, tmp_path: Path) -> None:
    log = tmp_path / "statements.jsonl"
    opt = Optimizer(session, Options(force=True, mode="shadow", statement_log=str(log)))
    plan = opt.plan(BAND)
    assert plan.sql() == BAND
    assert not plan.rewritten
    assert plan.shadow is not None
    assert plan.shadow.rewritten
    assert plan.declined[0] == Declined("mode", "mode=shadow runs each statement as written, and reports the rewriting")
    expected = sorted(session.sql(BAND).collect())
    before = last_execution(session)
    assert sorted(opt.sql(BAND).collect()) == sorted(plan.dataframe().collect()) == expected
    assert descriptions(session, before) == [f"Dovetail: as written, {plan.hash}"] * 2
    text = "SELECT {p}.x, i.lo FROM {p} JOIN i ON {p}.x BETWEEN i.lo AND i.hi AND i.lo < :most"
    assert opt.sql(text, {"most": 50}, p=session.table("p")).count() > 0
    own = frame(session)
    assert opt.dataframe(own) is own
    assert type(own) is type(session.table("p"))  # a DataFrame of the user gets no name
    opt.sql("SELECT x FROM p")
    records, wrong = read_log(log)
    assert wrong == 0
    assert [r.text("outcome") for r in records] == ["shadow"] * 4 + ["as written"]
    assert {r.text("hash") for r in records[:2]} == {plan.hash}
    assert records[0].text("text") == BAND
    assert records[0].text("sql") == plan.shadow.sql()
    assert "BandJoin" in records[0].text("plan")
    assert records[0].text("call_site").startswith(__file__)
    assert [bool(r.values["needs_arguments"]) for r in records] == [False, False, True, True, False]
    report = ShadowReport.of(records)
    assert [(s.runs, s.last.rules[0]) for s in report.rewritten] == [
        (2, "band_join"),
        (1, "band_join"),
        (1, "band_join"),
    ]
    assert report.declined == {"no rule matched": 1}


def test_canary_runs_a_share_by_the_hash(session: SparkSession) -> None:
    texts = [f"{BAND} AND i.lo <> {n}" for n in range(8)]
    taken = []
    for share in (0.0, 0.5, 1.0):
        opt = Optimizer(session, replace(FORCED, mode="canary", share=share))
        taken.append({text for text in texts if opt.plan(text).rewritten})
    assert taken[0] == set()
    assert set() < taken[1] < set(texts)
    assert taken[1] == {text for text in texts if int(Plan(text, None, ()).hash, 16) < 2**31}
    assert taken[2] == set(texts)


def test_a_rewriting_that_failed_is_not_used_again(session: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    from pyspark.errors import AnalysisException

    opt, events = Optimizer(session, FORCED), list[StatementEvent]()
    opt.add_listener(events.append)
    rows = opt.sql(FAILS)
    with pytest.raises(AnalysisException):
        rows.select("nope")  # which no rewriting changes
    later = opt.plan(FAILS)
    assert later.rewritten
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        rows.filter("x > 1").collect()
    (warning,) = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert warning.startswith("The rewriting by band_join, lower_band_join failed: DIVIDE_BY_ZERO (statement ")
    assert f" {later.hash} at {__file__}:" in warning
    assert warning.endswith("). The statement runs as written for the rest of this session")
    for again in (opt.plan(FAILS), Optimizer(session, FORCED).plan(FAILS)):
        assert again.sql() == FAILS
        assert again.declined[0].rule == "circuit breaker"
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        later.dataframe().collect()  # planned before it failed; runs as written
    assert [e.outcome for e in events] == ["rewritten", "rewritten", "failed", "as written"]
    assert [e.is_fallback for e in events] == [False, False, True, True]
    assert opt.plan(BAND).rewritten
    assert Optimizer(with_points_and_intervals(session), FORCED).plan(FAILS).rewritten


def test_a_rewriting_that_failed_is_used_over_other_frames(session: SparkSession) -> None:
    """Programs over different DataFrames have the same text."""
    opt, text = Optimizer(session, FORCED), FAILS.replace("FROM p JOIN i", "FROM {p} p JOIN {i} i")
    points, intervals = session.table("p"), session.table("i")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        opt.sql(text, p=points, i=intervals).collect()
    again = opt.plan(text, p=session.table("p"), i=intervals)
    assert [declined.rule for declined in again.declined] == ["circuit breaker"]
    others = points.filter("x <> 5")
    assert opt.plan(text, p=others, i=intervals).rewritten
    assert len(opt.sql(text, p=others, i=intervals).collect()) > 0


def test_measurements_have_a_time_limit(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    from dovetail.executor.catalog import spark_catalog as catalog
    from dovetail.optimizer.session import planner as session_planner

    slow = "SELECT sum(id % 7) FROM range(1000000000000)"  # hours
    real = catalog.SparkCatalog._run_measurement

    def measure(self: Any, query: str, frame: DataFrame) -> Any:
        return real(self, slow, session.sql(slow))  # a job, which is canceled

    opt = Optimizer(session, Options(nested_loop_pairs=0, broadcast_pairs=0, planning_seconds=4))
    assert opt.plan(BAND).rewritten  # the code is loaded, and later plans have the limit itself
    monkeypatch.setattr(session_planner, "_SCALE", 1)
    monkeypatch.setattr(catalog.SparkCatalog, "_run_measurement", measure)
    text = f"{BAND} AND i.lo <> 7"
    plan = opt.plan(text)
    assert plan.rewritten, plan.declined
    assert "planned without measurements that took longer than planning_seconds" in plan.explain("cost")
    assert plan.timings["total"] < 30
    assert sorted(plan.dataframe().collect()) == sorted(session.sql(text).collect())


def test_planning_has_a_time_limit(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    from dovetail.executor.catalog import spark_catalog as catalog
    from dovetail.optimizer.session import planner as session_planner

    opt = Optimizer(session, Options(planning_seconds=0.1))
    opt._planner._is_warm = True
    monkeypatch.setattr(session_planner, "_SCALE", 1)
    monkeypatch.setattr(catalog.SparkCatalog, "_find_statistics", lambda *_: sleep(0.3))
    plan = opt.plan(BAND)
    (declined,) = plan.declined
    assert declined.rule == "planning time"
    assert "planning took longer than 0.2 s" in declined.reason
    assert plan.sql() == BAND


def test_a_listener_that_fails_fails_no_statement(session: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    def fail(event: StatementEvent) -> None:
        raise ZeroDivisionError

    opt = Optimizer(session, FORCED)
    opt.add_listener(fail)
    assert opt.sql(BAND).count() > 0
    assert "A listener of statements failed: ZeroDivisionError" in caplog.text


def test_modes_and_shares_are_checked() -> None:
    with pytest.raises(OptionError, match="there is no mode 'shadw'; did you mean 'shadow'"):
        Options(mode="shadw")
    with pytest.raises(OptionError, match="share is at most 1"):
        Options(share=2.0)
    assert Options.from_mapping({"mode": " canary ", "share": "0.25"}).share == 0.25


def _write_lines(path: Path, process: int) -> None:
    for number in range(300):
        append(path, json.dumps({"hash": f"{process}", "n": number, "text": "x" * 5_000}).encode() + b"\n")


def test_two_processes_lose_no_line(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"hash": "cut off')  # by a full disk, or a kill
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_write_lines, args=(path, n)) for n in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    records, wrong = read_log(path)
    assert wrong == 1
    assert [sum(r.text("hash") == f"{n}" for r in records) for n in range(2)] == [300, 300]


def test_a_log_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: no such file"):
        read_log(tmp_path / "nothing")
    with pytest.raises(InputError, match=r"has no \.jsonl files"):
        read_log(tmp_path)


def test_a_log_that_cannot_be_written_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    in_the_way = tmp_path / "statements"
    in_the_way.write_text("")
    options = Options(statement_log=f"{in_the_way}/")
    event = StatementEvent(Plan(BAND, None, ()), "as written", "job.py:3")
    for log in (StatementLog(options), StatementLog(options)):
        log(event)
        log(event)
    (warning,) = [r.getMessage() for r in caplog.records]
    assert warning.startswith(f"statement_log={in_the_way}/ cannot be written: file exists. Statements run, ")
    in_the_way.unlink()
    log(event)
    records, wrong = read_log(in_the_way)
    assert ([r.text("text") for r in records], wrong) == ([BAND], 0)


def test_a_report_without_a_rewriting_verifies_nothing(tmp_path: Path) -> None:
    path = tmp_path / "statements.jsonl"
    path.write_text('{"hash": "8a3f2c11", "outcome": "as written", "rules": [], "text": "SELECT 1"}\n')
    assert dovetail("shadow-report", path).exit_code == 0
    done = dovetail("shadow-report", path, "--verify", 1)
    assert done.exit_code == 1
    assert done.stderr == f"error: Nothing is verified: no statement of {path} has a rewriting\n"


def test_rules_stop_at_the_deadline() -> None:
    from dovetail.planner.catalog import Settings
    from dovetail.planner.deadline import PlanningTimeout, time_limit
    from dovetail.planner.offline_catalog.catalog import CatalogFile
    from dovetail.planner.sql.from_sql import from_sql

    catalog = CatalogFile(Path(), Settings(), ())
    logical, _ = from_sql(BAND, catalog.settings)
    with pytest.raises(PlanningTimeout), time_limit(0.0):
        Driver(catalog, FORCED).drive(logical)


def test_a_later_run_that_is_switched_off_hides_no_rewriting() -> None:
    def record(time: str, outcome: str, rules: list[str], **values: object) -> Record:
        return Record({"hash": "8a3f2c11", "time": time, "outcome": outcome, "rules": rules, **values})

    lines = (
        record("1", "shadow", ["band_join"], seconds_saved=2.0),
        record("2", "failed", ["band_join"], seconds_saved=2.0, error="too large"),
        record("3", "as written", []),
    )
    report = ShadowReport.of(lines)
    (statement,) = report.rewritten
    assert (statement.runs, statement.savings.seconds, statement.errors) == (2, 2.0, ("too large",))
    assert report.summary.startswith("1 statement in 2 runs: 1 can be rewritten, the rewritings of 1 failed. Planning ")
