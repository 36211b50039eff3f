"""The settings of Spark with which an epoch runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dovetail import Optimizer
from dovetail.executor.state import epochs
from dovetail.executor.state.answers import Rows
from dovetail.executor.state.epochs import epoch_settings, join_settings
from dovetail.executor.state.segments import settings
from dovetail.planner.state.manifest import Segment
from stream_feeds import Feed

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"


def of_rows(*counts: int) -> tuple[tuple[Segment, ...], ...]:
    """Segments of so many rows, one of each input; none where there are no rows."""
    return tuple((Segment("f", (), rows, (), None, None, 0, 0, None),) if rows else () for rows in counts)


@pytest.mark.parametrize(
    ("new", "before"),
    [((200_000,), (0,)), ((500_000,), (4_000_000,)), ((200_000, 300_000), (1_000_000, 3_000_000))],
)
def test_many_new_rows_are_not_broadcast(new: tuple[int, ...], before: tuple[int, ...]) -> None:
    assert join_settings(Rows(3, of_rows(*before), of_rows(*new))) == {THRESHOLD: "-1"}


@pytest.mark.parametrize(
    ("new", "before"),
    [((199_999,), (0,)), ((500_000, 1_000), (0, 0)), ((500_000, 0), (0, 500_000)), ((200_000,), (1_600_001,))],
)
def test_spark_decides_for_few_new_rows_and_a_large_state(new: tuple[int, ...], before: tuple[int, ...]) -> None:
    assert join_settings(Rows(3, of_rows(*before), of_rows(*new))) == {}


def test_an_epoch_runs_with_its_settings(opt: Optimizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second epoch has as many rows as are spread; the first has none."""
    monkeypatch.setattr(epochs, "_SPREAD_ROWS", 3)
    opt.session.conf.set(THRESHOLD, "12345")
    found: list[tuple[str | None, ...]] = []

    def keep(rows: DataFrame, epoch: int) -> None:
        found.append(tuple(rows.sparkSession.conf.get(name) for name in (THRESHOLD, "spark.sql.files.minPartitionNum")))

    feed = Feed(opt.session, tmp_path / "s", "s", delay=5)
    for number in (0, 3):
        feed.add([(n, 1, n) for n in range(number)])
    query = (
        "SELECT a.id, b.id AS bid FROM s a JOIN s b ON a.k = b.k AND a.ts BETWEEN b.ts AND b.ts + INTERVAL 5 SECONDS"
    )
    opt.stream(query, checkpoint=tmp_path / "c", sink=keep, trigger="available now").awaitTermination()
    tasks = str(4 * opt.session.sparkContext.defaultParallelism)
    assert found == [("12345", tasks), ("-1", tasks)]
    assert opt.session.conf.get(THRESHOLD) == "12345"


@pytest.mark.spark
def test_settings_of_the_user_come_back(spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set(THRESHOLD, "12345")
    inside = epoch_settings(session) | {THRESHOLD: "-1"}
    with settings(session, inside):
        assert {name: session.conf.get(name) for name in inside} == inside
    assert session.conf.get(THRESHOLD) == "12345"
    assert session.conf.get("spark.sql.files.minPartitionNum", None) is None
