"""Errors of a micro-batch reach the user, whatever Java has to say of them; two starts at once are one sentence."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import StreamingQueryException

from dovetail import Optimizer, StateError
from dovetail.executor.state.micro_batch import only_start, with_short_errors
from effort import examples

if TYPE_CHECKING:
    from pathlib import Path

BAND = "SELECT a.id, b.id AS other FROM s a JOIN t b ON a.id BETWEEN b.id AND b.id + 1"


@pytest.fixture
def streams(opt: Optimizer, tmp_path: Path) -> Optimizer:
    rows = opt.session.range(2).coalesce(1)
    for name in ("s", "t"):
        rows.write.parquet(str(tmp_path / name))
        opt.session.readStream.schema(rows.schema).parquet(str(tmp_path / name)).createOrReplaceTempView(name)
    return opt


def java_error(opt: Optimizer, message: str, depth: int) -> Py4JJavaError:
    """An error of the JVM whose causes make its text long."""
    jvm: Any = opt.session._jvm
    thrown = jvm.java.lang.IllegalStateException(message)
    for n in range(depth):
        thrown = jvm.java.lang.RuntimeException(f"{n}", thrown)
    return Py4JJavaError("An error occurred while calling o1.x.\n", thrown)


@settings(max_examples=examples(0.05), suppress_health_check=list(HealthCheck))
@given(depth=st.integers(0, 400), kind=st.sampled_from(["bare", "cause", "context", "text"]))
def test_the_text_that_spark_searches_is_short(streams: Optimizer, depth: int, kind: str) -> None:
    def fail(rows: Any, number: int) -> None:
        thrown = java_error(streams, "the disk is full", depth)
        if kind == "bare":
            raise thrown
        if kind == "text":
            raise ValueError(f"py4j.protocol.Py4JJavaError: {thrown}")
        try:
            raise thrown
        except Py4JJavaError as error:
            if kind == "cause":
                raise ValueError("it failed") from error
            raise ValueError("it failed")  # noqa: B904 - as users write it

    import traceback

    with pytest.raises(Exception) as raised:  # noqa: PT011 - of several classes
        with_short_errors(fail)(None, 1)  # type: ignore[arg-type]
    text = "".join(traceback.format_exception(raised.value))
    assert "py4j.protocol.Py4JJavaError: An error occurred while calling" not in text
    assert "the disk is full" in text
    assert kind == "text" or len(text) < 4_000


@pytest.mark.parametrize("state_modules", [True, False])
def test_a_query_does_not_end_as_if_it_had_succeeded(streams: Optimizer, tmp_path: Path, state_modules: bool) -> None:
    """Spark's pattern takes several frames of the thread's stack for each character; this text has a million."""
    query = BAND if state_modules else BAND.replace("b.id + 1", "b.id + 1 AND a.id = b.id")

    def fail(rows: Any, number: int) -> None:
        raise java_error(streams, "the disk is full", 2_000)

    more: Any = {"trigger": "available now", "state_modules": state_modules, "bins": False}
    begun = streams.stream(query, checkpoint=tmp_path / "c", sink=fail, **more)
    with pytest.raises(StreamingQueryException, match="the disk is full"):
        begun.awaitTermination()


def test_a_query_that_is_stopped_in_a_micro_batch_has_no_error(streams: Optimizer, tmp_path: Path) -> None:
    seen = []

    def slow(rows: Any, number: int) -> None:
        seen.append(number)
        jvm: Any = streams.session._jvm
        jvm.java.lang.Thread.sleep(60_000)

    begun = streams.stream(BAND, checkpoint=tmp_path / "c", sink=slow)
    while not seen:
        assert begun.isActive
    begun.stop()
    assert begun.exception() is None


def test_two_starts_at_once(streams: Optimizer, tmp_path: Path) -> None:
    jvm: Any = streams.session._jvm
    thrown = jvm.java.util.ConcurrentModificationException("x")
    said = "Another query starts on c at the same time, so stop one of them"
    with pytest.raises(StateError, match=said), only_start("c"):
        raise Py4JJavaError("An error occurred while calling o1.x.\n", thrown)


def test_views_whose_folder_is_spelled_in_two_ways_wait_for_one_another(streams: Optimizer, tmp_path: Path) -> None:
    query = "SELECT a.id, count(*) AS n FROM s a JOIN t b ON a.id = b.id GROUP BY a.id"
    streams.materialize(query, "v", state=tmp_path / "state")
    with ThreadPoolExecutor(4) as pool:
        folders = [f"{tmp_path}/state", f"file:{tmp_path}/state", f"{tmp_path}//state/", f"file://{tmp_path}/state"]
        found = list(pool.map(lambda folder: streams.materialize(query, "v", state=folder).table().count(), folders))
    assert found == [2] * 4
