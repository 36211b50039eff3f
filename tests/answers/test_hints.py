"""Hints on Spark: a join over bins runs as the hint asks, and returns what plain Spark returns."""

from __future__ import annotations

import logging
import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from dovetail import Optimizer, Options
from dovetail.optimizer.cli.main import app
from sessions import for_few_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORCE = Options(force=True, strict=True)
JOINS = {"BROADCAST": "BroadcastHashJoin", "MERGE": "SortMergeJoin", "SHUFFLE_HASH": "ShuffledHashJoin"}


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """A session that broadcasts only what a hint asks for."""
    own = for_few_rows(spark)
    own.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    own.conf.set("spark.sql.ansi.enabled", "true")
    own.conf.set("spark.sql.session.timeZone", "UTC")
    own.sql(
        "SELECT id, id * 7 % 300 AS x, CAST(id AS DOUBLE) / 7 AS f,"
        " date_add(DATE '2026-01-01', CAST(id % 90 AS INT)) AS d, timestamp_seconds(id * 37) AS ts FROM range(200)"
    ).createOrReplaceTempView("p")
    own.sql(
        "SELECT id, id * 5 AS lo, id * 5 + id % 9 - 1 AS hi, id + 0.5D AS f,"
        " date_add(DATE '2026-01-01', CAST(id AS INT)) AS d, timestamp_seconds(id * 60) AS ts FROM range(60)"
    ).createOrReplaceTempView("i")
    return own


def joins(session: SparkSession, text: str) -> list[tuple[str, str]]:
    """The joins that Spark would run, outermost first, each with the side it makes a hash table of."""
    said = session.sql(f"EXPLAIN {text}").collect()[0][0]
    lines = [line for line in said.splitlines() if re.search(r"Join|CartesianProduct", line)]
    kind = re.compile(r"\w+Join\b|CartesianProduct")
    side = re.compile(r"Build(Left|Right)")
    return [(kind.search(x)[0], m[1].lower() if (m := side.search(x)) else "") for x in lines]  # type: ignore[index]


def check_same(session: SparkSession, text: str, options: Options = FORCE) -> str:
    """Assert that a query is rewritten and returns the rows of the original; returns the rewriting."""
    plan = Optimizer(session, options).plan(text)
    assert plan.rewritten, plan.declined
    expected = session.sql(text)
    assert plan.dataframe().schema == expected.schema
    assert Counter(map(str, plan.dataframe().collect())) == Counter(map(str, expected.collect()))
    return plan.sql()


POINT = "FROM p {} i ON p.x BETWEEN i.lo AND i.hi"
DISTANCE = "FROM p {} i ON abs(p.x - i.lo) <= 5"


@pytest.mark.parametrize("hint", list(JOINS))
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("shape", [POINT, DISTANCE])
def test_an_inner_join_runs_as_the_hint_asks(session: SparkSession, hint: Any, side: Any, shape: Any) -> None:
    name = "P" if side == "left" else "`i`"
    text = check_same(
        session, f"SELECT /*+ RANGE_JOIN(i, 10), {hint}({name}) */ p.id, i.id AS j {shape.format('JOIN')}"
    )
    assert joins(session, text) == [(JOINS[hint], "" if hint == "MERGE" else side)]


@pytest.mark.parametrize("hint", list(JOINS))
@pytest.mark.parametrize("kind", ["LEFT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
def test_the_other_side_of_a_join_that_keeps_its_left_one(session: SparkSession, hint: Any, kind: Any) -> None:
    text = check_same(session, f"SELECT /*+ {hint}(i) */ p.id {DISTANCE.format(kind)}")
    assert joins(session, text) == [(JOINS[hint], "" if hint == "MERGE" else "right")]


def test_hints_on_both_sides_are_spark_s_to_weigh(session: SparkSession) -> None:
    text = check_same(session, f"SELECT /*+ MERGE(p), BROADCAST(i) */ p.id {POINT.format('JOIN')}")
    assert joins(session, text) == [("BroadcastHashJoin", "right")]


def test_levels_of_bins_keep_the_names_of_both_sides(session: SparkSession) -> None:
    own = Options(force=True, strict=True, measure_lengths=False)
    text = check_same(session, f"SELECT /*+ SHUFFLE_HASH(p) */ p.id {POINT.format('JOIN')}", own)
    assert text.count("explode") > 1
    assert joins(session, text) == [("ShuffledHashJoin", "left")]


def test_a_kept_side_that_spark_cannot_broadcast_is_said(session: SparkSession) -> None:
    query = f"SELECT /*+ BROADCAST(p) */ p.id {DISTANCE.format('LEFT JOIN')}"
    assert joins(session, check_same(session, query)) == [("SortMergeJoin", "")]
    [warned] = Optimizer(session, FORCE).plan(query).warnings
    assert "makes no hash table of the left side of a left join" in warned.reason


def test_a_nested_loop_that_is_asked_for(session: SparkSession) -> None:
    query = f"SELECT /*+ SHUFFLE_REPLICATE_NL(i) */ p.id {POINT.format('JOIN')}"
    assert not Optimizer(session, FORCE).plan(query).rewritten
    assert joins(session, query) == [("CartesianProduct", "")]


def test_a_hint_in_a_subquery_stays_in_it(session: SparkSession) -> None:
    inner = f"SELECT /*+ BROADCAST(i), RANGE_JOIN(i, 20) */ p.id {POINT.format('JOIN')}"
    text = check_same(session, f"SELECT /*+ MERGE(a) */ a.id FROM ({inner}) a JOIN p b ON a.id = b.id")
    assert joins(session, text) == [("SortMergeJoin", ""), ("BroadcastHashJoin", "right")]


@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        ("p.x BETWEEN i.lo AND i.hi", "JOIN"),
        ("p.x BETWEEN i.lo AND i.hi", "LEFT JOIN"),
        ("abs(p.x - i.lo) <= 5", "FULL JOIN"),
        ("abs(p.f - i.f) <= 0.25", "JOIN"),
        ("p.d BETWEEN i.d AND i.d + 3", "LEFT JOIN"),
        ("p.ts BETWEEN i.ts AND i.ts + INTERVAL 2 MINUTES", "RIGHT JOIN"),
        ("p.ts >= i.ts AND p.ts < i.ts + INTERVAL 1 HOUR", "JOIN"),
    ],
)
@pytest.mark.parametrize("width", ["1e-12", "0.3", "3600", "1e29"])
def test_any_width_returns_the_same_rows(session: SparkSession, condition: Any, kind: Any, width: Any) -> None:
    check_same(session, f"SELECT /*+ RANGE_JOIN(i, {width}) */ p.id, i.id AS j FROM p {kind} i ON {condition}")


def test_warnings_are_logged_when_a_query_runs(session: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    opt = Optimizer(session, FORCE)
    with caplog.at_level(logging.WARNING, "dovetail"):
        rows = opt.sql(f"SELECT /*+ RANGE_JOIN(i, 0) */ p.id {POINT.format('JOIN')}").collect()
        opt.sql("SELECT /*+ RANGE_JOIN(t, 60) */ * FROM {t} t", t=session.range(1))
    assert rows
    said = [r.getMessage() for r in caplog.records]
    assert said[0].startswith("RANGE_JOIN(i, 0) is not RANGE_JOIN(relation, width), the width a number above zero")
    assert said[0].endswith("(line 1, column 12)")
    assert said[1] == "RANGE_JOIN(t, 60): no join of t in this SELECT has a band to cut into bins (line 1, column 12)"


@pytest.mark.parametrize("command", [["run"], ["rewrite"], ["explain", "--mode", "sql"], ["explain", "--mode", "cost"]])
def test_the_command_line_says_warnings_beside_the_answer(spark: SparkSession, command: Any) -> None:
    done = CliRunner().invoke(app, [*command, "--sql", "SELECT /*+ BROADCAST(z) */ p.id FROM range(3) p"])
    assert done.exit_code == 0
    assert "BROADCAST(z): this SELECT" not in done.stdout
    assert "warning: BROADCAST(z): this SELECT has no relation z; possible: p (line 1, column 22)\n" in done.stderr


def test_the_command_line_says_a_warning_once(spark: SparkSession) -> None:
    done = CliRunner().invoke(app, ["explain", "--sql", "SELECT /*+ BROADCAST(z) */ p.id FROM range(3) p"])
    assert "-- warning: BROADCAST(z): this SELECT has no relation z" in done.stdout
    assert "warning" not in done.stderr


@pytest.mark.parametrize(
    ("left", "hint"),
    [("i a, i b", None), ("(i a CROSS JOIN i b)", None), ("i b", "b"), ("(SELECT * FROM i) b", "b")],
)
@pytest.mark.parametrize("options", [Options(hash_build_bytes=0, hash_join_bytes=0), Options(hash_join_bytes=2**60)])
def test_a_side_that_is_a_join_has_no_name_for_a_hint(
    session: SparkSession, left: str, hint: str | None, options: Options
) -> None:
    options = replace(options, nested_loop_pairs=0, broadcast_pairs=0, key_pairs_per_row=0, hash_from_bytes=0)
    query = f"SELECT b.id, p.x FROM {left} RIGHT JOIN p ON abs(b.lo - p.x) <= 2 AND b.id % 7 = p.id % 7"
    plan = Optimizer(session, options).plan(query)
    assert plan.rewritten, plan.explain()
    assert re.findall(r"/\*\+ \w+\((\w+)\) \*/", plan.sql()) == ([hint] if hint else [])
    assert Counter(session.sql(plan.sql()).collect()) == Counter(session.sql(query).collect())
