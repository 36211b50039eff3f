"""DataFrames and values in braces: planned, and otherwise exactly what ``spark.sql`` does with them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail import Optimizer, Options
from effort import examples

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
BAND = "SELECT e.id, w.id AS w FROM {events} e JOIN {windows} w ON e.ts BETWEEN w.lo AND w.hi"


@pytest.fixture(scope="module")
def opt(spark: SparkSession) -> Optimizer:
    return Optimizer(spark.newSession(), Options(force=True))


@pytest.fixture
def frames(opt: Optimizer) -> Iterator[dict[str, DataFrame]]:
    session = opt.session
    events = session.range(200).selectExpr("id", "id * 7 % 100 AS ts")
    yield {"events": events, "windows": session.range(40).selectExpr("id", "id * 2 AS lo", "id * 2 + 3 AS hi")}
    assert [t.name for t in session.catalog.listTables()] == []


def test_a_join_of_frames_is_rewritten(opt: Optimizer, frames: dict[str, Any]) -> None:
    expected = opt.session.sql(BAND, **frames)
    for found in (opt.sql(BAND, **frames), opt.plan(BAND, **frames).dataframe()):
        assert sorted(found.collect()) == sorted(expected.collect())
        assert found.schema == expected.schema
    plan = opt.plan(BAND, **frames)
    assert "BandJoin" in plan.explain()
    assert "Scan  events_" in plan.explain()


def test_a_plan_outlives_the_views_and_sees_their_files(opt: Optimizer, frames: dict[str, Any], tmp_path: Path) -> None:
    path = str(tmp_path / "events")
    frames["events"].write.parquet(path)
    frames["events"] = opt.session.read.parquet(path)
    plan = opt.plan(BAND, **frames)
    assert plan.rewritten
    for _ in range(2):
        assert sorted(plan.dataframe().collect()) == sorted(opt.session.sql(BAND, **frames).collect())


def test_one_frame_by_two_names_and_in_a_container(opt: Optimizer, frames: dict[str, Any]) -> None:
    text = "SELECT a.id, b.id AS other FROM {x} a JOIN {y[0]} b ON a.ts BETWEEN b.ts AND b.ts + 3"
    given_: dict[str, Any] = {"x": frames["events"], "y": [frames["events"]]}
    assert opt.plan(text, **given_).rewritten
    assert sorted(opt.sql(text, **given_).collect()) == sorted(opt.session.sql(text, **given_).collect())


def test_a_frame_with_rand_is_read_as_spark_reads_it(opt: Optimizer, frames: dict[str, Any]) -> None:
    from pyspark.sql import functions as f

    once = frames["windows"].withColumn("lo", f.floor(f.rand() * 90)).withColumn("hi", f.col("lo") + 4)
    pairs = BAND.replace("w.id AS w", "w.id AS w, ts, lo")
    text = f"SELECT w, count(*) AS n, max(ts - lo) AS last FROM ({pairs}) GROUP BY w"
    for _ in range(3):
        assert all(0 <= row.last <= 4 for row in opt.sql(text, events=frames["events"], windows=once).collect())


TEXTS = (
    *("SELECT {n} AS n, {s} AS s FROM {events} WHERE id < {n}", "SELECT {events.id}, {events[ts]} FROM {events}"),
    *("SELECT {c} FROM {events} ORDER BY id", "SELECT '{{' AS b, id FROM {events} WHERE id IN (:x, 2)", "SELECT {n!r}"),
    *("SELECT * FROM {missing}", "SELECT * FROM {}", "SELECT } FROM {events}", "SELECT nowhere FROM {events}"),
    *("SELEC {n}", "SELECT {bad} FROM {events}", "{n:>4}", "SHOW TABLES", "SELECT count(*) FROM {events} LIMIT {n}"),
)


@settings(max_examples=examples(1 / 3))
@given(text=st.sampled_from(TEXTS), n=st.integers(-5, 300), s=st.sampled_from(["", "it's", "{n}", "\\n", '"', "`"]))
def test_the_same_rows_or_the_same_error(opt: Optimizer, text: str, n: int, s: str) -> None:
    from pyspark.sql import functions as f

    session = opt.session
    values: dict[str, Any] = {"events": session.range(9).selectExpr("id", "id * 2 AS ts"), "n": n, "s": s}
    values |= {"c": f.col("ts"), "bad": f.col("ts") + 1}
    args = {"x": 3} if ":x" in text else None

    def outcome(run: Any) -> Any:
        try:
            frame = run(text, args=args, **values) if args else run(text, **values)
            return frame.schema, sorted(map(str, frame.collect()))
        except Exception as error:  # noqa: BLE001  # whatever Spark or the formatter raises
            return type(error), re.sub(r"#\d+L?", "", str(error)).split("_pyspark_")[0]

    for name in [t.name for t in session.catalog.listTables()]:  # Spark's formatter leaves its views when it raises
        session.catalog.dropTempView(name)
    expected = outcome(session.sql)
    for name in [t.name for t in session.catalog.listTables()]:
        session.catalog.dropTempView(name)
    assert outcome(opt.sql) == expected
    assert outcome(lambda *a, **more: opt.plan(*a, **more).dataframe()) == expected
