"""Statements over streams are started, not only analyzed: in micro-batches, and from each other's checkpoints."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from dovetail import Optimizer, Options

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from dovetail import Plan

BAND = "FROM s JOIN t ON s.x BETWEEN t.lo AND t.hi"
TWO = "SELECT s.nr, r.nr AS other FROM s JOIN r ON s.k = r.k AND s.x BETWEEN r.lo AND r.hi"
WITHIN = """WITH j AS (SELECT s.k, s.x, s.nr, r.nr AS other FROM s JOIN r ON s.k = r.k)
SELECT j.nr, other, t.w FROM j JOIN t ON j.x BETWEEN t.lo AND t.hi"""
TWICE = """WITH j AS (SELECT * FROM s)
SELECT j.nr, h.nr AS other FROM j JOIN j h ON j.k = h.k AND j.x BETWEEN h.lo AND h.hi"""
REFUSED = (
    "the statement reads more than one stream, and a rewriting would change Spark's state of them; "
    "opt.stream runs joins of streams"
)


class Streams:
    """The streams `s` and `r` of files, the table `t`, and optimizers over them; `was` has views of the same names, in
    which all files are tables."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.folder = folder
        self.session, self.was = spark.newSession(), spark.newSession()
        for session in (self.session, self.was):
            session.conf.set("spark.sql.shuffle.partitions", "2")
            session.sql(
                "SELECT id AS w, id * 3 AS lo, id * 3 + 4 + 40 * (id % 5) AS hi, id % 3 AS k FROM range(20)"
            ).createOrReplaceTempView("t")
        for name in ("s", "r"):
            (folder / name).mkdir()
            self.stream(name).createOrReplaceTempView(name)
        self.opt = Optimizer(self.session, Options(strict=True))

    def stream(self, name: str) -> DataFrame:
        reader = self.session.readStream.schema("nr INT, k INT, x INT, lo INT, hi INT")
        return reader.option("maxFilesPerTrigger", 1).json(str(self.folder / name))

    def add(self, name: str, number: int) -> None:
        """The next file of a stream."""
        rows = [
            {"nr": nr, "k": nr % 3, "x": nr * 7 % 61 if nr % 11 else None, "lo": nr % 50, "hi": nr % 50 + nr % 9 - 1}
            for nr in range(number * 20, number * 20 + 20)
        ]
        hidden = self.folder / name / f".{number}"
        hidden.write_text("\n".join(map(json.dumps, rows)))
        hidden.rename(self.folder / name / f"{number}.json")

    def answer(self, text: str) -> list[str]:
        """The rows of a query over all files there are, as a batch."""
        for name in ("s", "r"):
            self.was.read.schema("nr INT, k INT, x INT, lo INT, hi INT").json(
                str(self.folder / name)
            ).createOrReplaceTempView(name)
        return sorted(map(str, self.was.sql(text).collect()))

    def rewritten(self, text: str, options: Options | None = None) -> Plan:
        return Optimizer(self.session, options or Options(strict=True)).plan(text)


class Sink:
    """What came out of a query so far: rows, the latest of each first column where they are updated."""

    def __init__(self, mode: str = "append") -> None:
        self.mode, self.batches = mode, 0
        self.found: list[Any] = []

    def take(self, frame: DataFrame, _: int) -> None:
        rows = frame.collect()
        self.batches += 1
        if self.mode == "update":
            new = {row[0] for row in rows}
            self.found = [row for row in self.found if row[0] not in new]
        self.found += rows

    def run(self, frame: DataFrame, checkpoint: Path) -> None:
        writer = frame.writeStream.outputMode(self.mode).option("checkpointLocation", str(checkpoint))
        writer.foreachBatch(self.take).trigger(availableNow=True).start().awaitTermination()

    @property
    def rows(self) -> list[str]:
        return sorted(map(str, self.found))


@pytest.fixture
def streams(spark: SparkSession, tmp_path: Path) -> Streams:
    return Streams(spark, tmp_path)


@pytest.mark.parametrize(
    ("text", "operator", "mode"),
    [
        (f"SELECT s.nr, t.w {BAND}", "LevelBandJoin", "append"),
        ("SELECT s.nr, t.w FROM s LEFT JOIN t ON s.k = t.k AND abs(s.x - t.lo) <= 2", "NeighbourBandJoin", "append"),
        (f"SELECT /*+ RANGE_JOIN(t, 5) */ s.nr, t.w {BAND} AND s.k = t.k WHERE s.nr > 3", "LevelBandJoin", "append"),
        ("SELECT s.nr, t.w FROM s, t WHERE s.x BETWEEN t.lo AND t.hi AND s.k <> t.k", "LevelBandJoin", "append"),
        ("SELECT s.nr, t.w FROM s JOIN t ON abs(s.x - t.lo) <= 2", "NeighbourBandJoin", "append"),
        ("SELECT s.nr, t.w FROM s JOIN t ON s.lo <= t.hi AND t.lo <= s.hi", "OverlapBandJoin", "append"),
        ("SELECT s.nr, t.w FROM s JOIN t ON t.lo BETWEEN s.lo AND s.hi", "LevelBandJoin", "append"),
        ("SELECT s.nr FROM s WHERE EXISTS (SELECT 1 FROM t WHERE abs(s.x - t.lo) <= 2)", "NeighbourBandJoin", "append"),
        (f"WITH j AS (SELECT s.nr, s.k, t.w {BAND}) SELECT k, count(*) AS n FROM j GROUP BY k", "BandJoin", "update"),
        (f"SELECT s.k, max(t.w) AS m, count(*) AS n {BAND} GROUP BY s.k", "LevelBandJoin", "update"),
        (f"SELECT DISTINCT t.w {BAND}", "LevelBandJoin", "update"),
    ],
)
def test_a_stream_beside_tables(streams: Streams, tmp_path: Path, text: str, operator: str, mode: str) -> None:
    plan = streams.opt.plan(text)
    assert plan.rewritten, plan.declined
    assert operator in plan.explain()
    assert "lengths measured" not in plan.explain()
    sink = Sink(mode)
    plain: Callable[[], DataFrame] = lambda: streams.session.sql(text)  # noqa: E731
    ours: Callable[[], DataFrame] = lambda: streams.opt.sql(text)  # noqa: E731
    for number, frame in enumerate((ours, plain, ours)):  # each from the other's checkpoint
        streams.add("s", number)
        sink.run(frame(), tmp_path / "c")
        assert sink.rows == streams.answer(text), number
    assert sink.batches >= 3


@pytest.mark.parametrize(
    "text",
    [
        TWO,
        TWO.replace("SELECT", "SELECT /*+ RANGE_JOIN(r, 20) */"),
        "SELECT s.nr, r.nr AS other FROM s JOIN r ON s.k = r.k AND abs(s.x - r.x) <= 2",
        "SELECT s.nr, r.nr AS other FROM s JOIN r ON s.k = r.k AND s.lo <= r.hi AND r.lo <= s.hi",
        "SELECT s.nr, s2.nr AS other FROM s JOIN s s2 ON s.k = s2.k AND s.x BETWEEN s2.lo AND s2.hi",
        WITHIN,
        TWICE,
    ],
)
def test_two_streams_are_left_to_spark(streams: Streams, text: str) -> None:
    for options in (Options(strict=True), Options(strict=True, force=True)):
        plan = Optimizer(streams.session, options).plan(text)
        assert not plan.rewritten
        assert plan.sql() == text
        assert [d.rule for d in plan.declined if d.reason == REFUSED] == ["band_join"]


def test_a_join_of_streams_goes_on_from_the_checkpoint_of_another_hint(streams: Streams, tmp_path: Path) -> None:
    text = TWO.replace("SELECT", "SELECT /*+ RANGE_JOIN(r, 20) */")
    sink = Sink()
    frames: list[Callable[[str], DataFrame]] = [streams.opt.sql, streams.session.sql, streams.opt.sql]
    for number, frame in enumerate(frames):
        for name in ("s", "r"):
            streams.add(name, number)
        sink.run(frame(text.replace("20", str(20 + 30 * number))), tmp_path / "c")
    assert sink.rows == streams.answer(TWO)


def test_running_sums_are_for_tables(streams: Streams, tmp_path: Path) -> None:
    text = "SELECT s.nr, count(*) AS n FROM s JOIN t ON t.lo BETWEEN s.lo AND s.hi GROUP BY s.nr"
    opt = Optimizer(streams.session, Options(strict=True, force=True))
    plan = opt.plan(text)
    said = [d.reason for d in plan.declined if d.rule == "aggregate_band_join"]
    assert said == ["the statement reads a stream, and this rewriting is for tables"]
    assert "LevelBandJoin" in plan.explain()
    sink = Sink("update")
    for number in range(2):
        streams.add("s", number)
        sink.run(opt.sql(text), tmp_path / "c")
    assert sink.rows == streams.answer(text)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("SELECT x.nr, y.k FROM s x JOIN s y ON x.nr = y.nr", "self_join_elimination"),
        ("SELECT nr FROM s o WHERE x > (SELECT avg(i.x) FROM s i WHERE i.k = o.k)", "self_aggregate"),
        (
            "SELECT (SELECT count(*) FROM s WHERE x > 3) AS a, (SELECT count(*) FROM s WHERE x > 5) AS b",
            "merge_scalar_aggregates",
        ),
    ],
)
def test_rules_for_tables(streams: Streams, text: str, rule: str) -> None:
    """What these make of tables, they do not make of streams."""
    for session, left in ((streams.was, False), (streams.session, True)):
        streams.answer("SELECT 1")
        opt = Optimizer(session, Options(strict=True, force=True))
        opt.declare_key("s", ["nr"])
        plan = opt.plan(text)
        assert plan.rewritten != left, plan.declined
        assert (rule in plan.rules) != left


def test_opt_stream_starts_the_same(streams: Streams, tmp_path: Path) -> None:
    sink: Any = Sink()
    text = f"SELECT s.nr, t.w {BAND}"
    for number in range(2):
        streams.add("s", number)
        query = streams.opt.stream(text, checkpoint=tmp_path / "c", sink=sink.take, trigger="available now")
        query.awaitTermination()
    assert sink.rows == streams.answer(text)
