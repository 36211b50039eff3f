"""A statement that comes again gets the plan it had, unless something has changed that the plan hangs on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from comparing import assert_same
from dovetail import Optimizer, Options
from dovetail.executor.session.requests import analyze
from dovetail.optimizer.session.snapshot import take_snapshot
from sessions import for_few_rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from dovetail import Plan

QUERY = "SELECT p.x, i.w FROM points p JOIN intervals i ON p.x BETWEEN i.lo AND i.hi"
SELF = "SELECT x.v, y.w FROM points x JOIN points y ON x.id = y.id"


class Asked:
    """An optimizer of its own over two tables in Parquet."""

    def __init__(self, session: SparkSession, folder: Path) -> None:
        self.session, self.folder = session, folder
        self.write("points", 50, 3)
        self.write("intervals", 40, 5)
        self.optimizer = Optimizer(session, Options(nested_loop_pairs=1, broadcast_pairs=1, strict=True))

    def write(self, name: str, rows: int, length: int) -> None:
        items = f"id, id * 7 % 50 AS x, id AS v, id % 5 AS w, id AS lo, id + {length} AS hi"
        self.session.range(rows).selectExpr(*items.split(", ")).coalesce(1).write.mode("overwrite").parquet(
            str(self.folder / name)
        )
        self.view(name)

    def view(self, name: str, where: str = "true") -> None:
        self.session.read.parquet(str(self.folder / name)).where(where).createOrReplaceTempView(name)

    def plan(self, text: str = QUERY, args: dict[str, int] | None = None) -> Plan:
        plan = self.optimizer.plan(text, args)
        assert plan.rewritten
        if args is None:
            assert_same(self.session, text, plan)
        return plan

    def known(self, text: str = QUERY, args: dict[str, int] | None = None) -> bool:
        """Whether a statement is planned from memory: then no rule is timed."""
        return "rules" not in self.plan(text, args).timings


@pytest.fixture
def asked(spark: SparkSession, tmp_path: Path) -> Asked:
    return Asked(for_few_rows(spark), tmp_path)


def test_from_the_second_time_on(asked: Asked) -> None:
    assert [asked.known() for _ in range(3)] == [False, True, True]


def test_a_plan_that_is_shown_again_is_not_analyzed(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    asked.session.catalog.clearCache()
    asked.plan()
    analyzed: list[str] = []

    def analyze_and_count(session: SparkSession, text: str, args: Any) -> Any:
        analyzed.append(text)
        return analyze(session, text, args)

    monkeypatch.setattr("dovetail.executor.catalog.spark_catalog.analyze", analyze_and_count)
    plan = asked.optimizer.plan(QUERY)
    assert not analyzed
    assert plan.rewritten
    plan.dataframe()
    assert len(analyzed) == 1


def test_a_statement_that_runs_once_pays_no_snapshot(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []

    def take_and_count(plan: Plan, *others: Any) -> Any:
        taken.append(plan.text)
        return take_snapshot(plan, *others)

    monkeypatch.setattr("dovetail.optimizer.session.planner.take_snapshot", take_and_count)
    rows = sorted(map(tuple, asked.session.sql(QUERY).collect()))
    for _ in range(3):
        assert sorted(map(tuple, asked.optimizer.sql(QUERY).collect())) == rows
    assert taken == [QUERY]


def test_the_plan_is_the_same_in_all_that_can_be_seen(asked: Asked) -> None:
    first, known = asked.plan(), asked.plan()
    modes: list[Any] = ["plan", "trace", "cost", "sql"]
    for mode in modes:
        assert known.explain(mode) == first.explain(mode)
    assert known.declined == first.declined
    assert known.warnings == first.warnings
    assert known.dataframe() is not first.dataframe()


def test_a_join_that_spark_cannot_run_as_written(asked: Asked) -> None:
    """An ASOF JOIN has no plan of Spark's as written, and comes again from the cache, with its DataFrame."""
    text = "SELECT p.x, i.w FROM points p LEFT ASOF JOIN intervals i MATCH_CONDITION (p.x >= i.lo)"
    nearest = "SELECT p.x, (SELECT max_by(i.w, i.lo) FROM intervals i WHERE i.lo <= p.x) AS w FROM points p"
    plans = [asked.optimizer.plan(text) for _ in range(3)]
    assert_same(asked.session, nearest, plans[2])
    asked.write("intervals", 20, 5)
    plans.append(asked.optimizer.plan(text))
    assert ["rules" in plan.timings for plan in plans] == [True, False, False, True]
    assert_same(asked.session, nearest, plans[3])


def test_files_that_changed(asked: Asked) -> None:
    for _ in range(3):
        asked.plan()
    asked.write("intervals", 40, 9)
    assert not asked.known()
    assert asked.known()


def test_a_view_that_changed(asked: Asked) -> None:
    for _ in range(3):
        asked.plan()
    asked.view("points", "x > 20")
    assert not asked.known()


def test_a_setting_that_changed(asked: Asked) -> None:
    for _ in range(3):
        asked.plan()
    asked.session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    assert not asked.known()
    asked.session.conf.set("spark.sql.ansi.enabled", "false")
    assert not asked.known()


def test_a_key_that_is_declared_later(asked: Asked) -> None:
    for _ in range(3):
        assert not asked.optimizer.plan(SELF).rewritten
    asked.optimizer.declare_key("points", ["id"])
    for _ in range(3):
        assert asked.plan(SELF).rewritten
    asked.optimizer.declarations.keys.clear()
    assert not asked.optimizer.plan(SELF).rewritten


def test_parameters(asked: Asked) -> None:
    text = f"{QUERY} WHERE p.v > :least"
    rows = []
    for least in (10, 10, 10, 20, 10):
        plan = asked.plan(text, {"least": least})
        rows.append(len(plan.dataframe().collect()))
        assert rows[-1] == asked.session.sql(text, args={"least": least}).count()
    assert rows[0] == rows[2] == rows[4] > rows[3]


def test_rows_that_are_in_no_file(asked: Asked) -> None:
    rows = [(n, n + 2, n) for n in range(30)]
    asked.session.createDataFrame(rows, "lo BIGINT, hi BIGINT, w BIGINT").createOrReplaceTempView("intervals")
    assert [asked.known() for _ in range(4)] == [False] * 4


def test_statements_that_write(asked: Asked) -> None:
    for n in range(4):
        asked.optimizer.sql(f"CREATE OR REPLACE TEMP VIEW v{n % 2} AS {QUERY}")
    assert asked.session.table("v0").count() == asked.session.table("v1").count() > 0


def test_a_view_whose_table_is_another_one_now(asked: Asked) -> None:
    """The rewriting names the table behind a view; another table of that name must not be read in its place."""
    session, text = asked.session, "SELECT x, w FROM shown WHERE w >= 0"
    shown = f"CREATE OR REPLACE TEMP VIEW shown AS {QUERY.replace('points', '{}')}"
    path = asked.folder / "points"
    session.sql(f"CREATE TABLE behind USING parquet LOCATION '{path}'")
    session.sql(f"CREATE TABLE beside USING parquet LOCATION '{path}'")
    try:
        session.sql(shown.format("behind"))
        for _ in range(3):
            asked.plan(text)
        session.sql("DROP TABLE behind")
        session.sql("CREATE TABLE behind USING parquet AS SELECT 1L AS x, 1L AS v")
        session.sql(shown.format("beside"))
        for _ in range(3):
            assert_same(session, text, asked.optimizer.plan(text))
    finally:
        session.sql("DROP TABLE IF EXISTS behind")
        session.sql("DROP TABLE IF EXISTS beside")


def test_a_query_that_is_left_as_it_is(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dovetail.optimizer.session.plan_cache._WORTH", 0.0)
    text = "SELECT p.x, i.w FROM points p JOIN intervals i ON p.x + rand() BETWEEN i.lo AND i.hi AND p.id = 1;"
    plain = "SELECT p.x, i.w FROM points p JOIN intervals i ON p.x BETWEEN i.lo AND i.hi AND p.v = i.v;"
    optimizer = Optimizer(asked.session)

    def known(query: str) -> bool:
        plan = optimizer.plan(query)
        assert not plan.rewritten
        assert plan.sql() == query
        if query is plain:
            assert_same(asked.session, query, plan)
        return "rules" not in plan.timings

    assert [known(plain) for _ in range(4)] == [False, False, True, True]
    assert [known(text) for _ in range(4)] == [False] * 4
    asked.write("points", 10, 1)
    assert not known(plain)


@pytest.mark.parametrize("text", ["DROP VIEW points", "WITH a AS (SELECT 1 AS x) INSERT INTO taken SELECT * FROM a"])
def test_what_is_no_query_is_not_analysed_again(asked: Asked, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("dovetail.optimizer.session.plan_cache._WORTH", 0.0)
    optimizer = Optimizer(asked.session)
    for _ in range(3):
        optimizer.plan(text)
    assert asked.session.table("points").count() == 50


def test_a_query_with_names(asked: Asked) -> None:
    text = f"WITH met AS ({QUERY}) SELECT x, count(*) AS n FROM met GROUP BY x"
    assert [asked.known(text) for _ in range(3)] == [False, True, True]
    asked.write("points", 20, 3)
    assert not asked.known(text)


def test_a_view_whose_columns_have_other_names(asked: Asked) -> None:
    """Two plans can be the same but for names, and the rewriting spells those of the view."""
    shown = f"CREATE OR REPLACE TEMP VIEW shown AS {QUERY.replace('p.x, i.w', 'p.x AS {}, i.w')}"
    asked.session.sql(shown.format("one"))
    assert [asked.known("SELECT * FROM shown") for _ in range(3)] == [False, True, True]
    asked.session.sql(shown.format("other"))
    assert asked.plan("SELECT * FROM shown").dataframe().columns == ["other", "w"]


LONGEST = "SELECT -2147483648L AS lo, 2147483647L AS hi, 1L AS w, 0L AS id, 3L AS x, 7L AS v"


def replaced_in_place(asked: Asked) -> None:
    """The one file of the intervals has another content under its old name, and Spark is not told."""
    asked.session.sql(LONGEST).coalesce(1).write.mode("overwrite").parquet(str(asked.folder / "other"))
    old, new = (next((asked.folder / name).glob("*.parquet")) for name in ("intervals", "other"))
    old.with_name(f".{old.name}.crc").unlink()
    old.write_bytes(new.read_bytes())


def appended(asked: Asked) -> None:
    path = str(asked.folder / "intervals")
    asked.session.sql(LONGEST).selectExpr("id", "x", "v", "w", "lo", "hi").write.mode("append").parquet(path)


def appended_and_seen(asked: Asked) -> None:
    appended(asked)
    asked.view("intervals")


def appended_before_it_is_seen(asked: Asked) -> None:
    """A plan is made when the file is there, and not yet in the view."""
    appended(asked)
    asked.plan()
    asked.plan()
    asked.view("intervals")


def appended_and_refreshed(asked: Asked) -> None:
    appended(asked)
    asked.session.catalog.refreshTable("intervals")


def rows_without_a_file(asked: Asked) -> None:
    asked.session.sql(LONGEST).createOrReplaceTempView("intervals")


def another_type(asked: Asked) -> None:
    asked.session.table("points").selectExpr("id", "CAST(x AS DOUBLE) AS x", "v").createOrReplaceTempView("points")


def another_setting(asked: Asked) -> None:
    asked.session.conf.set("spark.sql.ansi.enabled", "false")


def another_case(asked: Asked) -> None:
    asked.session.conf.set("spark.sql.caseSensitive", "true")


CHANGES = [
    replaced_in_place,
    appended,
    appended_and_seen,
    appended_before_it_is_seen,
    appended_and_refreshed,
    rows_without_a_file,
    another_type,
    another_setting,
    another_case,
]


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_changes_between_two_calls(asked: Asked, change: Callable[[Asked], None]) -> None:
    for text in (QUERY, f"SELECT x, count(*) AS n FROM ({QUERY}) GROUP BY x"):
        for _ in range(2):
            asked.plan(text)
    change(asked)
    for text in (QUERY, f"SELECT x, count(*) AS n FROM ({QUERY}) GROUP BY x"):
        for _ in range(3):
            assert_same(asked.session, text, asked.optimizer.plan(text))


def test_tables_that_change(asked: Asked) -> None:
    session = asked.session
    path = asked.folder / "intervals"
    text = QUERY.replace("intervals", "kept")

    def same() -> None:
        for _ in range(3):
            assert_same(session, text, asked.optimizer.plan(text))

    session.sql(f"CREATE TABLE kept USING parquet LOCATION '{asked.folder / 'kept'}' AS SELECT * FROM parquet.`{path}`")
    try:
        same()
        session.sql("INSERT INTO kept SELECT 1, 2, 3, 4, -2147483648, 2147483647")
        same()
        session.sql("INSERT OVERWRITE kept SELECT 1, 2, 3, 4, 5, 50")
        same()
        session.sql("DROP TABLE kept")
        session.sql("CREATE TABLE kept USING parquet AS SELECT 1D AS lo, 1e300D AS hi, 'w' AS w")
        same()
        session.sql("CREATE OR REPLACE TEMP VIEW kept AS SELECT 0 AS lo, 3 AS hi, 5 AS w")
        same()
        session.sql("DROP VIEW kept")
        session.sql("CREATE DATABASE IF NOT EXISTS elsewhere")
        session.sql("CREATE TABLE elsewhere.kept USING parquet AS SELECT 7 AS lo, 9 AS hi, 5 AS w")
        session.sql("USE elsewhere")
        same()
    finally:
        session.sql("USE default")
        session.sql("DROP DATABASE IF EXISTS elsewhere CASCADE")
        session.sql("DROP TABLE IF EXISTS kept")


def test_a_function_that_is_another_one_now(asked: Asked) -> None:
    text = "SELECT p.x, i.w FROM points p JOIN intervals i ON p.x BETWEEN i.lo AND moved(i.hi)"
    for more in (0, 30):
        asked.session.udf.register("moved", lambda hi, more=more: hi + more, "BIGINT")
        for _ in range(3):
            assert_same(asked.session, text, asked.optimizer.plan(text))


def test_a_table_that_a_rewriting_does_not_name(asked: Asked) -> None:
    """The second relation is gone from the rewriting, and means another table later."""
    text = "SELECT x.v, y.w FROM points x JOIN spark_catalog.default.points y ON x.id = y.id"
    path = asked.folder / "points"
    asked.session.sql(f"CREATE TABLE points USING parquet LOCATION '{path}'")
    asked.session.sql("DROP VIEW points")
    try:
        asked.optimizer.declare_key("points", ["id"])
        for _ in range(3):
            assert_same(asked.session, text, asked.optimizer.plan(text))
        asked.view("points", "x > 20")
        for _ in range(3):
            assert_same(asked.session, text, asked.optimizer.plan(text))
    finally:
        asked.session.sql("DROP TABLE spark_catalog.default.points")
