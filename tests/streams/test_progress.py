"""What the progress of a join on state modules tells of its state, epoch by epoch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.query import StreamingQuery

from dovetail import Optimizer, Sink
from dovetail.planner.state.manifest import Manifest
from stream_feeds import Feed, newest, out_of_order

if TYPE_CHECKING:
    from pathlib import Path

QUERY = """SELECT a.id, b.id AS bid FROM {0}s a JOIN {0}t b
ON a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL 3 SECONDS AND b.ts + INTERVAL 2 SECONDS"""
EPOCHS = 5


def feeds(opt: Optimizer, folder: Path, name: str, delay: int = 2) -> tuple[Feed, Feed]:
    left, right = (Feed(opt.session, folder / f"{name}{n}", f"{name}{n}", delay=delay) for n in "st")
    return left, right


def bring(left: Feed, right: Feed, epoch: int) -> None:
    left.add(out_of_order(7, epoch, 20))
    right.add(out_of_order(8, epoch, 12 if epoch != 3 else 0))


def started(opt: Optimizer, text: str, folder: Path, **more: Any) -> StreamingQuery:
    asked = {"checkpoint": folder / "checkpoint", "sink": Sink("noop"), "trigger": "available now", **more}
    query = opt.stream(text, **asked)
    query.awaitTermination()
    return query


def of_manifest(before: Manifest, after: Manifest) -> list[dict[str, Any]]:
    """What the progress has to say of an epoch, by what is written of it; rows that came and left are in one sum."""
    told = []
    for name, old, new in zip("st", before.inputs, after.inputs, strict=True):
        times = [s.times for s in new.segments if s.times]
        told.append(
            {
                "input": name,
                "numRowsTotal": sum(s.rows for s in new.segments),
                "change": new.rows - old.rows,
                "numRowsDroppedByWatermark": new.late - old.late,
                "files": sum(len(s.files) for s in new.segments),
                "segments": len(new.segments),
                "rowsRead": new.read - old.read,
                "rowsReadInAll": new.read,
                "rowsLateInAll": new.late,
                "oldestMicros": min((t[0] for t in times), default=None),
                "newestMicros": max((t[1] for t in times), default=None),
            }
        )
    return told


def flat(operators: list[Any]) -> list[dict[str, Any]]:
    return [
        {
            "input": o.operatorName[-1],
            "numRowsTotal": o.numRowsTotal,
            "change": o.numRowsUpdated - o.numRowsRemoved,
            "numRowsDroppedByWatermark": o.numRowsDroppedByWatermark,
            **{name: o.customMetrics.get(name) for name in ("oldestMicros", "newestMicros")},
            **{name: value for name, value in o.customMetrics.items() if name not in ("bytes", "answerMs")},
        }
        for o in operators
    ]


def test_each_epoch_tells_of_its_own_state(opt: Optimizer, tmp_path: Path) -> None:
    """A stream that is run epoch by epoch, with a manifest to read after each, and the same stream in one run."""
    left, right = feeds(opt, tmp_path, "slow", delay=0)
    before, expected = Manifest(-1, ()), []
    for epoch in range(EPOCHS):
        bring(left, right, epoch)
        progress = started(opt, QUERY.format("slow"), tmp_path / "slow").lastProgress
        after = newest(tmp_path / "slow")
        if epoch == 0:
            before = Manifest(-1, tuple(type(i)() for i in after.inputs))
        assert progress is not None
        assert progress.batchId == after.epoch == epoch
        expected.append(of_manifest(before, after))
        assert flat(progress.stateOperators) == expected[-1]
        assert [o.customMetrics["bytes"] for o in progress.stateOperators] == [i.bytes for i in after.inputs]
        before = after
    assert len({one["numRowsTotal"] for said in expected for one in said}) > 4
    assert any(one["numRowsDroppedByWatermark"] for said in expected for one in said)

    left, right = feeds(opt, tmp_path, "fast", delay=0)
    for epoch in range(EPOCHS):
        bring(left, right, epoch)
    query = started(opt, QUERY.format("fast"), tmp_path / "fast")
    assert {p.batchId: flat(p.stateOperators) for p in query.recentProgress} == dict(enumerate(expected))
    assert len(list((tmp_path / "fast" / "checkpoint" / "dovetail").glob("epoch-*.json"))) < EPOCHS
    assert query.lastProgress == query.recentProgress[-1]


def test_rows_that_come_and_rows_that_leave(opt: Optimizer, tmp_path: Path) -> None:
    """Of the first epoch's rows all leave by the end of the second; a row without a key is not even read."""
    left, right = feeds(opt, tmp_path, "")
    left.add([(1, 1, 0), (2, 1, 1_000), (3, None, 2_000)])
    right.add([(1, 1, 0)])
    left.add([(4, 1, 100_000), (5, 2, 0)])
    right.add([(2, 1, 100_000), (3, 1, 100_000)])
    first, second = started(opt, QUERY.format(""), tmp_path).recentProgress
    assert [o.operatorName for o in first.stateOperators] == ["arrangement of s", "arrangement of t"]
    counts = [
        [(o.numRowsTotal, o.numRowsUpdated, o.numRowsRemoved, o.numRowsDroppedByWatermark) for o in p.stateOperators]
        for p in (first, second)
    ]
    assert counts == [[(2, 2, 0, 0), (1, 1, 0, 0)], [(1, 2, 3, 0), (2, 2, 1, 0)]]
    assert [o.customMetrics["rowsRead"] for o in first.stateOperators] == [2, 1]


def test_it_is_a_streaming_query_and_its_progress_is_spark_s(opt: Optimizer, tmp_path: Path) -> None:
    left, right = feeds(opt, tmp_path, "")
    bring(left, right, 0)
    query = opt.stream(QUERY.format(""), checkpoint=tmp_path / "checkpoint", sink=Sink("noop"), name="told")
    try:
        query.processAllAvailable()
        assert isinstance(query, StreamingQuery)
        assert query.isActive
        assert query.name == "told"
        assert [q.id for q in opt.session.streams.active] == [query.id]
        progress = query.lastProgress
        assert progress is not None
        assert progress["id"] == query.id
        assert progress.numInputRows == 32
        assert (
            json.loads(progress.json)["stateOperators"]
            == progress.stateOperators
            == json.loads(str(progress))["stateOperators"]
        )
    finally:
        query.stop()
    assert query.exception() is None


def test_as_many_epochs_are_remembered_as_spark_tells_of(opt: Optimizer, tmp_path: Path) -> None:
    opt.session.conf.set("spark.sql.streaming.numRecentProgressUpdates", "3")
    left, right = feeds(opt, tmp_path, "")
    for epoch in range(4):
        bring(left, right, epoch)
    query = started(opt, QUERY.format(""), tmp_path)
    assert [(p.batchId, len(p.stateOperators)) for p in query.recentProgress] == [
        (2, 2),
        (3, 2),
    ]  # Spark keeps one less
    assert sorted(query._epochs._epochs) == [1, 2, 3]  # type: ignore[attr-defined]


def test_a_join_of_spark_s_own_tells_of_spark_s_store(opt: Optimizer, tmp_path: Path) -> None:
    left, right = feeds(opt, tmp_path, "")
    bring(left, right, 0)
    progress = started(opt, QUERY.format(""), tmp_path, state_modules=False).lastProgress
    assert progress is not None
    assert [o.operatorName for o in progress.stateOperators] == ["symmetricHashJoin"]
