"""What is measured once is not measured again, until the files change; and nothing else is remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dovetail.executor.catalog.measurement_cache import MeasurementCache, catalog_query

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

LENGTHS = "SELECT CAST(max(hi - lo) AS DOUBLE) AS longest FROM t"


class Asking:
    """Asks a memory, and counts how often it had to measure."""

    def __init__(self, session: SparkSession) -> None:
        self.session, self.measured = session, 0
        self.memory: MeasurementCache[tuple[float | None]] = MeasurementCache()

    def __call__(self, query: str) -> float | None:
        frame = self.session.sql(query)
        question = catalog_query(frame)
        found = self.memory.find(question) if question else None
        if found is None:
            self.measured += 1
            found = (frame.collect()[0][0],)
            if question:
                self.memory.keep(question, found)
        return found[0]


@pytest.fixture
def ask(spark: SparkSession, tmp_path: Path) -> Asking:
    """A memory for a session with a table ``t`` in Parquet."""
    session = spark.newSession()
    write(session, tmp_path / "t", 1)
    view(session, tmp_path / "t")
    return Asking(session)


def write(session: SparkSession, path: Path, length: int, mode: str = "error") -> None:
    rows = session.range(10).selectExpr("id AS lo", f"id + {length} AS hi", "id % 2 AS part")
    rows.coalesce(1).write.mode(mode).parquet(str(path))


def view(session: SparkSession, path: Path) -> None:
    session.read.parquet(str(path)).createOrReplaceTempView("t")


def test_a_question_is_measured_once(ask: Asking) -> None:
    assert [ask(LENGTHS), ask(LENGTHS), ask(LENGTHS)] == [1, 1, 1]
    assert ask.measured == 1


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
