"""The settings of Spark with which an epoch runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dovetail.executor.state.answers import Rows
from dovetail.executor.state.epochs import epoch_settings, join_settings
from dovetail.executor.state.segments import settings
from dovetail.planner.state.manifest import Segment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


@pytest.mark.spark
def test_settings_of_the_user_come_back(spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set(THRESHOLD, "12345")
    inside = epoch_settings(session) | {THRESHOLD: "-1"}
    with settings(session, inside):
        assert {name: session.conf.get(name) for name in inside} == inside
    assert session.conf.get(THRESHOLD) == "12345"
    assert session.conf.get("spark.sql.files.minPartitionNum", None) is None
