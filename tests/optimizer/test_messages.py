"""Messages as a user of the API meets them: what is wrong and where, why, and what to do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import pytest

from dovetail import Optimizer, OptionError, Options, Sink
from sessions import with_points_and_intervals
from stream_feeds import Feed

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

BAND = "SELECT {column} FROM p JOIN i ON p.x BETWEEN i.lo AND i.hi"


@pytest.fixture
def opt(spark: SparkSession) -> Optimizer:
    return Optimizer(with_points_and_intervals(spark))


@pytest.mark.parametrize("mode", ["plan", "trace", "cost"])
@pytest.mark.parametrize("force", [False, True])
def test_an_unknown_column_is_an_error_in_the_explanation(opt: Optimizer, mode: Any, force: bool) -> None:
    plan = Optimizer(opt.session, Options(force=force)).plan(BAND.format(column="p.nope"))
    assert not plan.rewritten
    assert "UNRESOLVED_COLUMN" in plan.rejection
    first, *_ = plan.explain(mode).splitlines()
    assert first.startswith("-- error: Spark cannot run this statement: [UNRESOLVED_COLUMN")
    assert "UNRESOLVED_COLUMN" in json.loads(plan.explain("json"))["error"]


def test_an_unknown_table_is_an_error_over_dataframes_too(opt: Optimizer) -> None:
    plan = opt.plan("SELECT * FROM {p} JOIN nosuch ON x = y", p=opt.session.table("p"))
    assert "[TABLE_OR_VIEW_NOT_FOUND]" in plan.explain()


def test_a_command_is_not_run_to_find_its_error(opt: Optimizer) -> None:
    plan = opt.plan("CREATE TEMPORARY VIEW made_by_plan AS SELECT nope FROM p")
    assert not plan.rejection
    plan = opt.plan("WITH a AS (SELECT 1 AS x) INSERT INTO nosuch SELECT * FROM a")
    assert not plan.rejection


@pytest.mark.parametrize("mode", ["plan", "trace"])
def test_a_query_without_a_rule_says_so(opt: Optimizer, mode: Any) -> None:
    assert opt.plan("SELECT * FROM p WHERE x > 3").explain(mode).endswith("-- Not rewritten: no rule matched")
    assert "Not rewritten" not in opt.plan(BAND.format(column="*")).explain(mode)


def test_a_dataframe_or_a_number_in_the_place_of_sql(opt: Optimizer) -> None:
    frame: Any = cast("Any", opt.session.table("p"))
    assert opt.plan(frame).explain()
    number: Any = 3
    more: Any = {"checkpoint": "c", "sink": "t"}
    for call in (opt.sql, lambda text: opt.stream(text, **more), lambda text: opt.materialize(text, "v", state="s")):
        with pytest.raises(
            TypeError, match=r"takes SQL as a string, not a DataFrame; opt.dataframe\(df\) and opt.plan"
        ):
            call(frame)
        with pytest.raises(TypeError, match="takes SQL as a string, not an int; pass the text"):
            call(number)
    with pytest.raises(TypeError, match=r"opt\.plan takes SQL as a string, or a DataFrame, not an int"):
        opt.plan(number)
    with pytest.raises(TypeError, match="for the view v, takes SQL as a string, not a DataFrame"):
        opt.materialize_all({"v": frame}, state="s")


def test_a_path_in_the_place_of_a_table(opt: Optimizer) -> None:
    for call in (
        lambda: opt.stream("SELECT 1", checkpoint="c", sink="out/"),
        lambda: opt.materialize("SELECT 1", "v", state="s", sink="out/"),
        lambda: opt.materialize_all({"v": "SELECT 1"}, state="s", sinks={"v": "out/"}),
    ):
        with pytest.raises(OptionError, match=r"a string names a table; for files write Sink\('parquet', 'out/'\)"):
            call()


def test_an_unknown_option_names_the_nearest() -> None:
    with pytest.raises(OptionError, match="There is no option 'forse'; did you mean 'force'"):
        Options(forse=True)  # type: ignore[call-arg]
    with pytest.raises(OptionError, match="There is no option 'strict_hint'; did you mean 'strict_hints'"):
        Options.from_mapping({"strict_hint": "true"})


def test_frames_that_are_no_sql(opt: Optimizer) -> None:
    frame: DataFrame = opt.session.table("p")
    with pytest.raises(TypeError, match="A DataFrame is needed, not a str"):
        opt.dataframe("SELECT 1")  # type: ignore[arg-type]
    assert opt.dataframe(frame) is frame


def test_a_sink_that_rules_out_state_modules_is_a_warning(
    opt: Optimizer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "dovetail")
    for name in "st":
        Feed(opt.session, tmp_path / name, name, delay=5).add([(1, 1, 1_000)])
    query = "SELECT a.id, b.id AS other FROM s a JOIN t b ON a.ts BETWEEN b.ts AND b.ts + INTERVAL 3 SECONDS"
    with pytest.raises(OptionError, match="Spark knows no format 'delta'"):
        opt.stream(query, checkpoint=tmp_path / "c", sink=Sink("delta", tmp_path / "out"))
    (warning,) = (record for record in caplog.records if record.levelname == "WARNING")
    assert warning.name == "dovetail.stream"
    assert warning.getMessage().startswith(
        "Spark's own stream-stream join runs: a sink of the format delta is written by Spark alone. State modules "
        "write, in append mode: Sink with csv, json, orc, parquet or text and a path; "
    )
