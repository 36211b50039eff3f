"""What is measured once is not measured again, until the files change; and nothing else is remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dovetail.executor.catalog import spark_catalog
from dovetail.executor.catalog.measurement_cache import MeasurementCache, catalog_query
from dovetail.executor.catalog.spark_catalog import SparkCatalog
from dovetail.executor.session.batch import run
from dovetail.planner.catalog.measure import length_classes_sql

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from dovetail.planner.catalog import Numbers

LENGTHS = "SELECT CAST(max(hi - lo) AS DOUBLE) AS longest FROM t"


class Asking:
    """Measures as planning does, with one cache, and counts what Spark analyzed and what it ran."""

    def __init__(self, session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
        self.session, self.analyzed, self.measured = session, 0, 0
        self.memory: MeasurementCache[tuple[Numbers, ...]] = MeasurementCache()
        numbers = spark_catalog._numbers

        def analyze(*statement: Any) -> DataFrame:
            self.analyzed += 1
            return run(*statement)

        def measure(frame: DataFrame) -> tuple[Numbers, ...]:
            self.measured += 1
            return numbers(frame)

        monkeypatch.setattr(spark_catalog, "query_frame", analyze)
        monkeypatch.setattr(spark_catalog, "_numbers", measure)

    def __call__(self, query: str) -> float | None:
        catalog = SparkCatalog(self.session, measurements=self.memory)
        for name in ("t", "kept", "frame"):
            catalog.columns((name,))
        found = catalog.measure(query)
        assert found is not None
        return found[0][0]


@pytest.fixture
def ask(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asking:
    """A cache for a session with a table ``t`` in Parquet."""
    session = spark.newSession()
    write(session, tmp_path / "t", 1)
    view(session, tmp_path / "t")
    return Asking(session, monkeypatch)


def write(session: SparkSession, path: Path, length: int, mode: str = "error") -> None:
    rows = session.range(10).selectExpr("id AS lo", f"id + {length} AS hi", "id % 2 AS part")
    rows.coalesce(1).write.mode(mode).parquet(str(path))


def view(session: SparkSession, path: Path) -> None:
    session.read.parquet(str(path)).createOrReplaceTempView("t")


def test_a_question_is_measured_once(ask: Asking) -> None:
    assert [ask(LENGTHS), ask(LENGTHS), ask(LENGTHS)] == [1, 1, 1]
    assert (ask.analyzed, ask.measured) == (1, 1)


def test_another_text_of_the_same_question_is_analyzed(ask: Asking) -> None:
    assert [ask(LENGTHS), ask(LENGTHS + " WHERE true"), ask(LENGTHS.lower())] == [1, 1, 1]
    assert (ask.analyzed, ask.measured) == (3, 2)


def test_small_inputs_are_measured_in_one_task(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    query, plans = length_classes_sql("SELECT CAST(lo AS DOUBLE) AS low, CAST(hi AS DOUBLE) AS high FROM t"), []
    measure = spark_catalog._numbers

    def keep_plan(frame: DataFrame) -> tuple[Numbers, ...]:
        plans.append(frame._jdf.queryExecution().executedPlan().toString())
        return measure(frame)

    monkeypatch.setattr(spark_catalog, "_numbers", keep_plan)
    found = [SparkCatalog(ask.session, one_task_bytes=size).measure(query) for size in (2**20, 1)]
    assert found == [((10.0, 10.0, 1.0, 0.0, 10.0),)] * 2
    assert ["Exchange" in plan for plan in plans] == [False, True]


def test_another_session_knows_the_same_files(ask: Asking, tmp_path: Path) -> None:
    ask(LENGTHS)
    ask.session = ask.session.newSession()
    view(ask.session, tmp_path / "t")
    assert ask(LENGTHS) == 1
    assert ask.measured == 1


def test_another_question_is_measured(ask: Asking) -> None:
    ask(LENGTHS)
    assert ask(LENGTHS + " WHERE part = 1") == 1
    assert ask(LENGTHS + " WHERE part = 0") == 1
    assert ask.measured == 3


def test_a_view_of_the_same_name_over_other_rows_is_measured(ask: Asking, tmp_path: Path) -> None:
    ask(LENGTHS)
    rows = ask.session.read.parquet(str(tmp_path / "t"))
    rows.where("lo < 0").createOrReplaceTempView("t")
    assert ask(LENGTHS) is None
    rows.selectExpr("lo", "hi + 5 AS hi").createOrReplaceTempView("t")
    assert ask(LENGTHS) == 6
    assert ask.measured == 3


def test_files_written_anew_are_measured(ask: Asking, tmp_path: Path) -> None:
    ask(LENGTHS)
    write(ask.session, tmp_path / "t", 7, "overwrite")
    view(ask.session, tmp_path / "t")
    assert ask(LENGTHS) == 7
    assert ask.measured == 2


def test_a_file_added_is_measured_though_the_view_is_old(ask: Asking, tmp_path: Path) -> None:
    ask(LENGTHS)
    write(ask.session, tmp_path / "t", 7, "append")
    ask(LENGTHS)
    assert ask.measured == 2


def test_a_file_overwritten_in_its_place_is_measured(ask: Asking, tmp_path: Path) -> None:
    ask(LENGTHS)
    write(ask.session, tmp_path / "other", 9)
    old, new = (next((tmp_path / name).glob("*.parquet")) for name in ("t", "other"))
    for file in (old, old.with_name(f".{old.name}.crc")):
        file.unlink()
    old.write_bytes(new.read_bytes())
    assert ask(LENGTHS) == 9
    assert ask.measured == 2


def test_tables_of_the_catalog_are_files_too(ask: Asking, tmp_path: Path) -> None:
    ask.session.sql(f"CREATE TABLE kept USING parquet LOCATION '{tmp_path / 't'}'")
    try:
        for _ in range(2):
            ask(LENGTHS.replace("FROM t", "FROM kept"))
        assert ask.measured == 1
        ask.session.sql("INSERT INTO kept VALUES (0, 50, 0)")
        assert ask(LENGTHS.replace("FROM t", "FROM kept")) == 50
    finally:
        ask.session.sql("DROP TABLE kept")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT CAST(max(id) AS DOUBLE) FROM range(5)",
        "SELECT CAST(max(x) AS DOUBLE) FROM VALUES (1), (2) AS v(x)",
        "SELECT CAST(max(id) AS DOUBLE) FROM frame",
        "SELECT CAST(max(hi) AS DOUBLE) FROM t WHERE rand() < 2",
        "SELECT CAST(max(hi) AS DOUBLE) FROM t WHERE now() > DATE '2000-01-01'",
        "SELECT CAST(max(hi) AS DOUBLE) FROM t WHERE current_date > DATE '2000-01-01'",
        "SELECT CAST(max(hi) AS DOUBLE) FROM t JOIN frame ON t.lo = frame.id",
        "SELECT CAST(max(hi) AS DOUBLE) FROM t WHERE lo < (SELECT max(id) FROM frame)",
    ],
)
def test_what_is_not_files_alone_is_not_remembered(ask: Asking, query: str) -> None:
    ask.session.createDataFrame([(1,), (2,)], "id BIGINT").createOrReplaceTempView("frame")
    assert catalog_query(ask.session.sql(query)) is None
    ask(query)
    ask(query)
    assert ask.measured == 2


def test_the_oldest_answers_are_forgotten(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dovetail.executor.catalog.measurement_cache._MOST", 2)
    for n in (1, 2, 3, 3, 1):
        ask(f"{LENGTHS} WHERE lo < {n}")
    assert ask.measured == 4
