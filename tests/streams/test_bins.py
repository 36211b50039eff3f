"""Spark's own join of two streams over bins: where state modules take none, and Spark refuses it without."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from dovetail import Optimizer, QueryError, StateError
from dovetail.optimizer.streams import queries as stream_queries
from stream_feeds import Feed, out_of_order, run

if TYPE_CHECKING:
    from pathlib import Path

WITHIN = "a.ts BETWEEN b.ts - INTERVAL 3 SECONDS AND b.ts + INTERVAL 2 SECONDS"
WINDOWS = f"SELECT window(a.ts, '5 seconds') AS w, count(*) AS n FROM s a JOIN t b ON {WITHIN} GROUP BY ALL"
KEYS = f"SELECT a.k, count(*) AS n, max(b.id) AS last FROM s a JOIN t b ON {WITHIN} GROUP BY a.k"
DISTINCT = f"SELECT DISTINCT a.k, b.k AS l FROM s a JOIN t b ON {WITHIN}"
REFUSED = "Stream-stream join without equality predicate is not supported"


@pytest.fixture
def feeds(opt: Optimizer, tmp_path: Path) -> list[Feed]:
    return [Feed(opt.session, tmp_path / name, name, delay=5) for name in "st"]


def arrive(feeds: list[Feed], epochs: range) -> None:
    for epoch in epochs:
        for seed, feed in enumerate(feeds):
            feed.add(sorted(out_of_order(seed, epoch, 20), key=lambda row: row[2] or 0))


def last(opt: Optimizer, query: str, folder: Path, key: int, mode: Any = "update", **more: Any) -> set[tuple[Any, ...]]:
    """The newest row of each key that a query in the mode `update` has given."""
    found: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def take(rows: Any, _: int) -> None:
        found.update({tuple(row)[:key]: tuple(row) for row in rows.collect()})

    more = {"checkpoint": folder / "checkpoint", "sink": take, "trigger": "available now", **more}
    opt.stream(query, mode=mode, **more).awaitTermination()
    return set(found.values())


def batch(opt: Optimizer, feeds: list[Feed], query: str) -> list[tuple[Any, ...]]:
    for feed in feeds:
        feed.table()
    return [
        tuple(row)
        for row in opt.session.sql(query.replace(" s a", " s_table a").replace(" t b", " t_table b")).collect()
    ]


@pytest.mark.parametrize(("query", "key"), [(KEYS, 1), (DISTINCT, 2), (WINDOWS, 1)])
def test_whatever_stands_above_the_join(
    opt: Optimizer, feeds: list[Feed], tmp_path: Path, query: str, key: int
) -> None:
    arrive(feeds, range(3))
    assert last(opt, query, tmp_path, key) == set(batch(opt, feeds, query))


def test_the_windows_that_are_final(opt: Optimizer, feeds: list[Feed], tmp_path: Path) -> None:
    arrive(feeds, range(4))
    found = last(opt, WINDOWS, tmp_path, 1, "append")
    assert len(found) > 2
    assert found <= set(batch(opt, feeds, WINDOWS))


@pytest.mark.parametrize("kind", ["LEFT", "LEFT SEMI", "INNER"])
def test_kinds_of_joins(opt: Optimizer, feeds: list[Feed], tmp_path: Path, kind: str) -> None:
    arrive(feeds, range(3))
    columns = "a.id, a.k" if "SEMI" in kind else "a.id, b.id AS bid"
    query = f"SELECT {columns} FROM s a {kind} JOIN t b ON {WITHIN} AND a.id <> b.id"
    native = run(opt, query, tmp_path / "spark", state_modules=False)
    assert sum(native.values()) > 20
    assert not native - Counter(batch(opt, feeds, query))
    # Spark lets rows pass that are late by one micro-batch, and returns rows without a match later.
    assert not run(opt, query, tmp_path / "modules") - Counter(batch(opt, feeds, query))


def test_a_checkpoint_goes_on_with_the_bins_that_it_was_begun_with(
    opt: Optimizer, feeds: list[Feed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrive(feeds, range(2))
    found = last(opt, KEYS, tmp_path, 1)
    pinned = json.loads((tmp_path / "checkpoint" / "dovetail" / "bins.json").read_text())
    assert pinned["sql"].count("DIV 5000000") == 1

    monkeypatch.setattr(
        stream_queries, "plan_stream_bins", lambda *_, **__: None
    )  # as a version would that has no such plan
    arrive(feeds, range(2, 4))
    found |= last(opt, KEYS, tmp_path, 1)
    assert set(batch(opt, feeds, KEYS)) <= found


@pytest.mark.parametrize(
    ("other", "conf", "said"),
    [
        (KEYS.replace("3 SECONDS", "30 SECONDS"), {}, "belongs to another query: SELECT a.k, count"),
        (KEYS.replace("SELECT", "SELECT /*+ RANGE_JOIN(b, 3) */", 1), {}, "belongs to another query"),
        (
            KEYS,
            {"spark.sql.session.timeZone": "Asia/Tokyo"},
            "was written under other settings: .*timeZone was UTC and is Asia/Tokyo",
        ),
    ],
)
def test_another_query_on_its_checkpoint(
    opt: Optimizer, feeds: list[Feed], tmp_path: Path, other: str, conf: dict[str, str], said: str
) -> None:
    arrive(feeds, range(2))
    last(opt, KEYS, tmp_path, 1)
    for name, value in conf.items():
        opt.session.conf.set(name, value)
    with pytest.raises(StateError, match=f"{said}.* give this query a checkpoint of its own"):
        last(opt, other, tmp_path, 1)


def test_a_checkpoint_that_spark_has_not_begun_is_free(opt: Optimizer, feeds: list[Feed], tmp_path: Path) -> None:
    with pytest.raises(Exception, match="Invalid streaming output mode: append"):
        last(opt, DISTINCT, tmp_path, 2, "append")  # which Spark does not run without a watermark
    assert (tmp_path / "checkpoint" / "dovetail" / "bins.json").exists()
    arrive(feeds, range(2))
    assert last(opt, KEYS, tmp_path, 1) == set(batch(opt, feeds, KEYS))


def test_a_damaged_statement(opt: Optimizer, feeds: list[Feed], tmp_path: Path) -> None:
    arrive(feeds, range(2))
    last(opt, KEYS, tmp_path, 1)
    (tmp_path / "checkpoint" / "dovetail" / "bins.json").write_text("{")
    with pytest.raises(StateError, match=r"bins\.json cannot be read"):
        last(opt, KEYS, tmp_path, 1)


def test_with_an_equality_only_where_asked(opt: Optimizer, feeds: list[Feed], tmp_path: Path) -> None:
    arrive(feeds, range(2))
    query = KEYS.replace(" ON ", " ON a.k = b.k AND ")
    file = tmp_path / "checkpoint" / "dovetail" / "bins.json"
    assert opt.stream_plan(query).bins is None
    expected = last(opt, query, tmp_path, 1)
    assert not file.exists()
    assert last(opt, query, tmp_path, 1, bins=True) == set()  # a checkpoint without bins goes on so
    assert not file.exists()
    assert last(opt, query, tmp_path / "bins", 1, bins=True) == expected == set(batch(opt, feeds, query))
    assert (tmp_path / "bins" / "checkpoint" / "dovetail" / "bins.json").exists()


def test_nowhere_if_asked(opt: Optimizer, feeds: list[Feed], tmp_path: Path) -> None:
    arrive(feeds, range(1))
    assert opt.stream_plan(KEYS, bins=False).bins is None
    with pytest.raises(QueryError, match=REFUSED):
        last(opt, KEYS, tmp_path, 1, bins=False)
    assert not (tmp_path / "checkpoint").exists()


@pytest.mark.parametrize(
    "more", ["SELECT * FROM s UNION ALL SELECT id + 100, k, ts FROM s", "SELECT DISTINCT * FROM s"]
)
def test_a_view_that_does_more_than_state_modules_take(
    opt: Optimizer, feeds: list[Feed], tmp_path: Path, more: str
) -> None:
    arrive(feeds, range(2))
    opt.session.sql(f"CREATE TEMP VIEW v AS {more}")
    query = f"SELECT a.id, b.id AS bid FROM v a JOIN t b ON {WITHIN}"
    plan = opt.stream_plan(query)
    assert plan.join is None
    assert plan.reason.startswith("its plan has the operator ")
    found = run(opt, query, tmp_path)
    tables = query.replace("FROM v a", f"FROM ({more.replace(' s', ' s_table')}) a")
    assert not found - Counter(batch(opt, feeds, tables))  # DISTINCT drops late rows
    assert sum(found.values()) > 200
    assert (tmp_path / "checkpoint" / "dovetail" / "bins.json").exists()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a.k, count(*) FROM s a JOIN t b ON a.k = b.k GROUP BY a.k",  # no band
        "SELECT a.k, count(*) FROM s a JOIN t b ON a.id <> b.id GROUP BY a.k",
        f"SELECT a.k, count(*) FROM s a FULL JOIN t b ON {WITHIN} GROUP BY a.k",  # bins copy a preserved side
        "SELECT s.k, count(*) FROM s GROUP BY s.k",
    ],
)
def test_what_gets_none(opt: Optimizer, feeds: list[Feed], query: str) -> None:
    assert opt.stream_plan(query, bins=True).bins is None


def test_in_a_definition_of_with(opt: Optimizer, feeds: list[Feed], tmp_path: Path) -> None:
    arrive(feeds, range(2))
    query = f"WITH x AS (SELECT a.k, b.id FROM s a JOIN t b ON {WITHIN}) SELECT k, count(*) AS n FROM x GROUP BY k"
    assert last(opt, query, tmp_path, 1) == set(batch(opt, feeds, query))


def test_a_band_with_a_table_beside_it(opt: Optimizer, feeds: list[Feed], tmp_path: Path) -> None:
    arrive(feeds, range(2))
    opt.session.createDataFrame(
        [(n, n * 20, n * 20 + 19) for n in range(3)], "z INT, lo INT, hi INT"
    ).createOrReplaceTempView("zones")
    joins = f"s a JOIN t b ON {WITHIN} JOIN zones z ON a.id BETWEEN z.lo AND z.hi"
    query = f"SELECT z.z, count(*) AS n FROM {joins} GROUP BY z.z"
    assert last(opt, query, tmp_path, 1) == set(batch(opt, feeds, query))
