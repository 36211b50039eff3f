"""A refresh whose streaming query is stopped ends with an error or the whole result, and the next one resumes it."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Thread

import pytest
from pyspark.errors import StreamingQueryException

from dovetail import Optimizer, StateError
from stream_feeds import Feed
from waiting import until

QUERY = "SELECT a.k, count(*) AS n FROM s a JOIN t b ON a.k = b.k WHERE is_open(a.id) GROUP BY a.k"


def waiting_at(gate: Path) -> Path:
    """The file that is made when a row finds the gate closed."""
    return gate.with_name("waiting")


def stop_in_an_epoch(opt: Optimizer, gate: Path) -> None:
    """Stop every query of the session while an epoch waits for the gate, and open that."""
    assert until(waiting_at(gate).exists)
    running = opt.session.streams.active
    stops = [Thread(target=query.stop) for query in running]
    for stop in stops:
        stop.start()
    assert until(lambda: not any(query.isActive for query in running))
    gate.touch()
    for stop in stops:
        stop.join()


@pytest.mark.parametrize("together", [False, True])
def test_a_refresh_that_is_stopped(opt: Optimizer, tmp_path: Path, together: bool) -> None:
    gate, state = tmp_path / "gate", tmp_path / "state"
    path, waiting = str(gate), str(waiting_at(gate))

    def is_open(_: int) -> bool:
        while not Path(path).exists():
            Path(waiting).touch()
            time.sleep(0.02)
        return True

    opt.session.udf.register("is_open", is_open, "boolean")
    feeds = [Feed(opt.session, tmp_path / name, name) for name in "st"]
    for feed in feeds:
        feed.add([(n, n % 2, 0) for n in range(2)])
    gate.touch()
    if together:
        view = opt.materialize_all({"v": QUERY, "w": QUERY.replace("count(*)", "max(b.id)")}, state=state)["v"]
    else:
        view = opt.materialize(QUERY, "v", state=state)
    before = view.table().collect()
    for feed in feeds:
        feed.add([(n, n % 2, 0) for n in range(8)])
    gate.unlink()
    stopping = Thread(target=stop_in_an_epoch, args=(opt, gate))
    stopping.start()
    message = ""
    try:
        view.refresh()
    except (StateError, StreamingQueryException) as error:
        message = str(error)
    finally:
        stopping.join()
    if message:
        assert "was stopped before its end" in message or "JOB_CANCELLED" in message
        assert view.table().collect() == before
        view.refresh()
    assert {row.k: row.n for row in view.table().collect()} == {0: 25, 1: 25}
