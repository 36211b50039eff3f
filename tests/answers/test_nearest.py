"""Joins of which the nearest row counts, in sessions and over tables of several kinds."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.functions import udf

from comparing import few_rows
from dovetail import Optimizer, Options

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

FORCE = Options(force=True, strict=True)
BY = "SELECT t.id, q.v FROM {} t LEFT JOIN q EXACT NEAREST BY DISTANCE abs(t.ts - q.ts)"
AS_OF = "SELECT t.id, q.v FROM {} t LEFT ASOF JOIN q MATCH_CONDITION (t.ts >= q.ts) ON q.k = t.k"
LAST = (
    "SELECT t.id, q.v FROM t JOIN q ON q.k = t.k AND q.ts <= t.ts "
    "QUALIFY row_number() OVER (PARTITION BY t.id ORDER BY q.ts DESC) = 1"
)


@pytest.fixture
def tables(session: SparkSession, tmp_path: Path) -> SparkSession:
    """Views ``t`` and ``q`` of files, whose columns may be NULL, and ``s``, a stream of those of ``t``."""
    session.range(6).selectExpr("id", "id % 2 AS k", "id * 3 AS ts").write.parquet(str(tmp_path / "t"))
    session.range(9).selectExpr("id % 2 AS k", "id * 2 AS ts", "id AS v").write.parquet(str(tmp_path / "q"))
    for name in "tq":
        session.read.parquet(str(tmp_path / name)).createOrReplaceTempView(name)
    stream = session.readStream.schema(session.table("t").schema).parquet(str(tmp_path / "t"))
    stream.createOrReplaceTempView("s")
    return session


@pytest.mark.parametrize("has_it", ["true", "false"])
def test_a_stream_is_left_to_spark(tables: SparkSession, has_it: str) -> None:
    tables.conf.set("spark.sql.join.asofJoin.enabled", has_it)
    optimizer = Optimizer(tables, FORCE)
    assert not optimizer.plan(AS_OF.format("s")).rewritten
    if has_it == "false":
        with pytest.raises(PySparkException, match="ASOF_JOIN"):
            optimizer.sql(AS_OF.format("s"))
    assert optimizer.plan(AS_OF.format("t")).rewritten


@pytest.mark.parametrize("has_it", ["true", "false"])
def test_nearest_by_of_a_stream_is_left_to_spark(tables: SparkSession, has_it: str) -> None:
    tables.conf.set("spark.sql.crossJoin.enabled", has_it)
    optimizer = Optimizer(tables, FORCE)
    plan = optimizer.plan(BY.format("s"))
    assert not plan.rewritten
    with pytest.raises(PySparkException, match="NEAREST_BY_JOIN"):
        optimizer.sql(BY.format("s"))
    assert optimizer.plan(BY.format("t")).rewritten
    assert not optimizer.plan(f"CREATE TEMP VIEW latest AS {BY.format('t')}").rewritten
    tables.conf.unset("spark.sql.crossJoin.enabled")


OTHER = {
    "EXACT NEAREST 2 BY DISTANCE pow(t.ts - q.ts, 2)": "is no distance along one axis",
    "EXACT NEAREST 2 BY DISTANCE abs(t.ts - q.ts) + abs(t.id - q.v)": "is no distance along one axis",
    "EXACT NEAREST 2 BY DISTANCE abs(q.ts - q.v)": "is no distance along one axis",
    "APPROX NEAREST 2 BY DISTANCE abs(twice(t.ts) - q.ts)": "is not known to be deterministic",
    "APPROX NEAREST 2 BY DISTANCE abs(t.ts - q.ts) * rand()": "is not known to be deterministic",
    "EXACT NEAREST 33 BY DISTANCE abs(t.ts - q.ts)": "takes more than 32 rows",
    "EXACT NEAREST 2 BY SIMILARITY -abs(t.ts - CAST(q.ts AS DOUBLE))": "subtracts BIGINT and DOUBLE",
    "EXACT NEAREST 2 BY SIMILARITY -abs(CAST(t.ts AS DOUBLE) - CAST(q.ts AS DOUBLE))": "may be NaN",
    "EXACT NEAREST 2 BY SIMILARITY abs(t.ts - q.ts)": "is no distance along one axis",
}


@pytest.mark.parametrize("clause", OTHER)
def test_other_rankings_are_left_to_spark(tables: SparkSession, clause: str) -> None:
    tables.udf.register("twice", udf(lambda n: 2 * n, "long").asNondeterministic())
    text = f"SELECT t.id, q.v FROM t JOIN q {clause}"
    plan = Optimizer(tables, FORCE).plan(text)
    assert not plan.rewritten
    assert any(OTHER[clause] in declined.reason for declined in plan.declined), plan.declined
    assert tables.sql(text).schema == plan.dataframe().schema


def test_nearest_by_over_nasty_names(tables: SparkSession) -> None:
    tables.sql("SELECT id AS `by distance`, ts AS `a``b`, k AS __dt1_at, 7 AS nearest FROM t").createOrReplaceTempView(
        "`exact`"
    )
    tables.sql("SELECT v AS at, ts AS c0, k AS distance, v AS `a``b` FROM q").createOrReplaceTempView("`select`")
    text = (
        "SELECT *, `exact`.nearest AS n FROM `exact` EXACT LEFT JOIN `select` AS approx "
        "APPROX NEAREST 2 BY DISTANCE abs(`exact`.`a``b` + 1 - approx.c0) WHERE nearest = 7 ORDER BY `by distance`, at"
    )
    plan = Optimizer(tables, FORCE).plan(text)
    expected, found = tables.sql(text), plan.dataframe()
    assert plan.rewritten
    assert found.schema == expected.schema
    assert list(map(str, found.collect())) == list(map(str, expected.collect()))


def test_nearest_by_with_nested_columns(tables: SparkSession) -> None:
    """Columns of every kind travel with the rows, maps too, which nothing can sort or compare."""
    tables.sql("SELECT id, named_struct('x', ts) AS p, map(k, id) AS m, array(k) AS a FROM t").createOrReplaceTempView(
        "left_rows"
    )
    tables.sql("SELECT v, named_struct('x', ts) AS p, map(v, k) AS m FROM q").createOrReplaceTempView("right_rows")
    text = "SELECT * FROM left_rows l LEFT JOIN right_rows r EXACT NEAREST 2 BY SIMILARITY -abs(l.p.x * 2 - r.p.x - 1)"
    for ranking, rewritten in ((text, False), (text.replace(" - 1)", ")"), True)):
        plan = Optimizer(tables, FORCE).plan(ranking)
        assert plan.rewritten == rewritten
        assert plan.dataframe().schema == tables.sql(ranking).schema
    distances = "SELECT l.id, l.m, l.a, abs(l.p.x * 2 - r.p.x) AS d FROM" + text.replace(" - 1)", ")").split("FROM")[1]
    plan = Optimizer(tables, FORCE).plan(distances)
    assert plan.rewritten
    assert sorted(map(str, plan.dataframe().collect())) == sorted(map(str, tables.sql(distances).collect()))


def test_a_view_is_left_to_spark(tables: SparkSession) -> None:
    tables.conf.set("spark.sql.join.asofJoin.enabled", "false")
    plan = Optimizer(tables, FORCE).plan(f"CREATE TEMP VIEW latest AS {AS_OF.format('t')}")
    assert not plan.rewritten
    assert any("a view would keep the types" in declined.reason for declined in plan.declined)


NOT_NULL = {
    "SELECT t.id, q.y FROM VALUES (1, 5), (2, 9) AS t(id, x) JOIN VALUES (1, 4), (2, 7) AS q(id, y) ON q.y <= t.x "
    "QUALIFY row_number() OVER (PARTITION BY t.id ORDER BY q.y DESC) = 1": True,
    "SELECT t.id, l.y FROM VALUES (1, 5), (2, 9) AS t(id, x), LATERAL (SELECT q.y FROM VALUES (1, 4), (2, NULL) "
    "AS q(id, y) WHERE q.y <= t.x ORDER BY q.y DESC LIMIT 1) l": True,
    "SELECT v.id, l.* FROM v JOIN LATERAL (SELECT w.*, abs(v.x - w.y) AS d FROM v w ORDER BY d, id LIMIT 1) l": True,
    "SELECT v.id, l.* FROM v LEFT JOIN LATERAL (SELECT w.x, abs(v.x - w.x) AS d FROM v w WHERE w.y = v.y "
    "ORDER BY d, x LIMIT 1) l": True,
    "SELECT v.id, l.d FROM v JOIN LATERAL (SELECT abs(v.x - w.x) AS d FROM v w WHERE w.id <> v.id "
    "ORDER BY d LIMIT 1) l": False,
}


@pytest.mark.parametrize("query", NOT_NULL)
def test_columns_that_are_never_null_stay_such_columns(tables: SparkSession, query: str) -> None:
    tables.sql("CREATE OR REPLACE TEMP VIEW v AS SELECT id, id * 3 AS x, id % 2 AS y FROM range(6)")
    plan = Optimizer(tables, FORCE).plan(query)
    assert plan.rewritten == NOT_NULL[query]
    found, wanted = plan.dataframe(), tables.sql(query)
    assert found.schema == wanted.schema
    assert sorted(found.collect()) == sorted(wanted.collect())


def test_a_column_that_is_never_null_may_become_null(tables: SparkSession) -> None:
    """A plan that was made over the first table is not used over the second."""
    tables.sql("CREATE OR REPLACE TEMP VIEW files AS SELECT * FROM q")
    optimizer = Optimizer(tables, FORCE)
    for value in ("7L", "CASE WHEN ts > 4 THEN 7L END"):
        tables.sql(f"SELECT k, ts, {value} AS v FROM files").createOrReplaceTempView("q")
        expected = tables.sql(LAST)
        found = optimizer.sql(LAST)
        assert found.schema == expected.schema
        assert sorted(map(str, found.collect())) == sorted(map(str, expected.collect()))
    tables.catalog.dropTempView("files")


RANKED = LAST.replace(" QUALIFY", " WHERE {} QUALIFY")
LATERAL = (
    "SELECT t.id, x.v FROM t JOIN LATERAL (SELECT q.v FROM q WHERE q.k = t.k AND q.ts <= t.ts "
    "ORDER BY q.ts DESC LIMIT 1) x WHERE {}"
)


@pytest.mark.parametrize(
    ("query", "rewritten"),
    [
        (RANKED.format("t.note LIKE '%99999'"), False),
        (RANKED.format("q.v % 100000 = 3"), False),
        (RANKED.format("t.note LIKE '%9'"), True),
        (LATERAL.format("t.note LIKE '%99999'"), False),
        (LATERAL.format("t.note LIKE '%9'"), True),
    ],
)
def test_rows_that_a_filter_keeps_are_counted(
    session: SparkSession, tmp_path: Path, query: str, rewritten: bool
) -> None:
    """A sort of both sides costs more than the pairs of a few rows, and Spark estimates that a filter keeps all."""
    for name, column in (("t", "CAST(id AS STRING) AS note"), ("q", "id AS v")):
        path = str(tmp_path / name)
        session.range(100_000).selectExpr("id", "id % 7 AS k", "id AS ts", column).write.parquet(path)
        session.read.parquet(path).createOrReplaceTempView(name)
    assert Optimizer(session).plan(query).rewritten == rewritten


OTHERS = {  # each row and the nearest other one, where an id is of one row, or of none
    "SELECT t.id, min(abs(t.x - o.x)) AS d FROM t JOIN t o ON o.k = t.k AND o.id <> t.id GROUP BY t.id": True,
    "SELECT t.id, t.x, min_by(o.id, struct(abs(t.x - o.x), o.y, o.id)) AS i, min(abs(t.x - o.x)) AS d "
    "FROM t, t o WHERE t.id <> o.id GROUP BY ALL": True,
    "SELECT t.id, o.id AS i FROM t JOIN t o ON o.k = t.k AND t.id != o.id "
    "QUALIFY row_number() OVER (PARTITION BY t.id ORDER BY abs(t.x - o.x), o.y DESC, o.id) <= 2": True,
    "SELECT t.id, max(o.x) AS x FROM t JOIN t o ON o.k = t.k AND o.x <= t.x AND o.id <> t.id GROUP BY t.id": True,
    "SELECT t.id, max(o.x) AS x FROM t JOIN t o ON o.k = t.k AND o.x <= t.x AND o.y <> t.y GROUP BY t.id": False,
    "SELECT t.id, min(abs(t.x - o.x)) AS d FROM t LEFT JOIN t o ON o.k = t.k AND o.id <> t.id GROUP BY t.id": False,
    "SELECT t.id, min(abs(t.x - o.x)) AS d FROM t JOIN t o ON o.id <> CAST(t.id AS DOUBLE) GROUP BY t.id": False,
    "SELECT t.id, o.id AS i FROM t JOIN t o ON o.k = t.k AND o.id <> t.id AND o.x <= t.x "
    "QUALIFY rank() OVER (PARTITION BY t.id ORDER BY o.x DESC) = 1": False,
}


@pytest.mark.parametrize("query", OTHERS)
def test_the_nearest_other_row(session: SparkSession, query: str) -> None:
    for seed in range(5):
        rows = Random(seed)
        values = [
            f"({'NULL' if rows.random() < 0.1 else n}, {rows.choice(['1', '1', '2', 'NULL'])}, "
            f"{rows.choice(['0', '3', '4', '9', 'NULL'])}, {rows.choice(['0', '1', 'NULL'])})"
            for n in range(rows.choice([1, 2, 9, 9, 15]))
        ]
        few_rows(
            session,
            "t",
            "SELECT CAST(id AS INT) AS id, CAST(k AS INT) AS k, CAST(x AS INT) AS x, CAST(y AS INT) AS y "
            f"FROM VALUES {', '.join(values)}, (NULL, NULL, NULL, NULL) AS v(id, k, x, y)",
        )
        optimizer = Optimizer(session, FORCE)
        optimizer.declare_key("t", ["id"])
        plan = optimizer.plan(query)
        assert plan.rewritten == OTHERS[query]
        assert sorted(map(str, plan.dataframe().collect())) == sorted(map(str, session.sql(query).collect()))
