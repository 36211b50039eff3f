"""Two runs of a query on one checkpoint: the loser says what is wrong, why, and what to do; and harms nothing."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from dovetail import Optimizer, Sink, StateError
from dovetail.executor.session.failures import spark_failure
from dovetail.executor.session.first_message import first_message
from dovetail.executor.state.epochs import Epochs
from dovetail.executor.state.folder import LocalFolder
from dovetail.executor.state.runs import check_owner, claim
from stream_feeds import Feed

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SENTENCE = (
    r"Another run of a query \(process \d+ on .+, since \S+ \S+ UTC\) runs on the checkpoint .*/c, so this run ends: "
    "two would write over each other's state. Stop one of them, or give one query another checkpoint and another sink"
)
SELF = "SELECT a.id, b.id AS bid FROM s a JOIN s b ON a.ts BETWEEN b.ts - INTERVAL 3 SECONDS AND b.ts"


def test_the_newest_run_owns_the_state(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path / "c" / "dovetail")
    first = claim(folder)
    check_owner(folder, first, str(tmp_path / "c"))
    second = claim(folder)
    check_owner(folder, second, str(tmp_path / "c"))
    with pytest.raises(StateError) as failed:
        check_owner(folder, first, str(tmp_path / "c"))
    assert re.fullmatch(SENTENCE, str(failed.value))
    assert len(list((tmp_path / "c" / "dovetail").iterdir())) == 1
    folder.delete(second)
    with pytest.raises(StateError, match=r"^Another run of a query runs on the checkpoint"):
        check_owner(folder, second, "c")


@pytest.mark.parametrize("when", ["between epochs", "in an epoch", "in an epoch that then fails"])
def test_a_run_ends_when_another_has_begun(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    session = spark.newSession()
    feed = Feed(session, tmp_path / "s", "s", delay=5)
    folder, run = LocalFolder(tmp_path / "c" / "dovetail"), Epochs._run
    taken: list[str] = []

    def taken_over(self: Epochs, batch: Any, epoch: int) -> None:
        if epoch == 1 and not taken:
            taken.append(claim(folder))
            if when.endswith("fails"):
                raise FileNotFoundError("removed by the other run")
        run(self, batch, epoch)

    if when != "between epochs":
        monkeypatch.setattr(Epochs, "_run", taken_over)
    more: dict[str, Any] = {"checkpoint": tmp_path / "c", "sink": Sink("parquet", tmp_path / "out")}
    query = Optimizer(session).stream(SELF, **more)
    try:
        feed.add([(1, 1, 1_000), (2, 1, 2_000)])
        query.processAllAvailable()
        if when == "between epochs":
            claim(folder)
        feed.add([(3, 1, 2_500)])
        with pytest.raises(Exception, match=SENTENCE) as failed:
            query.awaitTermination(600)
        assert re.match(SENTENCE, str(failed.value))
        assert re.match(SENTENCE, str(query.exception()))
    finally:
        query.stop()
    assert len(list((tmp_path / "c" / "dovetail").glob("epoch-*"))) == 1
    Optimizer(session).stream(SELF, **more, trigger="available now").awaitTermination()
    rows = Counter(map(tuple, session.read.parquet(str(tmp_path / "out")).collect()))
    assert rows == Counter([(1, 1), (2, 2), (3, 3), (1, 2), (1, 3), (2, 3)])


def test_the_first_message_of_a_report() -> None:
    report = "[STREAM_FAILED] … [CONCURRENT_STREAM_LOG_UPDATE] Concurrent update … [checkpointLocation=/data/c], Append"
    assert first_message(report).startswith("Another run of a query runs on the checkpoint /data/c, so this run ends:")
    report = "[STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY] The location file:/data/c/offsets should be empty on batch 0"
    assert first_message(report).startswith("Another run of a query runs on the checkpoint of this one, so this run")
    failure = spark_failure(StreamingQueryException(f"{report}\n=== Streaming Query ===\nIdentifier: …"))
    assert failure is not None
    assert failure.message == first_message(report)
    traces = "Traceback …\nsqlite3.Error: locked\n\nTraceback …\n"
    assert first_message(f"{traces}dovetail.planner.errors.LookupFailed: lookup in T failed\n") == "lookup in T failed"
    assert not first_message("[STREAM_FAILED] something else")
