"""Views that share a state: each of them holds what its query returns, whoever comes, goes, or is killed beside it."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.errors import StreamingQueryException

from dovetail import Optimizer, QueryError, Sink, StateError
from dovetail.executor.state.folder import LocalFolder
from dovetail.executor.state.store import Store
from stream_changes import Changing, batch, changing
from stream_feeds import FEW, Interrupted, interrupting

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from dovetail import MaterializedViews

QUERIES = {
    "counts": "SELECT b.k, count(*) AS n, sum(a.id) FROM s a JOIN t b ON a.k = b.k WHERE a.id <> 3 GROUP BY b.k",
    "three": "SELECT a.id, b.v, c.k FROM s a JOIN t b ON a.k = b.k JOIN u c ON a.id = c.id AND c.v > a.v",
    "band": "SELECT a.id, b.id AS bid, b.v FROM s a JOIN t b ON b.id BETWEEN a.id AND a.id + 2 WHERE a.v IS NOT NULL",
    "divided": "SELECT a.k, b.id FROM s a JOIN u b ON a.k = 2 div b.k WHERE b.k <> 0",
    "itself": "SELECT a.id, b.id AS bid FROM s a JOIN s b ON a.k = b.k AND a.id < b.id",
    "most": "SELECT max(a.v), min(b.id), avg(b.k) FROM t a JOIN u b ON a.id = b.id",
    "renamed": "SELECT count(DISTINCT y.v) FROM (SELECT k n FROM s WHERE v > 0) x JOIN u y ON x.n <=> y.k GROUP BY n",
    "gone": "SELECT count(*) FROM u a JOIN s b ON a.k = b.k AND b.id > 3",
    "distinct": "SELECT DISTINCT a.v FROM u a JOIN s b ON a.k = b.k",
}


def shown(session: SparkSession, name: str) -> Counter[str]:
    return rows_of(session.table(name))


def rows_of(frame: DataFrame) -> Counter[str]:
    return Counter(str(tuple(map(repr, row))) for row in frame.collect())


def compare(opt: Optimizer, tables: list[Changing], views: MaterializedViews) -> None:
    for name in views:
        assert shown(opt.session, name) == batch(tables, QUERIES[name]), name


def some(*names: str) -> dict[str, str]:
    return {name: QUERIES[name] for name in names}


@pytest.mark.hypothesis
@FEW
@given(seed=st.integers(0, 10**6), names=st.sets(st.sampled_from(sorted(QUERIES)), min_size=2, max_size=5))
@example(seed=1, names={"counts", "three", "divided", "renamed"})
def test_each_holds_what_its_query_returns(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, seed: int, names: set[str]
) -> None:
    """One of them is built again: it finds in the state what it would have found before."""
    opt, folder, random = Optimizer(spark.newSession()), tmp_path_factory.mktemp("together"), Random(seed)
    tables = changing(opt, folder / "in", "stu")
    chosen = sorted(names)
    random.shuffle(chosen)
    for number in range(2):
        for table in tables:
            table.change(random, random.randrange(4, 12))
        if number:
            again = random.choice(chosen)
            shutil.rmtree(folder / "state" / "views" / again)
        random.shuffle(chosen)
        compare(opt, tables, opt.materialize_all(some(*chosen), state=folder / "state"))


def test_what_is_read_is_kept_once(opt: Optimizer, tmp_path: Path) -> None:
    tables, random = changing(opt, tmp_path / "in", "stu"), Random(1)
    for table in tables:
        table.change(random, 12)
    names = "counts", "three", "most"
    views = opt.materialize_all(some(*names), state=tmp_path / "state")
    compare(opt, tables, views)
    together = kept(tmp_path / "state")
    alone = Counter[str]()
    for name in names:
        opt.materialize(QUERIES[name], f"alone_{name}", state=tmp_path / name)
        alone += kept(tmp_path / name)
    assert set(together) == {"s", "t", "u"}
    assert sum(together.values()) < 0.75 * sum(alone.values())
    assert [line for line in views.explain().splitlines() if " for " in line][:3] == [
        "s: Op, id, k, v, for counts, three",
        "t: Op, id, k, v, for counts, three, most",
        "u: Op, id, k, v, for three, most",
    ]


def kept(state: Path) -> Counter[str]:
    """How many rows the state has of each input."""
    store = Store(LocalFolder(state / "checkpoint"))
    names = [i["name"] for i in json.loads(store.query() or "")["inputs"]]
    found = Counter[str]()
    for name, input_ in zip(names, store.manifest(store.epochs()[-1]).inputs, strict=True):
        found[name] += input_.rows
    return found


def test_a_view_that_comes_later_and_one_that_was_left_out(opt: Optimizer, tmp_path: Path) -> None:
    tables, random = changing(opt, tmp_path / "in", "stu"), Random(2)
    state = tmp_path / "state"

    def arrive() -> None:
        for table in tables:
            table.change(random, 12)

    arrive()
    compare(opt, tables, opt.materialize_all(some("three", "itself"), state=state))
    compare(opt, tables, views := opt.materialize_all(some("three", "itself", "counts"), state=state))
    assert len(list((state / "checkpoint" / "commits").glob("[0-9]*"))) == 1, "nothing was read again"
    first = views["counts"].changes().collect()
    assert {row[-1] for row in first} == {"insert"}
    assert len(first) == sum(shown(opt.session, "counts").values()) > 0
    arrive()
    compare(opt, tables, opt.materialize_all(some("itself", "three"), state=state))
    with pytest.raises(
        StateError,
        match=r"three belongs to another query, .*remove .*three and what it wrote .*, and the view is built again",
    ):
        opt.materialize_all({"three": QUERIES["itself"], "itself": QUERIES["itself"]}, state=state)
    with pytest.raises(StateError, match=r"counts was not refreshed when other views .* were; remove .*counts"):
        opt.materialize_all(some("counts", "three", "itself"), state=state)
    shutil.rmtree(state / "views" / "counts")
    compare(opt, tables, views := opt.materialize_all(some("counts", "three", "itself"), state=state))
    arrive()
    assert views["three"].refresh().name == "three"
    compare(opt, tables, views)
    assert views["three"].verify().same


def test_all_of_them_or_none(opt: Optimizer, tmp_path: Path) -> None:
    """A sink that cannot be written keeps each view, and what it tells, where it was."""
    tables, random, state, broken = changing(opt, tmp_path / "in", "stu"), Random(3), tmp_path / "state", [False]

    told: Counter[str] = Counter()

    def sink(rows: DataFrame, number: int) -> None:
        if broken[0]:
            raise ValueError("full")
        for *row, kind in rows.collect():
            told[str(tuple(map(repr, row)))] += {"insert": 1, "delete": -1}[kind]

    for table in tables:
        table.change(random, 12)
    views = opt.materialize_all(some("itself", "three", "counts"), state=state, sinks={"three": sink})
    before = {name: shown(opt.session, name) for name in views}
    for table in tables:
        table.change(random, 12)
    broken[0] = True
    for _ in range(2):
        with pytest.raises(ValueError, match="full") as raised:
            views.refresh()
        assert raised.value.__notes__[0].startswith("three could not write to its sink; ")
        for name, view in views.items():
            assert shown(opt.session, name) == before[name] == rows_of(view.table())
    broken[0] = False
    compare(opt, tables, views.refresh())
    assert +told == rows_of(views["three"].table())
    assert not any(view.changes().count() for view in views.values())  # the refresh that failed has ended before
    assert before["itself"] != shown(opt.session, "itself")


def test_an_epoch_that_spark_does_again(opt: Optimizer, tmp_path: Path) -> None:
    """A crash after the manifest and before Spark's own commit; the next start has a view that is new."""
    tables, random, state = changing(opt, tmp_path / "in", "stu"), Random(5), tmp_path / "state"
    for _ in range(2):
        for table in tables:
            table.change(random, 24)
        opt.materialize_all(some("three", "itself"), state=state)
    for file in (state / "checkpoint" / "commits").glob("*1*"):
        file.unlink()
    compare(opt, tables, opt.materialize_all(some("three", "itself", "counts"), state=state))
    assert len(batch(tables, QUERIES["counts"])) > 1


def test_before_any_row(opt: Optimizer, tmp_path: Path) -> None:
    tables = changing(opt, tmp_path / "in", "stu")
    views = opt.materialize_all(some("counts", "most"), state=tmp_path / "state")
    compare(opt, tables, views.refresh())
    for table in tables:
        table.change(Random(3), 12)
    compare(opt, tables, views.refresh())


def test_a_refresh_that_is_cut_off_anywhere_is_done_again(
    opt: Optimizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt ends a few writes further than the one before, with one view at first and with three later."""
    monkeypatch.setattr("dovetail.executor.state.stored_rows.FULL", 2)
    tables, random, state = changing(opt, tmp_path / "in", "stu"), Random(4), tmp_path / "state"
    queries, interrupted, left = some("counts", "three", "itself"), 0, interrupting(monkeypatch)
    sinks = {name: Sink("parquet", tmp_path / f"out_{name}") for name in queries}

    def refresh(*names: str) -> MaterializedViews:
        return opt.materialize_all(some(*names), state=state, sinks={name: sinks[name] for name in names})

    for names, attempts in ((["three", "itself"], range(0, 20, 9)), (["counts", "three", "itself"], range(1, 50, 12))):
        for attempt in attempts:
            for table in tables:
                table.change(random, 4)
            left[0] = attempt
            try:
                refresh(*names)
            except (StreamingQueryException, Interrupted):
                interrupted += 1
            left[0] = 0
    assert interrupted > 5
    compare(opt, tables, refresh(*queries))
    for name in queries:
        assert added_up(opt.session, tmp_path / f"out_{name}") == batch(tables, QUERIES[name])


def added_up(session: SparkSession, folder: Path) -> Counter[str]:
    """What the changes in a folder come to."""
    found = Counter[str]()
    for *row, kind in session.read.parquet(str(folder)).collect():
        found[str(tuple(map(repr, row)))] += {"insert": 1, "delete": -1}[kind]
    return Counter({row: count for row, count in found.items() if count})


@pytest.mark.parametrize(
    ("queries", "said"),
    [
        ({}, "no query is given"),
        ({"x": QUERIES["counts"], "X": QUERIES["three"]}, "two views have the name X, but for capitals"),
        (
            {"x": QUERIES["counts"], "y": "SELECT k, count(*) FROM s GROUP BY k"},
            "y cannot share a state with other views: it joins no two streams, .*; materialize it alone",
        ),
        ({"x": QUERIES["counts"], "y": "SELECT 1"}, "No relation of this query is a stream"),
        ({"x": QUERIES["counts"], "y": "SELECT a.id FROM s a JOIN x ON a.id = x.n"}, "TABLE_OR_VIEW_NOT_FOUND"),
    ],
)
def test_what_cannot_be_kept_together(opt: Optimizer, tmp_path: Path, queries: dict[str, str], said: str) -> None:
    changing(opt, tmp_path / "in", "stu")
    with pytest.raises(Exception, match=said):
        opt.materialize_all(queries, state=tmp_path / "state")
    assert not (tmp_path / "state").exists()


def test_watermarks(opt: Optimizer, tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    stream = opt.session.readStream.schema("id INT, ts TIMESTAMP").json(str(tmp_path / "w"))
    stream.withWatermark("ts", "1 second").createOrReplaceTempView("w")
    query = "SELECT a.id FROM w a JOIN w b ON a.id = b.id"
    with pytest.raises(QueryError, match=r"w has a watermark, .*; materialize each of them alone"):
        opt.materialize_all({"one": query}, state=tmp_path / "state")
    with pytest.raises(QueryError, match="two: this query cannot be maintained incrementally: rand"):
        opt.materialize_all({"one": query, "two": f"{query} WHERE rand() < 1"}, state=tmp_path / "state")


@pytest.mark.parametrize(
    ("later", "said"),
    [
        (("counts", "gone"), "does not have u"),
        (("band", "counts"), "does not have v double of s"),
        (("counts", "itself"), r"has only rows of s where \(`id` <> 3\)"),
    ],
)
def test_a_state_that_was_kept_for_other_queries(
    opt: Optimizer, tmp_path: Path, later: tuple[str, ...], said: str
) -> None:
    changing(opt, tmp_path / "in", "stu")
    opt.materialize_all(some("counts"), state=tmp_path / "state")
    with pytest.raises(StateError, match=f"{said}.*; build these views in a folder of their own"):
        opt.materialize_all(some(*later), state=tmp_path / "state")
    with pytest.raises(StateError, match="views on one state; refresh them"):
        opt.materialize(QUERIES["counts"], "kept", state=tmp_path / "state")
    with pytest.raises(StateError, match="belongs to views on one state"):
        opt.stream(
            QUERIES["three"], checkpoint=tmp_path / "state" / "checkpoint", sink=Sink("parquet", tmp_path / "out")
        )
