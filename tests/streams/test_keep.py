"""Views kept fresh: after each refresh they hold what the query returns over all rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from optimizer import Optimizer, QueryError, StateError
from optimizer.kept import KeptView
from stream_feeds import Feed, out_of_order

if TYPE_CHECKING:
    from pathlib import Path

GROUPS = """SELECT a.k, count(*), sum(b.id) AS total, avg(c.id) FROM s a JOIN t b ON a.k = b.k JOIN u c ON b.k = c.k
WHERE a.id <> 3 GROUP BY a.k HAVING count(*) > 2 ORDER BY total DESC"""


RANKED = """WITH x AS (SELECT id, k FROM s WHERE id > 2)
SELECT x.k, b.*, rank() OVER (PARTITION BY x.k ORDER BY b.id) FROM x JOIN t b ON x.k = b.k"""


@pytest.fixture
def feeds(opt: Optimizer, tmp_path: Path) -> list[Feed]:
    return [Feed(opt.session, tmp_path / name, name) for name in "stu"]


def arrive(feeds: list[Feed], epoch: int) -> None:
    for seed, feed in enumerate(feeds):
        feed.add([*out_of_order(seed, epoch, 9), (7, None, None)])


def batch(feeds: list[Feed], query: str) -> list[str]:
    for feed in feeds:
        feed.table()
    tables = re.sub(r"\b(FROM|JOIN) ([stu])\b", r"\1 \2_table", query)
    return sorted(map(str, feeds[0].session.sql(tables).collect()))


def shown(view: KeptView) -> list[str]:
    return sorted(map(str, view.opt.session.table(view.name).collect()))


@pytest.mark.parametrize(
    "query",
    [
        GROUPS,
        "SELECT DISTINCT a.k, b.id + 1 FROM s a JOIN t b ON a.id BETWEEN b.id AND b.id + 2",
        "SELECT * FROM s a JOIN t b ON a.id = b.id ORDER BY a.ts, b.ts, b.k LIMIT 50",
        RANKED,
        "SELECT count(*), max(b.ts), percentile(a.id, 0.5) FROM s a JOIN t b ON a.k = b.k",
        "SELECT k, count(DISTINCT a.id), count_if(ts IS NULL) AS n FROM s AS a GROUP BY ALL",
    ],
)
def test_what_the_query_returns_over_all_rows(opt: Optimizer, feeds: list[Feed], tmp_path: Path, query: str) -> None:
    arrive(feeds, 0)
    view = opt.keep(query, "kept", state=tmp_path / "state")
    assert shown(view) == batch(feeds, query)
    assert view.table().schema.names == opt.session.sql(query).schema.names
    arrive(feeds, 1)
    assert shown(view.refresh()) == batch(feeds, query)
    assert "__dt_joined" not in {t.name for t in opt.session.catalog.listTables()}


def test_a_later_call_goes_on(opt: Optimizer, feeds: list[Feed], tmp_path: Path) -> None:
    arrive(feeds, 0)
    opt.keep(GROUPS, "kept", state=tmp_path / "state")
    arrive(feeds, 1)
    again = Optimizer(opt.session).keep(GROUPS, "kept", state=f"{tmp_path}/state/")
    assert shown(again) == batch(feeds, GROUPS)
    assert len(list((tmp_path / "state" / "checkpoint" / "commits").glob("[0-9]*"))) == 2
    with pytest.raises(StateError, match="is of another query"):
        opt.keep(GROUPS.replace("<> 3", "<> 4"), "other", state=tmp_path / "state")


def test_names_and_hints(opt: Optimizer, feeds: list[Feed], tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="the query reads S; give the view another name"):
        opt.keep("SELECT k, count(*) FROM s GROUP BY k", "S", state=tmp_path / "state")
    opt.session.sql("CREATE TEMP VIEW waits AS SELECT *, make_interval(id) AS wait FROM s")
    with pytest.raises(QueryError, match="files cannot hold the column c0 interval"):
        opt.keep("SELECT max(string(wait)) FROM waits", "kept", state=tmp_path / "state")
    args = {"least": 2}
    asked = opt.keep(GROUPS.replace("> 2", "> :least"), "asked", state=tmp_path / "asked", args=args)
    assert "HAVING count(*) > 2" in asked.explain()
    with pytest.raises(QueryError, match="an argument cannot be written into the query as a literal"):
        opt.keep(GROUPS.replace("> 2", "> :least[0]"), "asked", state=tmp_path / "lists", args={"least": [2]})
    hinted = GROUPS.replace("SELECT", "SELECT /*+ DELTA_ORDER(c) */", 1)
    said = opt.keep(hinted, "kept", state=tmp_path / "state").explain()
    assert "d(a) ◁ curr(c by k)" in said
    assert "DELTA_ORDER" not in said.partition("over the joined rows")[2]


def test_padded_texts(opt: Optimizer, tmp_path: Path) -> None:
    """Spark pads what a CHAR column is compared with, and would not once the column is read back from files."""
    opt.session.sql("CREATE TABLE kept_codes (id INT, code CHAR(4)) USING parquet")
    try:
        opt.session.readStream.table("kept_codes").createOrReplaceTempView("codes")
        with pytest.raises(QueryError, match=r"codes\.code is CHAR or VARCHAR"):
            opt.keep("SELECT count_if(code = 'a') FROM codes", "kept", state=tmp_path / "state")
    finally:
        opt.session.sql("DROP TABLE kept_codes")


def test_before_any_row(opt: Optimizer, feeds: list[Feed], tmp_path: Path) -> None:
    view = opt.keep(GROUPS, "kept", state=tmp_path / "state")
    assert shown(view) == []
    arrive(feeds, 0)
    assert shown(view.refresh()) == batch(feeds, GROUPS)


def test_verify_recomputes(opt: Optimizer, feeds: list[Feed], tmp_path: Path) -> None:
    arrive(feeds, 0)
    view = opt.keep(GROUPS, "kept", state=tmp_path / "state")
    found = view.verify()
    assert (found.same, found.rows > 1) == (True, True)
    single = opt.keep("SELECT k, count(*) FROM s GROUP BY k", "single", state=tmp_path / "single")
    with pytest.raises(QueryError, match="nothing to compare with"):
        single.verify()


def test_how_it_is_explained(opt: Optimizer, feeds: list[Feed], tmp_path: Path) -> None:
    said = opt.keep(GROUPS, "kept", state=tmp_path / "state").explain()
    assert "d(a) ◁ curr(b by k)" in said
    assert said.partition("and over the joined rows:\n\n")[2] == (
        "SELECT a.k, count(*), sum(b.id) AS total, avg(c.id)\n"
        "FROM (SELECT c0 AS k, named_struct('k', c0) AS a, named_struct('id', c1) AS b, named_struct('id', c2) AS c "
        "FROM __dt_joined)\n"
        "GROUP BY a.k\nHAVING count(*) > 2\nORDER BY total DESC"
    )


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT a.k FROM s a JOIN t b ON a.k = b.k UNION ALL SELECT k FROM u", "more than one SELECT"),
        ("SELECT a.k, (SELECT 1) FROM s a JOIN t b ON a.k = b.k", "Project holds a subquery above the join"),
        ("SELECT * EXCEPT (ts) FROM s a", "more than all columns"),
        ("SELECT k, count(*) FROM s JOIN t USING (k) GROUP BY k", "USING and NATURAL merge columns"),
        ("SELECT sum(a.id) AS a FROM s a GROUP BY a.k", "a is the name of a relation and of an item"),
        ("SELECT id FROM few", "no relation of this query is a stream"),
    ],
)
def test_what_cannot_be_kept(opt: Optimizer, feeds: list[Feed], tmp_path: Path, query: str, said: str) -> None:
    opt.session.range(3).createOrReplaceTempView("few")
    with pytest.raises(QueryError, match=said):
        opt.keep(query, "kept", state=tmp_path / "state")
