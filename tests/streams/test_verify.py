"""``verify`` over streams: what has arrived, run epoch by epoch, against the batch over the rows that were not late."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dovetail import Optimizer, Options, QueryError, Sink
from dovetail.optimizer.verification import Verification
from dovetail.planner.state.program import EpochProgram, Probe, Read, Step, Version
from stream_feeds import Feed, out_of_order

BAND = "a.ts BETWEEN b.ts - INTERVAL 3 SECONDS AND b.ts + INTERVAL 2 SECONDS"
SELF = "SELECT a.id, b.id AS bid FROM s a JOIN s b ON a.k = b.k AND a.ts BETWEEN b.ts AND b.ts + INTERVAL 9 SECONDS"
THREE = f"SELECT a.id, b.id AS bid, c.id AS cid FROM s a JOIN t b ON a.k = b.k AND {BAND} JOIN s c ON b.k = c.k"


@pytest.fixture
def feeds(opt: Optimizer, tmp_path: Path) -> list[Feed]:
    found = [Feed(opt.session, tmp_path / name, name, delay=2) for name in "st"]
    for epoch in range(2):
        for seed, feed in enumerate(found):
            odd = [(80, 1, 12_000 * (1 - epoch)), (90, None, 5_000), (95, 1, None)]  # the first of these is late, then
            feed.add([*out_of_order(seed, epoch, 12), *odd])
    return found


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT a.id, b.* FROM s a JOIN t b ON {BAND}",
        f"SELECT * FROM s a LEFT JOIN t b ON a.k = b.k AND {BAND} AND a.id <> b.id",
        f"SELECT a.id, b.id AS bid FROM s a FULL JOIN t b ON {BAND} AND a.k <=> b.k",
        f"SELECT a.id FROM s a LEFT ANTI JOIN t b ON a.k = b.k AND {BAND}",
        SELF,
        THREE,
        f"WITH x AS (SELECT id, k, ts FROM s WHERE id > 3) SELECT a.id, b.id AS bid FROM x a JOIN t b ON {BAND}",
    ],
)
def test_the_same_rows(opt: Optimizer, feeds: list[Feed], query: str) -> None:
    found = opt.verify(query)
    assert found.rewritten
    assert found.same
    assert found.rows > 3
    assert found.late > 0
    assert {t.name for t in opt.session.catalog.listTables()} == {"s", "t"}
    assert str(found) == f"same: {found.rows:,} rows both ways, without {found.late:,} late ones"


def test_pairs_that_are_found_twice(opt: Optimizer, feeds: list[Feed], monkeypatch: pytest.MonkeyPatch) -> None:
    statement = f"SELECT a.id, b.id AS bid FROM s a JOIN t b ON {BAND}"
    plan = opt.stream_plan(statement)
    assert plan.join is not None
    first, second = plan.join.program.steps
    assert isinstance(second.flow, Probe)
    whole = replace(second.flow, left=Read(Version.ALL, 0))
    again = Step(whole, second.sql.replace("__dt_prev_1", "__dt_curr_1"))
    wrong = replace(plan, join=replace(plan.join, program=EpochProgram((first, again))))
    monkeypatch.setattr("dovetail.optimizer.api.plan_on_session", lambda *_: wrong)
    found = opt.verify(statement)
    assert not found.same
    assert (found.missing, found.extra > 0) == (0, True)
    assert str(found).startswith("different: 0 rows missing")


def test_spark_s_own_join_over_bins(opt: Optimizer, feeds: list[Feed]) -> None:
    found = opt.verify(f"SELECT a.k, count(*) AS n FROM s a JOIN t b ON {BAND} GROUP BY a.k")
    assert found == Verification(True, 4, 0, 0, True)


def test_a_stream_beside_a_table(opt: Optimizer, feeds: list[Feed]) -> None:
    rows = [(n, n * 9, n * 9 + 12) for n in range(5)]
    opt.session.createDataFrame(rows, "z INT, lo INT, hi INT").createOrReplaceTempView("zones")
    found = Optimizer(opt.session, Options(force=True)).verify(
        "SELECT a.id, z.z FROM s a JOIN zones z ON a.id BETWEEN z.lo AND z.hi"
    )
    assert found.rewritten
    assert found.same
    assert found.rows > 20


def test_what_spark_runs_as_written(opt: Optimizer, feeds: list[Feed]) -> None:
    assert opt.verify("SELECT a.id FROM s a JOIN t b ON a.k = b.k") == Verification(True, 0, 0, 0, False)
    assert opt.verify("SELECT id FROM s") == Verification(True, 0, 0, 0, False)
    asked = opt.verify("SELECT a.id FROM s a JOIN t b ON a.k = b.k", state_modules=True)
    assert asked.rewritten
    assert asked.same


def test_columns_that_files_cannot_hold(opt: Optimizer, feeds: list[Feed], tmp_path: Path) -> None:
    more = "SELECT *, make_interval(id) AS wait, named_struct('A', id, 'a', k) AS both FROM s"
    opt.session.sql(more).createOrReplaceTempView("odd")
    assert opt.verify(f"SELECT a.id, b.id AS bid FROM odd a JOIN t b ON {BAND}").same
    with pytest.raises(QueryError, match="files cannot hold the column gap interval"):
        opt.verify(f"SELECT a.id, make_interval(b.id) AS gap FROM odd a JOIN t b ON {BAND}")
    for column in "wait", "both":
        query, place = f"SELECT a.id, a.{column} FROM odd a JOIN t b ON {BAND}", tmp_path / column
        sink = Sink("memory")
        opt.stream(query, checkpoint=place, sink=sink, trigger="available now", name=column).awaitTermination()
        assert opt.session.table(column).count() > 10
        assert (place / "dovetail" / "bins.json").exists()


def test_streams_without_rows(opt: Optimizer, tmp_path: Path) -> None:
    for name in "st":
        Feed(opt.session, tmp_path / name, name, delay=2)
    assert opt.verify(f"SELECT a.id FROM s a LEFT JOIN t b ON {BAND}") == Verification(True, 0, 0, 0, True)


def test_a_folder_for_the_rows(opt: Optimizer, feeds: list[Feed], tmp_path: Path) -> None:
    place = tmp_path / "scratch"
    assert opt.verify(SELF, scratch=place).same
    assert not place.exists()
    place.mkdir()
    (place / "mine").write_text("")
    with pytest.raises(QueryError, match="scratch is not empty"):
        opt.verify(SELF, scratch=place)
    assert (place / "mine").exists()
