"""Joins of changelogs: the changes that have been returned add up to the join of the rows that are there."""

from __future__ import annotations

import re
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.errors import StreamingQueryException
from pyspark.sql.functions import udf

from dovetail import Optimizer, OptionError, QueryError, Sink
from stream_changes import KIND, Row, batch, changing
from stream_feeds import FEW, newest

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

COUNTS = {"insert": 1, "update_postimage": 1, "update_preimage": -1, "delete": -1}


def run(opt: Optimizer, query: str, folder: Path, **more: Any) -> Counter[str]:
    """What the changes that have been returned add up to."""
    sink = Sink("parquet", folder / "out")
    more = {"trigger": "available now", **more}
    opt.stream(query, checkpoint=folder / "checkpoint", sink=sink, **more).awaitTermination()
    found: Counter[str] = Counter()
    assert {op for *_, op in written_rows(opt.session, folder)} <= {"insert", "delete"}
    for (*row, op), times in Counter(map(repr_of, written_rows(opt.session, folder))).items():
        found[str(tuple(row))] += COUNTS[op] * times
    return +found if all(n >= 0 for n in found.values()) else found


def written_rows(session: SparkSession, folder: Path) -> list[Any]:
    if not list((folder / "out").glob("*.parquet")):
        return []
    return session.read.parquet(str(folder / "out")).collect()


def repr_of(row: Any) -> tuple[str, ...]:
    """A row whose NaN are equal."""
    return (*map(repr, tuple(row)[:-1]), row[-1])


JOINS = {
    "two": "SELECT a.id, b.v, a.k + b.id AS x FROM s a JOIN t b ON a.k = b.k",
    "band": "SELECT a.id, b.id AS bid, b.v FROM s a JOIN t b ON b.id BETWEEN a.id AND a.id + 2 WHERE a.v IS NOT NULL",
    "itself": "SELECT a.id, b.id AS bid FROM s a JOIN s b ON a.k = b.k AND a.id < b.id",
    "three": "SELECT a.v, b.k, c.id AS cid FROM s a JOIN t b ON a.k = b.k JOIN u c ON b.id = c.id AND c.v > a.v",
    "nulls": "SELECT a.id, b.v, c.k AS ck FROM s a JOIN t b ON a.k <=> b.k JOIN u c ON b.id = c.id",
    "filtered": "SELECT x.id, y.v FROM (SELECT id, k FROM s WHERE v > 0) x JOIN t y ON x.k <=> y.k AND x.id <> y.id",
}


@pytest.mark.hypothesis
@FEW
@given(seed=st.integers(0, 10**6), name=st.sampled_from(sorted(JOINS)), early=st.sampled_from([0.0, 1.0]))
@example(seed=1, name="two", early=0.0)
@example(seed=2, name="band", early=0.0)
@example(seed=3, name="itself", early=0.0)
@example(seed=4, name="three", early=1.0)
@example(seed=5, name="filtered", early=1.0)
@example(seed=6, name="nulls", early=0.0)
def test_what_has_been_returned_is_the_join_of_what_is_there(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, seed: int, name: str, early: float
) -> None:
    opt, folder, random = Optimizer(spark.newSession()), tmp_path_factory.mktemp("changes"), Random(seed)
    tables = changing(opt, folder, "stu" if " u c " in JOINS[name] else "st")
    for _ in range(2):
        for table in tables:
            table.change(random, random.randrange(4, 12), early)
        found = run(opt, JOINS[name], folder)
        if not early:
            assert found == batch(tables, JOINS[name])
    if not early:
        return
    for table in tables:  # whatever has gone before it came, comes
        table.write([("insert", row) for row, n in table.rows.items() for _ in range(-n)])
        table.rows = +table.rows
    assert run(opt, JOINS[name], folder) == batch(tables, JOINS[name])


KEPT = """SELECT b.k, count(*) AS n, sum(a.id) AS total, max(b.v) AS most, avg(a.k) FROM s a JOIN t b ON a.k = b.k
WHERE a.id <> 3 GROUP BY b.k HAVING count(*) > 0 ORDER BY total DESC"""


@pytest.mark.parametrize(
    ("query", "over"),
    [
        (KEPT, "st"),
        ("SELECT * FROM s a JOIN t b ON a.id = b.id", "st"),
        ("SELECT DISTINCT a.k, b.v FROM s a JOIN t b ON a.k = b.k JOIN u c ON c.id = b.id", "stu"),
        ("SELECT k, count(*), min(v), collect_set(id) FROM s a GROUP BY k", "s"),
    ],
)
def test_a_kept_view_is_what_the_query_returns_over_the_rows_that_are_there(
    opt: Optimizer, tmp_path: Path, query: str, over: str
) -> None:
    random, tables = Random(query), changing(opt, tmp_path / "in", over)
    for _ in range(2):
        for table in tables:
            table.change(random, 12)
        view = opt.materialize(query, "kept", state=tmp_path / "state")
        found = Counter(str(tuple(map(repr, row))) for row in opt.session.table("kept").collect())
        assert found == batch(tables, query)
        assert (
            view.table().columns
            == opt.session.sql(
                query.replace("*", "a.id, a.k, a.v, b.id, b.k, b.v", 1) if "SELECT *" in query else query
            ).columns
        )
    if len(over) > 1:
        assert view.verify().same


def test_verify_adds_changes_up(opt: Optimizer, tmp_path: Path) -> None:
    random, tables = Random(7), changing(opt, tmp_path / "in", "st")
    for _ in range(3):
        for table in tables:
            table.change(random, 12)
    found = opt.verify(JOINS["two"])
    assert (found.same, found.rows > 3) == (True, True), found
    assert opt.verify("SELECT * FROM s a JOIN t b ON a.k = b.k").same


def test_what_is_kept_adds_up_when_it_is_merged(opt: Optimizer, tmp_path: Path) -> None:
    tables = changing(opt, tmp_path / "in", "st")
    row: Row = (1, 1, 1.0)
    for n in range(10):
        tables[0].write([("insert", row), ("insert", (n, 2, None))] if n % 2 == 0 else [("delete", row)])
        tables[1].write([("insert", (n, 2, None))])
    run(opt, JOINS["two"], tmp_path)
    kept = newest(tmp_path).inputs[0]
    assert kept.read == 15
    assert kept.rows == 4 + 3, "of the first eight epochs the rows that stayed, and the last two as they came"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT a.id FROM s a FULL JOIN t b ON a.k = b.id", "rows of a full join do not follow from changes"),
        ("SELECT a.id FROM s a LEFT JOIN t b ON a.k = b.k", r"several matches in t: ON compares no key of it, \(id\)"),
        ("SELECT a.op FROM s a JOIN t b ON a.k = b.k", "Op is the kind of a change, and no column of the result"),
        ("SELECT a.id FROM s a JOIN t b ON a.k = b.k WHERE b.op <> 'delete'", "Op is the kind of a change"),
        ("SELECT a.id AS op FROM s a JOIN t b ON a.k = b.k", "its rows have a column op, which is the name"),
        (
            "SELECT a.id FROM (SELECT * FROM s WHERE op = 'insert') a JOIN t b ON a.k = b.k",
            "computes or filters",
        ),
        (
            "SELECT a.id FROM s a JOIN t b ON a.k = b.k WHERE rand() < 2",
            r"rand\(\) may have another value when a row is deleted",
        ),
        (
            "SELECT rand() AS r, b.id FROM s a JOIN t b ON a.k = b.k",
            r"rand\(\) may have another value when a row is deleted",
        ),
        ("SELECT now() AS r, b.id FROM s a JOIN t b ON a.k = b.k", "now may have another value when a row is deleted"),
        ("SELECT odd(a.id) AS r, b.id FROM s a JOIN t b ON a.k = b.k", "it is not deterministic"),
        ("SELECT a.id FROM s a JOIN few b ON a.k = b.id", "read the other relations as streams too, or select Op"),
        (
            "SELECT count(*) FROM s",
            "opt.materialize computes the current rows, or select Op to see the changes as they",
        ),
        ("SELECT a.id FROM timed a JOIN t b ON a.k = b.k", "timed has a watermark"),
        ("SELECT a.id FROM big a JOIN t b ON a.k = b.k", "big is a view over it"),
        ("SELECT a.id AS __DT_count FROM s a JOIN t b ON a.k = b.k", "the query returns a column __dt_count, in which"),
        ("SELECT a.id FROM counted a JOIN t b ON a.k = b.k", "counted has a column __dt_count, in which .*; rename it"),
        ("SELECT a.id, b.word FROM t a JOIN words b ON a.k = b.id", "texts of word that are equal may differ"),
    ],
)
def test_what_is_refused(opt: Optimizer, tmp_path: Path, query: str, said: str) -> None:
    changing(opt, tmp_path / "in", "st")
    session = opt.session
    session.sql("SELECT *, current_timestamp() AS ts FROM s").withWatermark("ts", "1 second").createOrReplaceTempView(
        "timed"
    )
    session.sql("CREATE OR REPLACE TEMP VIEW big AS SELECT * FROM s WHERE id > 2")
    session.sql("CREATE OR REPLACE TEMP VIEW words AS SELECT id, op, op COLLATE UTF8_LCASE AS word FROM s")
    session.range(3).createOrReplaceTempView("few")
    session.udf.register("odd", udf(lambda n: n, "INT").asNondeterministic())
    session.sql("CREATE OR REPLACE TEMP VIEW counted AS SELECT *, v AS __dt_count FROM s")
    for name in ("timed", "words", "counted"):
        opt.declare_changelog(name, "op", ["id"])
    with pytest.raises(QueryError, match=f"is a changelog, and only state modules join changes, .*{said}"):
        run(opt, query, tmp_path)
    assert re.search(said, opt.stream_plan(query).explain())


def test_functions_of_the_user(opt: Optimizer, tmp_path: Path) -> None:
    tables = changing(opt, tmp_path / "in", "st")
    opt.session.udf.register("next", lambda n: n + 1, "INT")
    tables[0].write([("insert", (1, 1, None)), ("insert", (2, 1, None)), ("delete", (2, 1, None))])
    tables[1].write([("insert", (7, 1, None))])
    query = "SELECT next(a.id) AS r, b.id FROM s a JOIN t b ON a.k = b.k AND next(b.id) = 8"
    assert run(opt, query, tmp_path) == {"('2', '7')": 1}
    view = opt.materialize(query, "kept", state=tmp_path / "view")
    assert [tuple(row) for row in view.table().collect()] == [(2, 7)]


@pytest.mark.parametrize("query", ["SELECT * FROM s", "SELECT id, op FROM s", "SELECT id FROM s WHERE op = 'insert'"])
def test_changes_as_they_come(opt: Optimizer, tmp_path: Path, query: str) -> None:
    tables = changing(opt, tmp_path / "in", "s")
    tables[0].write([("insert", (1, 1, None)), ("delete", (1, 1, None))])
    sink = Sink("parquet", tmp_path / "out")
    opt.stream(query, checkpoint=tmp_path / "checkpoint", sink=sink, trigger="available now").awaitTermination()
    assert len(written_rows(opt.session, tmp_path)) == (1 if "WHERE" in query else 2)


@pytest.mark.parametrize("columns", ["id INT, op STRING", "id INT", "op STRING, id INT", "id BIGINT, op STRING"])
def test_a_table_has_to_fit(opt: Optimizer, tmp_path: Path, columns: str) -> None:
    tables = changing(opt, tmp_path / "in", "st")
    for table in tables:
        table.write([("insert", (1, 1, None))])
    opt.session.sql(f"CREATE TABLE fits ({columns}) USING parquet")

    def start() -> None:
        more: Any = {"checkpoint": tmp_path / "checkpoint", "trigger": "available now"}
        opt.stream("SELECT a.id FROM s a JOIN t b ON a.k = b.k", sink="fits", **more).awaitTermination()

    try:
        if columns == "id INT, op STRING":
            start()
            assert [tuple(row) for row in opt.session.table("fits").collect()] == [(1, "insert")]
            return
        with pytest.raises(OptionError, match=r"fits has the columns .*, and the query returns id int, Op string"):
            start()
        assert not (tmp_path / "checkpoint").exists()
    finally:
        opt.session.sql("DROP TABLE fits")


def test_partitions_by_the_kind_of_change(opt: Optimizer, tmp_path: Path) -> None:
    for table in changing(opt, tmp_path / "in", "st"):
        table.write([("insert", (1, 1, None))])
    sink, query = (
        Sink("parquet", tmp_path / "out", partition_by=(KIND,)),
        "SELECT a.id, b.k FROM s a JOIN t b ON a.k = b.k",
    )
    opt.stream(query, checkpoint=tmp_path / "c", sink=sink, trigger="available now").awaitTermination()
    assert [tuple(row) for row in opt.session.read.parquet(str(tmp_path / "out")).collect()] == [(1, 1, "insert")]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT count(*) FROM s a JOIN t b ON a.k = b.k WHERE rand() < 2", r"rand\(\) decides which rows are joined"),
        (
            "SELECT count(*) FROM s a JOIN few b ON a.k = b.id",
            "s is a changelog, .* read the other relations",
        ),
        ("SELECT count(*) FROM s WHERE id IN (SELECT id FROM few)", r"\(subquery 1\) has a subquery, whose result may"),
    ],
)
def test_what_cannot_be_kept(opt: Optimizer, tmp_path: Path, query: str, said: str) -> None:
    changing(opt, tmp_path / "in", "st")
    opt.session.range(3).createOrReplaceTempView("few")
    with pytest.raises(QueryError, match=f"this query cannot be maintained incrementally: .*{said}"):
        opt.materialize(query, "kept", state=tmp_path / "state")


def test_texts_that_are_equal_and_differ(opt: Optimizer, tmp_path: Path) -> None:
    """A deleted `A` does not take an `a` away, which a collation takes for the same."""
    (table,) = changing(opt, tmp_path / "in", "s")
    table.write([("insert", (1, 1, None)), ("delete", (1, 1, None)), ("insert", (2, 1, None))])
    words = "CREATE OR REPLACE TEMP VIEW words AS SELECT IF(id = 1, 'A', 'a') {} AS word, op FROM s"
    opt.session.sql(words.format("COLLATE UTF8_LCASE"))
    opt.declare_changelog("words", "op")
    with pytest.raises(QueryError, match="texts of c0 that are equal may differ, by its collation; name"):
        opt.materialize("SELECT word FROM words", "kept", state=tmp_path / "state")
    opt.session.sql(words.format("COLLATE UTF8_BINARY"))
    opt.declare_changelog("words", "op")
    kept = opt.materialize("SELECT word FROM words", "kept", state=tmp_path / "state")
    assert [tuple(row) for row in kept.table().collect()] == [("a",)]


def test_settings_that_lose_changes(opt: Optimizer, tmp_path: Path) -> None:
    changing(opt, tmp_path / "in", "st")
    with pytest.raises(OptionError, match="would lose rows that a later change takes away"):
        run(opt, JOINS["two"], tmp_path, state_ttl=1)
    with pytest.raises(QueryError, match="state_modules=False requests it"):
        run(opt, JOINS["two"], tmp_path, state_modules=False)


def test_other_errors_are_not_reported_as_a_kind_of_change(opt: Optimizer, tmp_path: Path) -> None:
    """Spark's error ends with its plan, in which the words of that error stand."""
    tables = changing(opt, tmp_path / "in", "st")
    tables[0].write([("insert", (0, 99, 1.0))])
    tables[1].write([("insert", (0, 99, 1.0))])
    with pytest.raises(StreamingQueryException, match=r"^\[STREAM_FAILED\](.|\n)*DIVIDE_BY_ZERO"):
        run(opt, "SELECT a.k FROM s a JOIN t b ON a.k = b.k AND 10 / (a.id + b.id) > 1", tmp_path)


def test_a_kind_of_change_that_is_none_ends_the_query(opt: Optimizer, tmp_path: Path) -> None:
    tables = changing(opt, tmp_path / "in", "st")
    tables[0].write([("upsert", (1, 99, 1.0))])
    with pytest.raises(StreamingQueryException, match=r"^upsert is no kind of change in s\.Op; write one of insert, "):
        run(opt, JOINS["two"], tmp_path)
    query = "SELECT a.k, count(*) FROM s a JOIN t b ON a.k = b.k GROUP BY a.k"
    for number in range(2):  # the second time there is a view
        if number:
            tables[0].write([("upsert", (1, 99, 1.0))])
        with pytest.raises(StreamingQueryException, match=r"^upsert is no kind of change in s\.Op"):
            opt.materialize(query, "kept", state=tmp_path / "state")
        tables[0].files = number
        tables[0].write([("insert", (1, 2 + number, 1.0))])
        tables[1].write([("insert", (2, 2 + number, 1.0))])
        opt.materialize(query, "kept", state=tmp_path / "state")
        assert dict(opt.session.table("kept").collect()) == {2 + n: 1 for n in range(number + 1)}
