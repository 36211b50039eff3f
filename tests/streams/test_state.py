"""What is kept beside the checkpoint of a join of streams: for how long, across crashes, and for which query."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from dovetail import Optimizer, OptionError, QueryError, Sink, StateError
from dovetail.executor.state.folder import LocalFolder
from dovetail.executor.state.segments import Segments
from dovetail.executor.state.store import Store
from dovetail.planner.state.manifest import read_manifest
from stream_feeds import Feed, Interrupted, interrupting, newest, out_of_order, run, written

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame

    from stream_feeds import Row

BAND = "a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL 3 SECONDS AND b.ts + INTERVAL 2 SECONDS"
SELF = f"SELECT a.id, b.id AS bid FROM s a JOIN s b ON {BAND} AND a.id < b.id"


def some(seed: int, epoch: int, size: int = 20) -> Sequence[Row]:
    return out_of_order(seed, epoch, size)


def test_rows_leave_the_state_when_they_can_match_no_more(opt: Optimizer, tmp_path: Path) -> None:
    feed = Feed(opt.session, tmp_path / "s", "s", delay=5)
    for epoch in range(7):
        feed.add(some(1, epoch))
    run(opt, SELF, tmp_path)
    state = newest(tmp_path).inputs[0]
    assert state.read == 140
    assert 0 < state.rows <= 40  # of two epochs: five seconds of delay, three of the band, and what is of one segment
    assert len(state.segments) <= 2
    folders = {s.folder.split("/")[0] for s in state.segments}
    there = {p.name for p in (tmp_path / "checkpoint" / "dovetail").iterdir() if p.is_dir()}
    assert folders <= there
    assert len(there - folders) <= 1  # what the last epoch needed last goes when the next has begun


def test_of_a_large_epoch_only_rows_that_can_match_stay(opt: Optimizer, tmp_path: Path) -> None:
    """Two minutes to an epoch, of which eight seconds can match what comes."""
    feed = Feed(opt.session, tmp_path / "s", "s", delay=5)
    times = [epoch * 120_000 + n * 1000 for epoch in range(3) for n in range(120)]
    for epoch in range(3):
        feed.add([(n, n % 3, times[n]) for n in range(epoch * 120, epoch * 120 + 120)])
    found = run(opt, SELF, tmp_path)
    state = newest(tmp_path).inputs[0]
    assert (state.read, state.rows) == (360, 8)
    assert len(state.segments) == 1
    pairs = [(n, m) for n in range(360) for m in range(n + 1, n + 4) if m < 360 and n % 3 == m % 3]
    assert found == Counter(pairs)


def test_the_last_microsecond_counts(opt: Optimizer, tmp_path: Path) -> None:
    """b at 10 s can match a up to 12 s: it stays until the watermark is there, as rows at the watermark are late.

    Then it is half of its segment, which is written anew without it.
    """
    left, right = Feed(opt.session, tmp_path / "s", "s", delay=0), Feed(opt.session, tmp_path / "t", "t", delay=0)
    query = f"SELECT a.id, b.id AS bid FROM s a JOIN t b ON {BAND}"
    kept = []
    for time in (11_999, 12_000):
        left.add([(1, 1, time)])
        right.add([(2, 1, 10_000), (3, 1, time)] if time < 12_000 else [(4, 1, time)])
        run(opt, query, tmp_path)
        state = newest(tmp_path)
        kept.append([tuple(s.rows for s in i.segments) for i in state.inputs])
        assert state.watermark == 1_704_067_200_000 + time
    assert kept == [[(1,), (2,)], [(1, 1), (1, 1)]]
    left.add([(5, 1, 30_000)])
    right.add([(6, 1, 30_000)])
    run(opt, query, tmp_path)
    assert [i.rows for i in newest(tmp_path).inputs] == [1, 1]


def test_segments_are_merged(opt: Optimizer, tmp_path: Path) -> None:
    feed = Feed(opt.session, tmp_path / "s", "s")
    for epoch in range(9):
        feed.add(some(2, epoch, 5))
    found = run(opt, SELF, tmp_path)
    state = newest(tmp_path).inputs[0]
    assert [s.tier for s in state.segments] == [1, 0]
    assert state.rows == state.read == 45
    feed.table()
    expected = opt.session.sql(SELF.replace(" s ", " s_table "))
    assert sum(found.values()) == expected.count() > 10


def test_state_ttl(opt: Optimizer, tmp_path: Path) -> None:
    feed = Feed(opt.session, tmp_path / "s", "s")
    for epoch in range(2):
        feed.add(some(3, epoch))
    run(opt, SELF, tmp_path, state_ttl=1e-3)
    state = newest(tmp_path).inputs[0]
    assert (state.rows, state.read) == (20, 40)
    Feed(opt.session, tmp_path / "t", "t", delay=5)
    with pytest.raises(OptionError, match="state_ttl would lose rows of this left join"):
        run(opt, f"SELECT a.id FROM t a LEFT JOIN t b ON {BAND}", tmp_path / "left", state_ttl=1)
    with pytest.raises(OptionError, match="state_ttl is for joins on state modules; state_modules=False requests it"):
        run(opt, SELF, tmp_path / "spark", state_ttl=1, state_modules=False)


def test_without_an_end_there_is_a_warning(opt: Optimizer, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    feed = Feed(opt.session, tmp_path / "s", "s")
    for epoch in range(3):
        feed.add(some(3, epoch))
    run(opt, SELF, tmp_path)
    assert [f"{rows} rows of them from epoch {n}" in caplog.text for n, rows in enumerate((20, 20, 20))] == [1, 1, 0]
    assert "no row of s ever leaves the state, which has s: 40 rows, " in caplog.text
    caplog.clear()
    Feed(opt.session, tmp_path / "t", "t", delay=5).add(some(3, 0))
    run(opt, SELF.replace(" s ", " t "), tmp_path / "other")
    assert not caplog.text


@pytest.mark.parametrize(("first", "delay", "rewritten"), [(1, 5, False), (2, 0, True)])
def test_an_epoch_that_is_cut_off_anywhere_is_done_again(
    opt: Optimizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int, delay: int, *, rewritten: bool
) -> None:
    """Each attempt ends two writes further than the one before, in whatever epoch that is.

    With the shorter delay most of a segment has had its time at the end of its own epoch, and it is written anew.
    """
    feed = Feed(opt.session, tmp_path / "s", "s", delay)
    left = interrupting(monkeypatch)
    merges = []
    whole = Segments.merge

    def merge(*given: Any) -> Any:
        merges.append(1)
        return whole(*given)

    monkeypatch.setattr(Segments, "merge", merge)
    interrupted, attempts = 0, range(first, 15, 2)
    for attempt in attempts:
        feed.add(some(4, attempt, 8))
        left[0] = attempt
        try:
            run(opt, SELF, tmp_path)
        except (StreamingQueryException, Interrupted):
            interrupted += 1
        left[0] = 0
    assert interrupted > 4
    found = run(opt, SELF, tmp_path)
    quiet = Feed(opt.session, tmp_path / "quiet", "quiet", delay)
    for attempt in attempts:
        quiet.add(some(4, attempt, 8))
    assert found == run(opt, SELF.replace(" s ", " quiet "), tmp_path / "other")
    assert sum(found.values()) > 15
    one, other = (newest(folder).inputs[0] for folder in (tmp_path, tmp_path / "other"))
    assert (one.read, one.late, one.rows) == (other.read, other.late, other.rows)
    assert (len(merges) > 5) == rewritten


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"query": SELF.replace("3 SECONDS", "4 SECONDS")}, "belongs to another query: SELECT a.id"),
        (
            {"setting": ("session.timeZone", "Europe/Berlin")},
            "was written under other settings: .*timeZone was UTC and is Europe/Berlin; restore them",
        ),
        (
            {"setting": ("ansi.doubleQuotedIdentifiers", "true")},
            "was written under other settings: .*doubleQuotedIdentifiers was false and is true; restore them",
        ),
        ({"schema": "id INT, k BIGINT, ts TIMESTAMP"}, "belongs to another schema: .*k int.*; now .*k bigint"),
        (
            {"delay": 9},
            r"other watermarks \(s: ts 5 s, and now ts 9 s\)\. .* Restore the watermarks, or give this query",
        ),
        ({"aggregate": "SELECT k, count(*) AS n FROM s GROUP BY k"}, "this query does not run on them"),
    ],
)
def test_the_state_of_another_query(opt: Optimizer, tmp_path: Path, change: dict[str, Any], said: str) -> None:
    Feed(opt.session, tmp_path / "s", "s", delay=5).add(some(5, 0))
    run(opt, SELF, tmp_path)
    if "setting" in change:
        name, value = change["setting"]
        opt.session.conf.set(f"spark.sql.{name}", value)
    if "schema" in change:
        stream = opt.session.readStream.schema(change["schema"]).json(str(tmp_path / "s"))
        stream.withWatermark("ts", "5 seconds").createOrReplaceTempView("s")
    if "delay" in change:
        Feed(opt.session, tmp_path / "s", "s", delay=change["delay"])
    with pytest.raises(StateError, match=said):
        run(opt, change.get("query") or change.get("aggregate") or SELF, tmp_path)


def test_what_is_damaged_is_named(opt: Optimizer, tmp_path: Path) -> None:
    feed = Feed(opt.session, tmp_path / "s", "s", delay=5)
    feed.add(some(6, 0))
    feed.add(some(6, 1))
    run(opt, SELF, tmp_path)
    folder = tmp_path / "checkpoint" / "dovetail"
    manifest = folder / "epoch-000000000001.json"
    segment = next(folder.glob("rows-000000000001-*/input=0/*.parquet"))

    def refused(said: str) -> None:
        with pytest.raises((StateError, StreamingQueryException), match=said):
            run(opt, SELF, tmp_path)

    data = segment.read_bytes()
    segment.write_bytes(data[:-1])
    segment.with_name(f".{segment.name}.crc").unlink()
    refused(rf"{segment.name} is damaged: it has {len(data) - 1} bytes, and had {len(data)}")
    segment.unlink()
    refused(f"{segment.name} is missing")
    segment.write_bytes(data)
    text = manifest.read_text()
    manifest.write_text(text.replace('"rows": 2', '"rows": 3'))
    refused("epoch-000000000001.json is damaged.*; restore the whole checkpoint and the sink from copies of one moment")
    manifest.unlink()
    feed.add(some(6, 2))
    refused("epoch-000000000001.json is missing")
    manifest.write_text(text)
    assert sum(run(opt, SELF, tmp_path).values()) > 10
    (folder / "query.json").write_text(json.dumps({"format": 99}))
    refused(
        "has format 99, and this version of Dovetail, .*, reads and writes format 2; install the version that wrote"
    )
    (folder / "query.json").unlink()
    refused("query.json is missing")


def test_a_manifest_comes_back_as_it_was(opt: Optimizer, tmp_path: Path) -> None:
    Feed(opt.session, tmp_path / "s", "s", delay=5).add(some(7, 0))
    run(opt, SELF, tmp_path)
    state = newest(tmp_path)
    assert read_manifest(state.to_json(), "it") == state
    assert state.epoch == 0
    assert state.inputs[0].bytes > 0


def test_a_function_sees_every_epoch_and_an_empty_one(opt: Optimizer, tmp_path: Path) -> None:
    seen: dict[int, int] = {}
    columns = set()

    def keep(rows: DataFrame, epoch: int) -> None:
        seen[epoch] = rows.count()
        columns.add(tuple(rows.columns))

    feed = Feed(opt.session, tmp_path / "s", "s", delay=5)
    for rows in ([], some(8, 0), [], some(8, 1)):
        feed.add(rows)
    opt.stream(SELF, checkpoint=tmp_path / "c", sink=keep, trigger="available now").awaitTermination()
    assert sorted(seen) == [0, 1, 2, 3]
    assert (seen[0], seen[2]) == (0, 0)
    assert seen[1] > 0
    assert columns == {("id", "bid")}


def test_memory_table_and_partitioned_files(opt: Optimizer, tmp_path: Path) -> None:
    session = opt.session
    feed = Feed(session, tmp_path / "s", "s", delay=5)
    for epoch in range(2):
        feed.add(some(9, epoch))
    expected = run(opt, SELF, tmp_path)
    more = {"trigger": "available now", "name": "kept"}
    opt.stream(SELF, checkpoint=tmp_path / "m", sink=Sink("memory"), **more).awaitTermination()  # type: ignore[arg-type]
    assert {tuple(row) for row in session.table("kept").collect()} == set(expected)
    session.sql(f"CREATE TABLE pairs (id INT, bid INT) USING orc LOCATION '{tmp_path / 'pairs'}'")
    try:
        opt.stream(SELF, checkpoint=tmp_path / "t", sink="pairs", trigger="available now").awaitTermination()
        assert {tuple(row) for row in session.table("pairs").collect()} == set(expected)
    finally:
        session.sql("DROP TABLE pairs")
    banded = "SELECT a.id FROM s a JOIN s b ON a.ts BETWEEN b.ts - INTERVAL 3 SECONDS AND b.ts"
    full = banded.replace("JOIN", "FULL JOIN")  # which gets no bins, either
    with pytest.raises(QueryError, match=r"missing does not exist.* without equality .* give it files"):
        opt.stream(full, checkpoint=tmp_path / "f", sink="missing")
    try:
        opt.stream(banded, checkpoint=tmp_path / "b", sink="made_by_spark", trigger="available now").awaitTermination()
        assert session.table("made_by_spark").count() > len(expected)
    finally:
        session.sql("DROP TABLE IF EXISTS made_by_spark")
    sink = Sink("json", tmp_path / "by id", partition_by=("id",))
    opt.stream(SELF, checkpoint=tmp_path / "p", sink=sink, trigger="available now").awaitTermination()
    found = session.read.json(str(tmp_path / "by id")).select("id", "bid")
    assert {tuple(row) for row in found.collect()} == set(expected)
    opt.stream(SELF, checkpoint=tmp_path / "n", sink=Sink("noop"), trigger="available now").awaitTermination()
    assert Store(LocalFolder(tmp_path / "n")).manifest(1).inputs[0].read == 40
    assert not written(session, tmp_path / "nothing")
