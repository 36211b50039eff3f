"""Materialized views: after each refresh they hold what the query returns over all rows."""

from __future__ import annotations

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from dovetail import Optimizer, QueryError, Sink, StateError
from dovetail.optimizer.views.materialized_view import MaterializedView
from stream_feeds import Feed, Interrupted, arrive, interrupting

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame


GROUPS = """SELECT a.k, count(*), sum(b.id) AS total, avg(c.id) FROM s a JOIN t b ON a.k = b.k JOIN u c ON b.k = c.k
WHERE a.id <> 3 GROUP BY a.k HAVING count(*) > 2 ORDER BY total DESC"""


RANKED = """WITH x AS (SELECT id, k FROM s WHERE id > 2)
SELECT x.k, b.*, rank() OVER (PARTITION BY x.k ORDER BY b.id) FROM x JOIN t b ON x.k = b.k"""


@pytest.fixture
def feeds(opt: Optimizer, tmp_path: Path) -> list[Feed]:
    return [Feed(opt.session, tmp_path / name, name) for name in "stu"]


def batch(feeds: list[Feed], query: str) -> list[str]:
    for feed in feeds:
        feed.table()
    tables = re.sub(r"\b(FROM|JOIN) ([stu])\b", r"\1 \2_table", query)
    return sorted(map(str, feeds[0].session.sql(tables).collect()))


def shown(view: MaterializedView) -> list[str]:
    return sorted(map(str, view.opt.session.table(view.name).collect()))


@pytest.mark.parametrize(
    "query",
    [
        GROUPS,
        "SELECT DISTINCT a.k, b.id + 1 FROM s a JOIN t b ON a.id BETWEEN b.id AND b.id + 2",
        "SELECT * FROM s a JOIN t b ON a.id = b.id ORDER BY a.ts, b.ts, b.k LIMIT 50",
        "SELECT sum(a.id) AS a FROM s a GROUP BY a.k ORDER BY a",
        "SELECT a.id, b.id AS k FROM s a JOIN t b ON a.k = b.k ORDER BY ifnull(a.ts, b.ts) DESC, b.id, a.id LIMIT 9",
        RANKED,
        "SELECT count(*), max(b.ts), percentile(a.id, 0.5) FROM s a JOIN t b ON a.k = b.k",
        "SELECT k, count(DISTINCT a.id), count_if(ts IS NULL) AS n FROM s AS a GROUP BY ALL",
        "SELECT a.id, other FROM s a JOIN (SELECT k AS key, id AS other FROM t WHERE id > 1) ON a.k = key",
        "SELECT key, count(*) AS n FROM (SELECT k AS key FROM s WHERE id > 1) GROUP BY key",
    ],
)
def test_what_the_query_returns_over_all_rows(opt: Optimizer, feeds: list[Feed], tmp_path: Path, query: str) -> None:
    arrive(feeds, 0)
    view = opt.materialize(query, "kept", state=tmp_path / "state")
    assert shown(view) == batch(feeds, query)
    assert view.table().schema.names == opt.session.sql(query).schema.names
    arrive(feeds, 1)
    assert shown(view.refresh()) == batch(feeds, query)
    assert "__dt_joined" not in {t.name for t in opt.session.catalog.listTables()}


def test_a_later_call_goes_on(opt: Optimizer, feeds: list[Feed], tmp_path: Path) -> None:
    arrive(feeds, 0)
    opt.materialize(GROUPS, "kept", state=tmp_path / "state")
    arrive(feeds, 1)
    again = Optimizer(opt.session).materialize(GROUPS, "kept", state=f"{tmp_path}/state/")
    assert shown(again) == batch(feeds, GROUPS)
    assert len(list((tmp_path / "state" / "checkpoint" / "commits").glob("[0-9]*"))) == 2
    with pytest.raises(StateError, match="belongs to another query"):
        opt.materialize(GROUPS.replace("<> 3", "<> 4"), "other", state=tmp_path / "state")


def test_names_and_hints(opt: Optimizer, feeds: list[Feed], tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="the query reads S; give the view another name"):
        opt.materialize("SELECT k, count(*) FROM s GROUP BY k", "S", state=tmp_path / "state")
    opt.session.sql("CREATE TEMP VIEW waits AS SELECT *, make_interval(id) AS wait FROM s")
    with pytest.raises(QueryError, match="files cannot hold the column c0 interval"):
        opt.materialize("SELECT max(string(wait)) FROM waits", "kept", state=tmp_path / "state")
    args = {"least": 2}
    asked = opt.materialize(GROUPS.replace("> 2", "> :least"), "asked", state=tmp_path / "asked", args=args)
    assert "WHERE __dt_a0 > 2" in asked.explain()
    with pytest.raises(QueryError, match="an argument cannot be written into the query as a literal"):
        opt.materialize(GROUPS.replace("> 2", "> :least[0]"), "asked", state=tmp_path / "lists", args={"least": [2]})
    hinted = GROUPS.replace("SELECT", "SELECT /*+ DELTA_ORDER(c) */", 1)
    said = opt.materialize(hinted, "kept", state=tmp_path / "state").explain()
    assert "new rows of a look up c by k" in said
    assert "DELTA_ORDER" not in said.partition("stored of the joined rows")[2]


def test_padded_texts(opt: Optimizer, tmp_path: Path) -> None:
    """Spark pads what a CHAR column is compared with, and would not once the column is read back from files."""
    opt.session.sql("CREATE TABLE kept_codes (id INT, code CHAR(4)) USING parquet")
    try:
        opt.session.readStream.table("kept_codes").createOrReplaceTempView("codes")
        with pytest.raises(QueryError, match=r"codes\.code is CHAR or VARCHAR"):
            opt.materialize("SELECT count_if(code = 'a') FROM codes", "kept", state=tmp_path / "state")
    finally:
        opt.session.sql("DROP TABLE kept_codes")


def test_before_any_row(opt: Optimizer, feeds: list[Feed], tmp_path: Path) -> None:
    view = opt.materialize(GROUPS, "kept", state=tmp_path / "state")
    assert shown(view) == []
    arrive(feeds, 0)
    assert shown(view.refresh()) == batch(feeds, GROUPS)


def test_verify_recomputes(opt: Optimizer, feeds: list[Feed], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    arrive(feeds, 0)
    view = opt.materialize(GROUPS, "kept", state=tmp_path / "state")
    found = view.verify()
    assert (found.same, found.rows > 1) == (True, True)
    single = opt.materialize("SELECT k, count(*) FROM s GROUP BY k", "single", state=tmp_path / "single")
    with pytest.raises(QueryError, match=r"nothing to verify, .*: it joins no two streams"):
        single.verify()
    assert "state_ttl" not in caplog.text


def test_how_it_is_explained(opt: Optimizer, feeds: list[Feed], tmp_path: Path) -> None:
    rows = (
        "(SELECT c0 AS k, named_struct('k', c0) AS a, named_struct('id', c1) AS b, named_struct('id', c2) AS c "
        "FROM __dt_joined)"
    )
    view = opt.materialize(GROUPS, "kept", state=tmp_path / "state")
    shown = view.explain()
    assert "<h3>Stored of the joined rows</h3>" in view.explain("html")
    assert "new rows of a look up b by k" in shown
    assert shown.partition("stored of the joined rows:\n\n")[2] == (
        "SELECT a.k AS __dt_g0, count(*) AS __dt_p0, count(b.id) AS __dt_p1, "
        "sum(CAST((b.id) AS DECIMAL(38, 0))) AS __dt_p2, count(c.id) AS __dt_p3, "
        "sum(CAST((c.id) AS DECIMAL(38, 0))) AS __dt_p4 "
        f"FROM {rows} GROUP BY a.k\n\nthe view, over what is stored:\n\n"
        "SELECT __dt_g0 AS k, __dt_a0, __dt_a1 AS total, __dt_a2\n"
        "FROM (SELECT __dt_g0, coalesce(sum(__dt_p0), 0) AS __dt_a0, "
        "CASE WHEN sum(__dt_p1) > 0 THEN CAST(sum(__dt_p2) AS BIGINT) END AS __dt_a1, "
        "CASE WHEN sum(__dt_p3) > 0 THEN CAST(sum(__dt_p4) AS DOUBLE) / sum(__dt_p3) END AS __dt_a2 "
        "FROM __dt_joined GROUP BY __dt_g0)\n"
        "WHERE __dt_a0 > 2\nORDER BY total DESC"
    )
    spread = opt.materialize(
        "SELECT stddev(a.id) AS d FROM s a JOIN t b ON a.k = b.k", "kept", state=tmp_path / "rows"
    ).explain()
    assert "the joined rows are stored: stddev(a.id) AS d computes more than count, sum, avg, min and max" in spread
    assert spread.endswith(
        "the view, over the joined rows:\n\nSELECT stddev(__dt_c0) AS d\nFROM (SELECT c0 AS __dt_c0 FROM __dt_joined)"
    )


def test_what_the_last_refresh_changed(opt: Optimizer, feeds: list[Feed], tmp_path: Path) -> None:
    feeds[0].add([(1, 0, None), (2, 1, None)])
    feeds[1].add([(5, 0, None), (6, 1, None)])
    view = opt.materialize(
        "SELECT a.k, sum(b.id) FROM s a JOIN t b ON a.k = b.k GROUP BY a.k", "kept", state=tmp_path / "state"
    )
    assert sorted(map(tuple, view.changes().collect())) == [(0, 5, "insert"), (1, 6, "insert")]
    feeds[1].add([(7, 0, None)])
    view.refresh()
    assert sorted(map(tuple, view.changes().collect())) == [(0, 5, "delete"), (0, 12, "insert")]
    assert view.changes().columns == ["k", "sum(id)", "_change_type"]
    assert view.refresh().changes().count() == 0


def test_threads_that_refresh_one_view_wait_for_one_another(opt: Optimizer, feeds: list[Feed], tmp_path: Path) -> None:
    arrive(feeds, 0)
    query = "SELECT a.k, count(*) AS n FROM s a JOIN t b ON a.k = b.k GROUP BY a.k"
    view = opt.materialize(query, "kept", state=tmp_path / "state")
    for epoch in range(1, 3):
        arrive(feeds, epoch)
        with ThreadPoolExecutor(3) as threads:
            for done in [threads.submit(view.refresh) for _ in range(3)]:
                done.result()
        assert shown(view) == batch(feeds, query)


@pytest.mark.parametrize("total", ["sum(b.id)", "count(DISTINCT b.id)"])
def test_the_row_of_an_aggregate_without_groups_is_new_at_first(
    opt: Optimizer, feeds: list[Feed], tmp_path: Path, total: str
) -> None:
    query = f"SELECT count(*) AS n, {total} AS total FROM s a JOIN t b ON a.k = b.k"
    some, none = Sink("json", tmp_path / "some"), Sink("json", tmp_path / "none")
    nothing = opt.materialize(query, "nothing", state=tmp_path / "nothing", sink=none)
    assert [row.n for row in nothing.changes().collect()] == [0]
    feeds[0].add([(1, 0, None)])
    feeds[1].add([(5, 0, None)])
    view = opt.materialize(query, "kept", state=tmp_path / "state", sink=some)
    assert [(row[0], row[2]) for row in view.changes().collect()] == [(1, "insert")]
    assert [row.n for row in opt.session.read.json(str(tmp_path / "some")).collect()] == [1]
    assert sorted((row[0], row[2]) for row in nothing.refresh().changes().collect()) == [(0, "delete"), (1, "insert")]


@pytest.mark.parametrize(
    "query", ["SELECT a.k, b.id FROM s a JOIN t b ON a.k = b.k", "SELECT k, count(*) FROM s GROUP BY k"]
)
def test_files_of_many_refreshes_become_one(
    opt: Optimizer, feeds: list[Feed], tmp_path: Path, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dovetail.executor.state.stored_rows.FULL", 2)
    arrive(feeds, 0)
    view = opt.materialize(query, "kept", state=tmp_path / "state")
    for epoch in range(1, 5):
        arrive(feeds, epoch)
        before = shown(view)
        assert shown(view.refresh()) == batch(feeds, query)
        changes = [tuple(row) for row in view.changes().collect()]
        assert len([c for c in changes if c[-1] == "insert"]) - len([c for c in changes if c[-1] == "delete"]) == len(
            shown(view)
        ) - len(before)
    folders = sorted(f.name for f in (tmp_path / "state").iterdir() if f.is_dir())
    assert [name[:5] for name in folders if name != "checkpoint"] == ["part-", "part-", "rows-", "rows-"], folders
    again = Optimizer(opt.session).materialize(query, "kept", state=tmp_path / "state")
    assert shown(again) == batch(feeds, query)


def test_a_refresh_that_is_cut_off_anywhere_is_done_again(
    opt: Optimizer, feeds: list[Feed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt ends a few writes further than the one before; so does what it tells of its changes."""
    monkeypatch.setattr("dovetail.executor.state.stored_rows.FULL", 2)
    left, interrupted, sink = interrupting(monkeypatch), 0, Sink("parquet", tmp_path / "out")
    query = "SELECT a.k, sum(b.id) AS total FROM s a JOIN t b ON a.k = b.k GROUP BY a.k"
    for attempt in range(1, 26, 4):
        arrive(feeds, attempt)
        left[0] = attempt
        try:
            opt.materialize(query, "kept", state=tmp_path / "state", sink=sink)
        except (StreamingQueryException, Interrupted):
            interrupted += 1
        left[0] = 0
    assert interrupted > 4
    view = opt.materialize(query, "kept", state=tmp_path / "state", sink=sink)
    assert shown(view) == batch(feeds, query)
    assert added_up(opt, tmp_path / "out") == Counter(map(tuple, view.table().collect()))


def added_up(opt: Optimizer, folder: Path) -> Counter[tuple[Any, ...]]:
    """What the changes in a folder come to."""
    found: Counter[tuple[Any, ...]] = Counter()
    for *row, kind in opt.session.read.parquet(str(folder)).collect():
        found[tuple(row)] += {"insert": 1, "delete": -1}[kind]
    return Counter({row: count for row, count in found.items() if count})


def test_a_refresh_that_does_not_end_is_not_shown(opt: Optimizer, feeds: list[Feed], tmp_path: Path) -> None:
    query, seen = "SELECT k, count(*) AS n FROM s GROUP BY k", list[int]()

    def sink(rows: DataFrame, number: int) -> None:
        seen.append(rows.count())
        if len(seen) == 2:
            raise ValueError("full")

    feeds[0].add([(1, 0, None), (2, 1, None)])
    view = opt.materialize(query, "kept", state=tmp_path / "state", sink=sink)
    before = Counter(map(tuple, view.table().collect()))
    feeds[0].add([(3, 0, None)])
    with pytest.raises(ValueError, match="full"):
        view.refresh()
    assert Counter(map(tuple, view.table().collect())) == before == {(0, 1): 1, (1, 1): 1}
    assert Counter(map(tuple, view.changes().collect())) == {(0, 1, "delete"): 1, (0, 2, "insert"): 1}
    assert Counter(map(tuple, view.refresh().table().collect())) == {(0, 2): 1, (1, 1): 1}
    assert seen == [2, 2, 2, 0]  # the changes that were not taken, and then what has come since


def test_where_a_view_goes(opt: Optimizer, feeds: list[Feed], tmp_path: Path) -> None:
    query, told = "SELECT k, count(*) AS n FROM s GROUP BY k", list[tuple[int, list[Any]]]()
    ways: dict[str, Any] = {
        "files": {"sink": Sink("parquet", tmp_path / "out")},
        "function": {"sink": lambda rows, number: told.append((number, rows.collect())), "mode": "complete"},
        "table": {"sink": "replaced", "mode": "complete"},
    }
    try:
        for rows in ([(1, 0, None), (2, 1, None)], [(3, 0, None)]):
            feeds[0].add(rows)
            for name, way in ways.items():
                view = opt.materialize(query, name, state=tmp_path / name, **way)
        now = Counter(map(tuple, view.table().collect()))
        assert now == {(0, 2): 1, (1, 1): 1}
        assert added_up(opt, tmp_path / "out") == now
        assert opt.session.read.parquet(str(tmp_path / "out")).count() == 4
        assert Counter(map(tuple, opt.session.table("replaced").collect())) == now
        assert [Counter(map(tuple, rows)) for _, rows in told] == [{(0, 1): 1, (1, 1): 1}, now]
        assert told[0][0] < told[1][0]
        with pytest.raises(StateError, match=r"with another sink: parquet, update; now: none; name the sink"):
            opt.materialize(query, "files", state=tmp_path / "files")
    finally:
        opt.session.sql("DROP TABLE IF EXISTS replaced")
