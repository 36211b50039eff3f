"""The driver is killed at random moments, for real; `make crash-test` does it more often."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from random import Random
from time import sleep
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pytest

from connect_port import wait_for_port
from dovetail.executor.state.folder import LocalFolder
from dovetail.executor.state.store import Store
from effort import SEED
from stream_crash_main import keep, run
from stream_feeds import stamp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.thorough  # where a driver is when it is killed hangs on the machine
KILLS = int(os.environ.get("DOVETAIL_KILLS", "5"))
MAIN = Path(__file__).parents[1] / "stream_crash_main.py"
COMMITTED = re.compile(r"/commits/\d+$")


class Driver:
    """A driver in a process of its own, with a session of the system's, so that its JVM is killed with it."""

    def __init__(self, folder: Path, name: str, query: str, where: str = "classic"):
        self.folder, self.errors = folder / name, folder / "errors"
        with self.errors.open("a") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(MAIN), str(folder), name, query],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
                env={**os.environ, "DOVETAIL_SESSION": where},
            )

    def dies_at_work(self, random: Random, *, with_state: bool) -> bool:
        """Let it begin, and kill it after so many writes, in whatever epoch; False if it comes to its end before.

        ``with_state``: the writes count from the moment at which Spark has committed an epoch.  The manifest of an
        epoch alone is no state that lasts: an epoch that runs again removes it.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n", self.errors.read_text()
        seen = before = self.files()
        writes, seconds = random.randrange(1, 60), random.uniform(0, 0.3)
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        while len(seen) - len(before) < writes and self.process.poll() is None:
            sleep(0.01)
            seen = seen | self.files()
            if with_state and not any(COMMITTED.search(file) for file in seen):
                before = seen
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return True
        assert self.process.stdout.readline() == "done\n", self.errors.read_text()
        return False

    def files(self) -> set[str]:
        """All that lies in its folder now."""
        return {f"{folder}/{name}" for folder, _, files in os.walk(self.folder) for name in files}

    def kill(self) -> None:
        with self.process, suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


@dataclass
class Feed:
    """Files of a stream in the order of their times, some rows of them late."""

    folder: Path
    random: Random
    files: int = 0

    def add(self, count: int) -> None:
        for epoch in range(self.files, self.files + count):
            times = [max(0, epoch * 10_000 + self.random.randrange(-4_000, 10_000)) for _ in range(30)]
            lines = [{"id": epoch * 30 + n, "k": self.random.randrange(3), "ts": stamp(t)} for n, t in enumerate(times)]
            path = self.folder / f"{epoch:04}.json"
            path.write_text("\n".join(map(json.dumps, lines)))
            os.utime(path, (1_700_000_000 + epoch,) * 2)
        self.files += count


@dataclass
class Changes(Feed):
    """Files of changes: new rows, and such that go, some of them with the file in which they came."""

    def add(self, count: int) -> None:
        for epoch in range(self.files, self.files + count):
            changes = []
            for n in range(8):
                row = (epoch * 8 + n, self.random.randrange(3), self.random.randrange(100))
                if self.there and self.random.random() < 0.4:
                    changes.append(("delete", self.there.pop(self.random.randrange(len(self.there)))))
                else:
                    self.there.append(row)
                    changes.append(("insert", row))
            lines = [{"id": i, "k": k, "v": v, "op": op} for op, (i, k, v) in changes]
            path = self.folder / f"{epoch:04}.json"
            path.write_text("\n".join(map(json.dumps, lines)))
            os.utime(path, (1_700_000_000 + epoch,) * 2)
        self.files += count

    def __post_init__(self) -> None:
        self.there: list[tuple[int, int, int]] = []

    def groups(self) -> set[tuple[int, int, int]]:
        """What the view has to be: by k, the pairs of rows that are there, and the sum of the later one's v."""
        return {(k, len(values), sum(values)) for k, values in self.later().items()}

    def later(self) -> dict[int, list[int]]:
        """By k, the v of the later row of each pair of rows that are there."""
        pairs = [(a[1], b[2]) for a in self.there for b in self.there if a[1] == b[1] and a[0] <= b[0]]
        return {k: [v for key, v in pairs if key == k] for k, _ in pairs}


def kill_drivers(folder: Path, name: str, query: str, feed: Feed, kills: int) -> int:
    """One driver after the other, each with three files more; how many were killed.  The next gets ready meanwhile.

    However the moments fall, the last driver is killed when there is a state to go on from.
    """
    drivers, killed = [Driver(folder, name, query)], 0
    try:
        while killed < kills and len(drivers) <= 2 * kills:
            drivers.append(Driver(folder, name, query))
            feed.add(3)
            killed += drivers[-2].dies_at_work(feed.random, with_state=killed == kills - 1)
        return killed
    finally:
        for driver in drivers:
            driver.kill()


def epochs(checkpoint: Path) -> list[list[Path]]:
    """The files that each epoch took: a source that was killed before its epoch began joins its file to the next."""
    begun: dict[Path, int] = {}
    for log in (checkpoint / "sources" / "0").glob("[0-9]*"):
        for entry in map(json.loads, log.read_text().splitlines()[1:]):
            begun[Path(unquote(urlsplit(entry["path"]).path))] = entry["batchId"]
    offsets = sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda log: int(log.name))
    ends = [json.loads(log.read_text().splitlines()[-1])["logOffset"] for log in offsets]
    taken = [[file for file, n in begun.items() if start < n <= end] for start, end in pairwise([-1, *ends])]
    return [sorted(files) for files in taken]


def rows(session: SparkSession, folder: Path) -> Counter[tuple[Any, ...]]:
    return Counter(map(tuple, session.read.parquet(str(folder / "out")).collect()))


@pytest.mark.parametrize(("query", "kills"), [("two", KILLS - KILLS // 2), ("three", KILLS // 2)])
def test_killed_at_random_moments(spark: SparkSession, tmp_path: Path, query: str, kills: int) -> None:
    (tmp_path / "killed.in").mkdir()
    assert kill_drivers(tmp_path, "killed", query, Feed(tmp_path / "killed.in", Random(SEED)), kills) == kills
    check_after_kills(spark, tmp_path, query)


@pytest.mark.connect
def test_servers_killed_at_random_moments(spark: SparkSession, tmp_path: Path) -> None:
    """Servers of Spark Connect, one after the other at the one port; a classic session goes on from their state."""
    (tmp_path / "killed.in").mkdir()
    feed, killed = Feed(tmp_path / "killed.in", Random(SEED)), 0
    for kill in range(2):
        driver = Driver(tmp_path, "killed", "two", "connect")
        try:
            feed.add(3)
            killed += driver.dies_at_work(feed.random, with_state=kill == 1)
        finally:
            driver.kill()
        wait_for_port()
    assert killed == 2
    check_after_kills(spark, tmp_path, "two")


def check_after_kills(spark: SparkSession, tmp_path: Path, query: str) -> None:
    """Run the query to its end; its rows and its state are those of a run that nothing disturbed."""
    fed, undisturbed = tmp_path / "killed.in", tmp_path / "quiet.in"
    undisturbed.mkdir()
    assert Store(LocalFolder(tmp_path / "killed" / "checkpoint")).epochs()
    run(spark.newSession(), tmp_path, "killed", query)
    taken = epochs(tmp_path / "killed" / "checkpoint")
    assert sorted(chain.from_iterable(taken)) == sorted(fed.iterdir())
    for epoch, files in enumerate(taken):
        path = undisturbed / f"{epoch:04}.json"
        path.write_text("\n".join(file.read_text() for file in files))
        os.utime(path, (1_700_000_000 + epoch,) * 2)
    run(spark.newSession(), tmp_path, "quiet", query)
    expected = rows(spark, tmp_path / "quiet")
    assert rows(spark, tmp_path / "killed") == expected
    assert len(expected) > 100
    stores = [Store(LocalFolder(tmp_path / name / "checkpoint")) for name in ("quiet", "killed")]
    for store in stores:
        store.check(store.manifest(store.epochs()[-1]))
    one, other = (store.manifest(store.epochs()[-1]) for store in stores)
    assert (one.epoch, one.watermark, one.times) == (other.epoch, other.watermark, other.times)
    assert [(i.rows, i.read, i.late) for i in one.inputs] == [(i.rows, i.read, i.late) for i in other.inputs]


@pytest.mark.parametrize("query", ["kept", "together"])
def test_kept_views_killed_at_random_moments(spark: SparkSession, tmp_path: Path, query: str) -> None:
    """One view, or two on one state, the second of which comes later."""
    kills = max(1, KILLS // 4)
    (tmp_path / "killed.in").mkdir()
    feed = Changes(tmp_path / "killed.in", Random(SEED))
    assert kill_drivers(tmp_path, "killed", query, feed, kills) == kills
    session = spark.newSession()
    view = keep(session, tmp_path, "killed", query)
    assert view.accumulators, "accumulators"
    for more in (0, 4, 1):
        feed.add(more)
        view = keep(session, tmp_path, "killed", query) if more else view
        assert {tuple(row) for row in view.table().collect()} == feed.groups()
    if query == "together":
        least = {tuple(row) for row in session.table("least").collect()}
        assert least == {(k, min(own)) for k, own in feed.later().items()}
    store = Store(LocalFolder(tmp_path / "killed" / "checkpoint"))
    store.check(store.manifest(store.epochs()[-1]))
