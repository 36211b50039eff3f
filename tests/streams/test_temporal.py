"""Joins with the versions of a stream: each row meets the version valid at its time, as it would in a batch."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.errors import StreamingQueryException

from dovetail import Optimizer, OptionError, QueryError, Sink, StateError
from dovetail.executor.state.segments import Segments
from dovetail.planner.state import compaction
from stream_feeds import FEW, START, Feed, Interrupted, Model, arrivals, interrupting, newest, run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from stream_feeds import Row

ITEMS = "p.id, p.k, unix_millis(p.ts) AS at, v.id AS vid, unix_millis(v.ts) AS since"
ALONE = "p.id, p.k, unix_millis(p.ts) AS at"
KINDS = {"": ITEMS, "LEFT": ITEMS, "LEFT SEMI": ALONE, "LEFT ANTI": ALONE}
LAST = 3_000_000


def query(kind: str, more: str = "") -> str:
    return f"SELECT {KINDS[kind]} FROM p {kind} JOIN v FOR SYSTEM_TIME AS OF p.ts AS v ON p.k = v.k{more}"


def version(k: int | None, time: int | None) -> Row:
    """A version of a key: those of one key and one time are the same in all columns."""
    return (7 * (k or 0) + (time or 0) // 1000) % 5, k, time


def declared(session: SparkSession, folder: Path, delays: tuple[int, int]) -> tuple[Optimizer, list[Feed]]:
    """An optimizer with the streams ``p`` and ``v``; the latter has versions."""
    opt = Optimizer(session)
    feeds = [Feed(session, folder / name, name, delay) for name, delay in zip("pv", delays, strict=True)]
    opt.declare_versions("v", ["k"], "ts")
    return opt, feeds


def at(time: int | None) -> int | None:
    return None if time is None else time + START


def expected(rows: Sequence[Row], versions: Sequence[Row], kind: str, least: int) -> Counter[tuple[int | None, ...]]:
    """What a batch returns whose further condition is ``v.id >= least``."""
    found: Counter[tuple[int | None, ...]] = Counter()
    for row in rows:
        _, k, time = row
        valid = [v for v in versions if None not in (k, time, v[2]) and v[1] == k and (v[2] or 0) <= (time or 0)]
        match = max(valid, key=lambda v: v[2] or 0, default=None)
        if match and match[0] < least:
            match = None
        alone = (row[0], k, at(time))
        if kind in ("", "LEFT") and (match or kind):
            found[(*alone, match and match[0], match and at(match[2]))] += 1
        elif (kind == "LEFT SEMI" and match) or (kind == "LEFT ANTI" and not match):
            found[alone] += 1
    return found


def many(seed: int) -> list[list[list[Row]]]:
    """Two streams in which all is there: late rows, duplicates, NULLs, equal times, an epoch without rows."""
    random = Random(seed)

    def row(epoch: int) -> Row:
        time = epoch * 8000 + random.randrange(-9, 12) * 1000
        return random.randrange(6), random.choice([0, 1, 1, 2, None]), max(0, time) if random.random() > 0.1 else None

    return [[[row(n) for _ in range(0 if n == 1 + side else 14)] for n in range(3)] for side in range(2)]


@pytest.mark.parametrize("kind", ["", "LEFT", "LEFT ANTI"])
def test_the_version_that_was_valid(spark: SparkSession, kind: str) -> None:
    """All rows become final, since time goes on in the end."""
    session = spark.newSession()

    @settings(FEW)
    @example(many(3), (0, 3), 1)
    @given(arrivals(2), st.sampled_from([(2, 2), (0, 5), (5, 0)]), st.sampled_from([0, 2]))
    def check(streams: list[list[list[Row]]], delays: tuple[int, int], least: int) -> None:
        streams[1] = [[version(k, time) for _, k, time in rows] for rows in streams[1]]
        streams = [[*epochs, [(90, 98, LAST)]] for epochs in streams]
        with tempfile.TemporaryDirectory() as scratch:
            opt, feeds = declared(session, Path(scratch), delays)
            for feed, epochs in zip(feeds, streams, strict=True):
                for rows in epochs:
                    feed.add(rows)
            found = run(opt, query(kind, f" AND v.id >= {least}"), Path(scratch), state_modules=None)

        def ticks(row: Row, side: int) -> bool:
            return row[1] is not None or (side == 0 and kind in ("LEFT", "LEFT ANTI"))

        model = Model(lambda p, v: True, (delays[0] * 1000, delays[1] * 1000), ticks=ticks)
        rows, versions = model.on_time(*streams)
        assert found == expected([r for r in rows if r[2] != LAST], versions, kind, least)

    check()


def fed(feeds: list[Feed], epochs: Sequence[int]) -> list[list[list[Row]]]:
    """Ten seconds to an epoch on both streams, with some rows that come late or out of order."""
    added: list[list[list[Row]]] = [[], []]
    for epoch in epochs:
        for side, feed in enumerate(feeds):
            random = Random(epoch * 2 + side)
            times = [max(0, epoch * 10_000 + random.randrange(-4, 10) * 1000) for _ in range(9)]
            rows: list[Row] = [(n, random.randrange(3), time) for n, time in enumerate(times)]
            added[side].append([version(k, time) for _, k, time in rows] if side else rows)
            feed.add(added[side][-1])
    return added


def test_cut_off_anywhere_and_done_again(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt ends some writes further than the one before; versions that others have replaced leave."""
    opt, feeds = declared(spark.newSession(), tmp_path, (1, 2))
    left = interrupting(monkeypatch)
    merges = []
    whole = Segments.merge

    def merge(*given: Any) -> Any:
        merges.append(given[2])
        return whole(*given)

    monkeypatch.setattr(Segments, "merge", merge)
    monkeypatch.setattr(compaction, "FAN_IN", 4)
    streams: list[list[list[Row]]] = [[], []]
    interrupted = 0
    for attempt in range(1, 16, 3):
        for side, added in enumerate(fed(feeds, [attempt // 3])):
            streams[side] += added
        left[0] = attempt
        try:
            run(opt, query("LEFT"), tmp_path)
        except (StreamingQueryException, Interrupted):
            interrupted += 1
        left[0] = 0
    assert interrupted > 3
    found = run(opt, query("LEFT"), tmp_path)
    model = Model(lambda p, v: True, (1000, 2000))
    rows, versions = model.on_time(*streams)
    state = newest(tmp_path)
    assert state.watermark is not None
    final = [r for r in rows if r[2] is not None and r[2] + START <= state.watermark]
    assert found == expected(final, versions, "LEFT", 0)
    assert [i.late for i in state.inputs] == [model.late[0], model.late[1]]
    assert model.late[0] > 0 < model.late[1]
    assert {0, 1} <= set(merges)
    assert state.inputs[0].rows <= 9 + len(rows) - len(final)
    assert state.inputs[1].rows < 25 < len(versions) - 10  # all were written anew one epoch before the last


def test_the_faster_watermark(spark: SparkSession, tmp_path: Path) -> None:
    """Payments run ahead: by ``max`` they do not wait for versions, which then come too late."""
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.multipleWatermarkPolicy", "max")
    opt, feeds = declared(session, tmp_path, (0, 0))
    streams: list[list[list[Row]]] = [
        [[(1, 1, 20_000), (2, 1, 30_000)], [(3, 1, 40_000)]],
        [[version(1, 1_000)], [version(1, 10_000), version(1, 35_000)]],
    ]
    for feed, epochs in zip(feeds, streams, strict=True):
        for rows in epochs:
            feed.add(rows)
    wanted = expected([*streams[0][0], *streams[0][1]], [version(1, 1_000), version(1, 35_000)], "LEFT", 0)
    assert run(opt, query("LEFT"), tmp_path) == wanted


@pytest.mark.parametrize(
    "statement",
    [
        """WITH x AS (SELECT id + 1 AS id, k AS key, ts AS t FROM p WHERE id > 0)
        SELECT *, r.*, x.key FROM x LEFT JOIN v FOR SYSTEM_TIME AS OF t AS r(a, b, c) ON r.b = x.key AND r.a > x.id - 2
        WHERE coalesce(r.a, 9) > 1""",
        "SELECT p.id FROM p LEFT SEMI JOIN v FOR SYSTEM_TIME AS OF p.ts ON v.k = p.k AND p.id < 9 WHERE p.k < 2",
    ],
)
def test_the_same_rows_as_a_batch(spark: SparkSession, tmp_path: Path, statement: str) -> None:
    opt, feeds = declared(spark.newSession(), tmp_path, (1, 2))
    fed(feeds, range(2))
    for feed in feeds:
        feed.add([(4, None, 40_000), (4, 1, None), (4, 1, 1_000)])  # the last of them is late
    found = opt.verify(statement)
    assert found.same, found
    assert found.rewritten
    assert found.rows > 3
    assert found.late > 3


@pytest.fixture
def opt(spark: SparkSession, tmp_path: Path) -> Optimizer:
    """The streams, and some that cannot be joined so."""
    session = spark.newSession()
    found, _ = declared(session, tmp_path, (1, 2))
    for name in "qu":
        Feed(session, tmp_path / name, name)
    found.declare_versions("u", ["k"], "ts")
    for name in "cd":
        Feed(session, tmp_path / name, name, 1)
    found.declare_changelog("c", "id")
    found.declare_versions("d", ["k"], "id")
    minutes = session.table("q").selectExpr("id", "k", "window(ts, '1 minute') AS ts")
    minutes.withWatermark("ts", "1 second").createOrReplaceTempView("minutes")
    session.range(3).selectExpr("id", "id AS k", "now() AS ts").createOrReplaceTempView("table_p")
    return found


ON = "v FOR SYSTEM_TIME AS OF p.ts AS v ON p.k = v.k"


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (f"SELECT p.id FROM p RIGHT JOIN {ON}", "a RIGHT JOIN cannot join with versions; write JOIN or LEFT JOIN"),
        (f"SELECT p.id FROM p FULL JOIN {ON}", "a FULL JOIN cannot join with versions"),
        ("SELECT id FROM p JOIN v FOR SYSTEM_TIME AS OF p.ts AS v USING (k)", "a join with USING cannot join"),
        (f"SELECT p.id FROM q AS p JOIN {ON}", "q has no watermark, .* read it with withWatermark"),
        (f"SELECT p.id FROM p JOIN {ON.replace('v FOR', 'u FOR')}", r"u has no watermark, .*withWatermark\('ts', …\)"),
        (f"SELECT p.id FROM p JOIN {ON.replace('v FOR', 'd FOR')}", "the watermark of d is on ts, and .* begin at id"),
        (
            f"SELECT p.id FROM minutes AS p JOIN {ON}",
            "the watermark of minutes is on ts, which is struct<.*no TIMESTAMP",
        ),
        (f"SELECT p.id FROM c AS p JOIN {ON}", "c is a changelog"),
        (f"SELECT p.id FROM table_p AS p JOIN {ON}", "p is no stream"),
        (f"SELECT p.id FROM p JOIN q ON p.id = q.id JOIN {ON}", "it joins more than two relations; join two"),
        (f"SELECT p.id FROM p LEFT JOIN q ON p.id = q.id LEFT JOIN {ON}", "it joins more than two relations"),
        (f"SELECT p.id FROM p JOIN {ON.replace('p.k = v.k', 'p.k < v.k')}", "compare v.k with = in ON"),
        (f"SELECT p.id FROM p JOIN {ON.replace('p.ts', 'p.ts - INTERVAL 1 HOUR')}", "is not the time of p that its"),
        (f"SELECT p.id FROM p JOIN {ON.replace('p.ts', 'PROCTIME()')}", "is not the time of p"),
        (f"SELECT p.id FROM p JOIN {ON.replace('p.ts', 'p.time')}", "p.time: p.time is not a column"),
        (f"SELECT count(*) FROM p JOIN {ON}", "is not computed row by row"),
        (f"SELECT p.k FROM p JOIN {ON} GROUP BY p.k", "Aggregate stands above the join"),
        (f"SELECT a.id FROM (SELECT p.id FROM p JOIN {ON}) a", "it is no join of relations"),
        (f"SELECT * EXCEPT (id) FROM p JOIN {ON}", "is more than all columns"),
    ],
)
def test_what_is_refused(opt: Optimizer, tmp_path: Path, statement: str, said: str) -> None:
    """Spark could not run it, and so it is an error."""
    plan = opt.stream_plan(statement)
    assert plan.join is None
    with pytest.raises(
        QueryError, match=f"^. is a stream of versions, and only state modules join these: .*{said}"
    ) as no:
        opt.stream(statement, checkpoint=tmp_path / "checkpoint", sink=Sink("noop"))
    assert str(no.value) == plan.explain()


def test_what_is_asked_of_it_in_vain(opt: Optimizer, tmp_path: Path) -> None:
    more = {"checkpoint": tmp_path / "checkpoint", "sink": Sink("parquet", tmp_path / "out")}
    statement = query("LEFT")
    with pytest.raises(QueryError, match=r"v is a stream of versions, .*: state_modules=False requests it"):
        opt.stream(statement, state_modules=False, **more)  # type: ignore[arg-type]
    with pytest.raises(QueryError, match=r"v is a stream of versions, .*: the output mode is update"):
        opt.stream(statement, mode="update", **more)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="state_ttl would lose versions that are still valid"):
        opt.stream(statement, state_ttl=9, **more)  # type: ignore[arg-type]
    with pytest.raises(QueryError, match=r"v is a stream of versions, .*: PROCTIME\(\) is not the time of p"):
        opt.verify(statement.replace("AS OF p.ts", "AS OF PROCTIME()"))
    run(opt, statement, tmp_path)
    with pytest.raises(StateError, match=r"belongs to another query: SELECT p\.id"):
        run(opt, query("LEFT SEMI"), tmp_path)
    Feed(opt.session, tmp_path / "v", "v", 2)
    with pytest.raises(QueryError, match="v changed after declare_versions"):
        run(opt, statement, tmp_path)
    opt.declare_versions("v", ["k"], "ts")
    run(opt, statement, tmp_path)
