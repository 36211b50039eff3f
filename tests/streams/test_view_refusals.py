"""Views that cannot be maintained, folders of other views, sinks that do not fit: refused before a row is read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException

from dovetail import Optimizer, OptionError, QueryError, Sink, StateError
from stream_feeds import Feed, arrive, grow_ids

if TYPE_CHECKING:
    from pathlib import Path

    from dovetail.planner.state.sink import Mode


@pytest.fixture
def feeds(opt: Optimizer, tmp_path: Path) -> list[Feed]:
    return [Feed(opt.session, tmp_path / name, name) for name in "stu"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT a.k FROM s a JOIN t b ON a.k = b.k UNION ALL SELECT k FROM u", "more than one SELECT"),
        ("SELECT a.k, (SELECT 1) FROM s a JOIN t b ON a.k = b.k", "Project holds a subquery above the join"),
        ("SELECT * EXCEPT (ts) FROM s a", "more than all columns"),
        ("SELECT k, count(*) FROM s JOIN t USING (k) GROUP BY k", "USING and NATURAL merge columns"),
        (
            "SELECT -a.k AS k, k + 1 AS n, count(DISTINCT a.id) FROM s a GROUP BY a.k ORDER BY a.k",
            "k is the name of a column and of an item; rename the item",
        ),
        (
            "SELECT a.st.*, b.id FROM (SELECT k, struct(id, ts) AS st FROM s) a JOIN t b ON a.k = b.k",
            "fields of a struct",
        ),
        ("SELECT id FROM few", "No relation of this query is a stream"),
    ],
)
def test_what_cannot_be_kept(opt: Optimizer, feeds: list[Feed], tmp_path: Path, query: str, message: str) -> None:
    opt.session.range(3).createOrReplaceTempView("few")
    with pytest.raises(QueryError, match=message):
        opt.materialize(query, "kept", state=tmp_path / "state")


def test_a_state_without_end_is_no_reason_for_a_warning(
    opt: Optimizer, feeds: list[Feed], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A view over all rows needs them: each refresh says so once, alone and together."""
    caplog.set_level("INFO", "dovetail")
    query = "SELECT count(*) FROM s a JOIN t b ON a.k = b.k"

    def check_log() -> None:
        found = [r for r in caplog.records if "ever leaves the state" in r.message]
        assert [r.levelname for r in found] == ["INFO"]
        assert re.match(r"no row of s and t ever leaves the state, which has s: (9|10) rows, ", found[0].message)
        assert "state_ttl" not in caplog.text
        caplog.clear()

    arrive(feeds, 0)
    opt.materialize(query, "kept", state=tmp_path / "state")
    check_log()
    opt.materialize_all({"counted": query, "most": query.replace("count(*)", "max(a.id)")}, state=tmp_path / "both")
    check_log()


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "SELECT count(*) FROM (SELECT a.k, sum(b.id) n FROM s a JOIN t b ON a.k = b.k GROUP BY a.k) x",
            "x has GROUP BY",
        ),
        ("SELECT a.id, m FROM s a JOIN (SELECT max(id) AS m FROM t) x ON a.id = x.m", "x has an aggregate"),
        ("WITH x AS (SELECT DISTINCT k FROM s) SELECT x.k, b.id FROM x JOIN t b ON x.k = b.k", "x has DISTINCT"),
        (
            "SELECT x.n FROM (SELECT k, row_number() OVER (PARTITION BY k ORDER BY id) AS n FROM s) x WHERE n = 1",
            "x has a window function",
        ),
        ("SELECT k, n FROM grouped", ""),
        ("SELECT x.k, t.id FROM (SELECT k FROM s UNION SELECT k FROM t) x JOIN t ON x.k = t.k", ""),
    ],
)
def test_a_subquery_whose_rows_change(
    opt: Optimizer, feeds: list[Feed], tmp_path: Path, query: str, message: str
) -> None:
    opt.session.sql("SELECT k, count(*) AS n FROM s GROUP BY k").createOrReplaceTempView("grouped")
    what = (
        f"the subquery {message}" if message else "a view or subquery in FROM has GROUP BY, DISTINCT, UNION or the like"
    )
    with pytest.raises(QueryError, match=f"maintained incrementally: {what}, .*; keep the join with the rows"):
        opt.materialize(query, "kept", state=tmp_path / "state")
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT k FROM (SELECT k FROM s LIMIT 3 OFFSET 1) x", "Spark does not run it as a stream: .*: Offset"),
        (
            "SELECT s.k FROM s FULL JOIN t ON s.k = t.k",
            "no watermark says when .* is final: .*, and Spark does not run it as a stream: .* FullOuter join",
        ),
    ],
)
def test_what_spark_does_not_stream(opt: Optimizer, tmp_path: Path, query: str, message: str) -> None:
    for name in "st":
        (tmp_path / name).mkdir()
        opt.session.readStream.schema("id INT, k INT").json(str(tmp_path / name)).createOrReplaceTempView(name)
    with pytest.raises(QueryError, match=f"cannot be maintained incrementally: {message}"):
        opt.materialize(query, "kept", state=tmp_path / "state")
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("name", ["", "a b", "a.b", "x;y"])
def test_what_is_no_name_or_no_folder(opt: Optimizer, feeds: list[Feed], tmp_path: Path, name: str) -> None:
    query = "SELECT k, count(*) FROM s GROUP BY k"
    with pytest.raises(QueryError, match="is not a name of a temporary view"):
        opt.materialize(query, name, state=tmp_path / "state")
    assert not (tmp_path / "state").exists()
    with pytest.raises(QueryError, match="state is empty"):
        opt.materialize(query, "kept", state=name.strip("abxy.; "))
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match=r"file/inside/view.json.* cannot be written"):
        opt.materialize(query, "kept", state=tmp_path / "file" / "inside")


@pytest.mark.parametrize(
    ("mode", "columns", "taken"),
    [
        ("update", "k INT, n BIGINT, _change_type STRING", True),
        ("update", "k INT, n BIGINT", False),
        ("update", "n BIGINT, k INT, _change_type STRING", False),
        ("update", "k STRING, n BIGINT, _change_type STRING", False),
        ("update", "k INT, n BIGINT, _change_type VARCHAR(6)", False),
        ("complete", "k INT, n BIGINT", True),
        ("complete", "k BIGINT, n DECIMAL(20, 0)", True),
        ("complete", "n BIGINT, k INT", False),
    ],
)
def test_a_table_has_to_fit(
    opt: Optimizer, feeds: list[Feed], tmp_path: Path, mode: Mode, columns: str, taken: bool
) -> None:
    feeds[0].add([(1, 0, None), (2, 1, None)])
    opt.session.sql(f"CREATE TABLE fits ({columns}) USING parquet")
    query = "SELECT k, count(*) AS n FROM s GROUP BY k"
    try:
        if not taken:
            with pytest.raises(
                OptionError,
                match=r"fits has the columns .*, and the query returns k int, n bigint|fits is CHAR or VARCHAR",
            ):
                opt.materialize(query, "kept", state=tmp_path / "state", sink="fits", mode=mode)
            assert not (tmp_path / "state").exists()
            return
        opt.materialize(query, "kept", state=tmp_path / "state", sink="fits", mode=mode)
        assert sorted(map(tuple, opt.session.sql("SELECT k, n FROM fits").collect())) == [(0, 1), (1, 1)]
    finally:
        opt.session.sql("DROP TABLE fits")


def test_a_clause_that_spark_does_not_take_over_the_stored_rows(
    opt: Optimizer, feeds: list[Feed], tmp_path: Path
) -> None:
    opt.session.sql("CREATE OR REPLACE TEMP VIEW ends AS SELECT id, k AS end FROM s")
    query = """SELECT a.id, rank() OVER w FROM ends a JOIN t b ON a.end = b.k
        WINDOW w AS (PARTITION BY a.end ORDER BY a.id, b.id)"""
    with pytest.raises(QueryError, match=r"over its stored rows Spark does not take .*; name columns there without"):
        opt.materialize(query, "kept", state=tmp_path / "state")
    arrive(feeds, 0)
    view = opt.materialize(query.replace("BY a.end", "BY end"), "kept", state=tmp_path / "state")
    assert view.verify().same


@pytest.mark.parametrize(
    ("query", "sink", "mode", "error", "message"),
    [
        ("SELECT k FROM s", Sink("parquet", "out"), "complete", OptionError, "files cannot be replaced in one step"),
        ("SELECT k FROM s", Sink("parquet", "out"), "append", OptionError, "has 'update' and 'complete'"),
        ("SELECT k FROM s", Sink("kafka"), "update", OptionError, "a sink of the format kafka is written by Spark"),
        ("SELECT k FROM s", "not_there", "update", OptionError, "not_there does not exist; create it"),
        ("SELECT k AS _Change_type FROM s", Sink("noop"), "update", QueryError, "has a column _Change_type"),
        ("SELECT parse_json('1') AS m, k FROM s", Sink("noop"), "update", QueryError, "added up.*mode='complete'"),
        (
            "SELECT 'a' COLLATE UTF8_LCASE AS t, k FROM s",
            Sink("noop"),
            "update",
            QueryError,
            "texts of t that are equal",
        ),
    ],
)
def test_where_it_cannot_go(
    opt: Optimizer, feeds: list[Feed], tmp_path: Path, query: str, sink: Any, mode: Any, error: type, message: str
) -> None:
    with pytest.raises(error, match=message):
        opt.materialize(query, "kept", state=tmp_path / "state", sink=sink, mode=mode)
    assert not (tmp_path / "state").exists()


def test_a_relation_that_is_gone_is_the_error_of_spark(opt: Optimizer, feeds: list[Feed], tmp_path: Path) -> None:
    arrive(feeds, 0)
    view = opt.materialize("SELECT count(*) AS n FROM s a JOIN t b ON a.k = b.k", "kept", state=tmp_path / "state")
    before = view.table().collect()
    opt.session.catalog.dropTempView("s")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        view.refresh()
    Feed(opt.session, tmp_path / "s", "s")
    view.refresh()
    assert view.table().collect() == before


def test_a_folder_of_another_view(opt: Optimizer, feeds: list[Feed], tmp_path: Path) -> None:
    query = "SELECT k, count(*) FROM s GROUP BY k"
    opt.materialize(query, "kept", state=tmp_path / "state")
    with pytest.raises(
        StateError, match=r"belongs to another query, .*: SELECT k, count\(\*\).*; now: SELECT k, sum\(id\)"
    ):
        opt.materialize(query.replace("count(*)", "sum(id)"), "kept", state=tmp_path / "state")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(StateError, match="holds other files; give this view a folder of its own"):
        opt.materialize(query, "kept", state=tmp_path / "other")
    with pytest.raises(QueryError, match="current_timestamp decides which rows are joined"):
        opt.materialize("SELECT k FROM s WHERE ts > current_timestamp()", "kept", state=tmp_path / "now")
    (view,) = (tmp_path / "state").glob("view.json")
    view.write_text(view.read_text().replace('"format": 2', '"format": 99'))
    with pytest.raises(StateError, match=r"has format 99, and this version of Dovetail, .*, reads and writes format 2"):
        opt.materialize(query, "kept", state=tmp_path / "state")


def test_columns_in_another_case_are_named_as_the_reason(opt: Optimizer, tmp_path: Path) -> None:
    query = "SELECT a.id AS x, b.id AS y FROM s a JOIN t b ON a.id = b.id"
    grow_ids(opt.session, tmp_path, 0)
    opt.materialize(query, "v", state=tmp_path / "state")
    other = opt.session.readStream.schema("ID BIGINT").parquet(str(tmp_path / "s"))
    other.createOrReplaceTempView("s")
    with pytest.raises(StateError, match=r"the same query, whose relations had other columns .* in the same case"):
        opt.materialize(query, "v", state=tmp_path / "state")


def test_a_sink_that_refreshes_its_own_view_does_not_wait_for_itself(opt: Optimizer, tmp_path: Path) -> None:
    views: list[Any] = []

    def refresh(rows: Any, number: int) -> None:
        for view in views:
            view.refresh()

    grow_ids(opt.session, tmp_path, 0)
    query = "SELECT a.id AS x FROM s a JOIN t b ON a.id = b.id"
    views.append(opt.materialize(query, "v", state=tmp_path / "state", sink=refresh))
    grow_ids(opt.session, tmp_path, 10)
    with pytest.raises(StateError, match=r"A refresh of .*/state is running in this thread"):
        views[0].refresh()
    view = views.pop()
    assert view.refresh().table().count() == 4
