"""The demo, small."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from dovetail.optimizer import demo
from dovetail.optimizer.cli.main import app
from dovetail.optimizer.commands import demo as command
from dovetail.optimizer.demo import Size, make_data, run_demo

TINY = Size(events=5_000, sessions=1_000, slice_events=1_000, slice_sessions=500)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def done(spark: SparkSession, data: Any) -> Any:
    return run_demo(spark.newSession(), data, TINY)


def by_hand(events: Any, sessions: Any) -> Any:
    """The answer, counted in Python."""
    at = sorted((e.ts, e.kind, e.amount) for e in events)
    times = [ts for ts, _, _ in at]
    count: Counter[Any] = Counter()
    amount: Counter[Any] = Counter()
    for s in sessions:
        for _, kind, spent in at[bisect_left(times, s.start) : bisect_right(times, s.end)]:
            count[s.device, kind] += 1
            amount[s.device, kind] += spent
    return tuple((*key, count[key], Decimal(amount[key])) for key in sorted(count))


def test_both_answers_are_right(spark: SparkSession, done: Any) -> None:
    read = spark.read.parquet
    assert done.agree
    assert done.plan.rewritten
    assert done.plan.rules == ("band_join", "lower_band_join")
    folder = done.data
    whole = by_hand(read(f"{folder}/events").collect(), read(f"{folder}/sessions").collect())
    assert len(whole) > 6
    assert done.whole.rows == whole
    slices = by_hand(read(f"{folder}/events_slice").collect(), read(f"{folder}/sessions_slice").collect())
    assert done.plain.rows == slices


def test_the_data_is_as_large_as_it_says(spark: SparkSession, done: Any) -> None:
    rows = {p.name: spark.read.parquet(str(p)).count() for p in done.data.iterdir() if p.name != "events_few"}
    assert rows == {"events": 5_000, "sessions": 1_000, "events_slice": 1_000, "sessions_slice": 500}


def test_sessions_are_seconds_to_hours_long(spark: SparkSession, done: Any) -> None:
    sessions = spark.read.parquet(f"{done.data}/sessions")
    lengths = sessions.selectExpr("unix_micros(end) - unix_micros(start) AS length")
    shortest, longest = lengths.selectExpr("min(length) / 1e6", "max(length) / 1e6").collect()[0]
    assert 5 <= shortest < 10
    assert 6_000 < longest <= 7_200


def test_data_is_made_once_and_alike(spark: SparkSession, data: Any, done: Any, tmp_path: Path) -> None:
    folder, made = make_data(spark, data, TINY)
    assert (folder, made) == (done.data, False)
    again, made = make_data(spark, tmp_path, TINY)
    assert made
    assert again.name == folder.name
    for table in ("events", "sessions", "events_slice", "sessions_slice"):
        old, new = (spark.read.parquet(f"{f}/{table}") for f in (folder, again))
        assert old.exceptAll(new).count() == new.exceptAll(old).count() == 0


def test_half_made_data_is_not_taken(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = demo._write

    def dies(session: SparkSession, folder: Path, size: Any) -> None:
        write(session, folder, size)
        raise KeyboardInterrupt

    small = Size(10, 10, 5, 5)
    monkeypatch.setattr(demo, "_write", dies)
    with pytest.raises(KeyboardInterrupt):
        make_data(spark, tmp_path, small)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(demo, "_write", write)
    (tmp_path / ".making-killed" / "events").mkdir(parents=True)
    folder, made = make_data(spark, tmp_path, small)
    assert made
    assert spark.read.parquet(f"{folder}/events").count() == 10


def test_other_sizes_are_other_data(spark: SparkSession, data: Any, done: Any) -> None:
    folder, made = make_data(spark, data, replace(TINY, events=10, sessions=10, slice_events=5, slice_sessions=5))
    assert made
    assert folder != done.data


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "QUICK", TINY)


def run(*args: Any) -> Any:
    return CliRunner().invoke(app, ["demo", "--quick", *map(str, args)])


def test_the_story(spark: SparkSession, tiny: Any, data: Any, done: Any) -> None:
    said = run("--data", data)
    assert said.exit_code == 0
    assert said.stderr == ""
    for words in ("5,000 events and 1,000 sessions, found", "LevelBandJoin", "recognize / band_join", "explode("):
        assert words in said.stdout
    assert "Both gave the same rows." in said.stdout
    assert "That is an estimate, not a measurement." in " ".join(said.stdout.split())
    assert "1/10 of the whole" in said.stdout
    assert max(map(len, said.stdout.splitlines())) <= 110


def test_as_json(spark: SparkSession, tiny: Any, data: Any, done: Any) -> None:
    said = json.loads(run("--data", data, "--json").stdout)
    assert said["agree"]
    assert said["rewritten"]
    assert [tuple(row) for row in said["answer"]] == [(*row[:3], str(row[3])) for row in done.whole.rows]
    assert said["seconds"]["making the data"] is None


def test_answers_that_differ_are_an_error(
    spark: SparkSession, tiny: Any, data: Any, done: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = replace(done, dovetail=replace(done.dovetail, rows=()))
    monkeypatch.setattr(command, "run_demo", lambda *_: wrong)
    said = run("--data", data)
    assert said.exit_code == 1
    assert "The rows differ!" in said.stdout
    assert "different answers" in said.stderr


def test_data_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = run("--data", tmp_path / "file")
    assert said.exit_code == 2
    assert said.stderr == f"error: --data {tmp_path}/file: file exists\n"
