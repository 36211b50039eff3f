"""What a driver may be doing when it is killed, and whether all is right once it has been started again."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dovetail import Optimizer, Sink
from dovetail.executor.state.folder import LocalFolder
from dovetail.executor.state.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

PAIRS = "SELECT a.id, b.id AS bid FROM s a JOIN t b ON a.k = b.k"
COUNTS = "SELECT a.k, count(*) AS n, sum(b.id) AS v FROM s a JOIN t b ON a.k = b.k GROUP BY a.k"
ROWS, KEYS = 4, 2


@dataclass
class Work:
    """A folder with two streams of files, the state of a query over them, and its sink."""

    folder: Path

    def streams(self, session: SparkSession) -> Optimizer:
        for name in "st":
            (self.folder / name).mkdir(parents=True, exist_ok=True)
            stream = session.readStream.schema("id INT, k INT").option("maxFilesPerTrigger", 1)
            stream.json(str(self.folder / name)).createOrReplaceTempView(name)
        return Optimizer(session)

    def add(self, files: int = 1) -> None:
        """More files of both streams."""
        for name in "st":
            there = self.files(name)
            for n in range(there, there + files):
                path = self.folder / name / f"{n:04}.json"
                rows = ({"id": ROWS * n + i, "k": i % KEYS} for i in range(ROWS))
                path.write_text("\n".join(map(json.dumps, rows)))
                os.utime(path, (1_700_000_000 + n,) * 2)

    def files(self, name: str) -> int:
        folder = self.folder / name
        return len(list(folder.iterdir())) if folder.exists() else 0

    def pairs(self) -> Counter[tuple[int, ...]]:
        """What the pairs have to be, from what has been written into the streams."""
        ids = range(ROWS * self.files("s"))
        return Counter((a, b) for a in ids for b in ids if a % ROWS % KEYS == b % ROWS % KEYS)

    def counts(self) -> Counter[tuple[int, ...]]:
        """What the groups have to be."""
        found: dict[int, list[int]] = {}
        for a, b in self.pairs():
            found.setdefault(a % ROWS % KEYS, []).append(b)
        return Counter((k, len(bs), sum(bs)) for k, bs in found.items())

    def check(self, session: SparkSession, views: dict[str, Counter[tuple[int, ...]]]) -> None:
        """Whatever is read of views and sinks, by plain Spark; and whether the state is whole."""
        for name, expected in views.items():
            if name != "out":
                assert Counter(map(tuple, session.table(name).collect())) == expected, name
                changes = self.folder / f"changes-{name}"
                if changes.exists():
                    assert net(session, changes) == expected, changes
            else:
                assert Counter(map(tuple, session.read.parquet(str(self.folder / name)).collect())) == expected
        store = Store(LocalFolder(self.folder / "state" / "checkpoint"))
        store.check(store.manifest(store.epochs()[-1]))


def net(session: SparkSession, folder: Path) -> Counter[tuple[int, ...]]:
    """The rows that are left after all changes in files."""
    found: Counter[tuple[int, ...]] = Counter()
    for *row, kind in session.read.parquet(str(folder)).collect():
        found[tuple(row)] += {"insert": 1, "delete": -1}[kind]
    assert min(found.values(), default=0) >= 0
    return +found


def stream(session: SparkSession, work: Work) -> None:
    opt, sink = work.streams(session), Sink("parquet", work.folder / "out")
    checkpoint = work.folder / "state" / "checkpoint"
    opt.stream(PAIRS, checkpoint=checkpoint, sink=sink, trigger="available now", state_modules=True).awaitTermination()
    work.check(session, {"out": work.pairs()})


def view(session: SparkSession, work: Work) -> None:
    opt, sink = work.streams(session), Sink("parquet", work.folder / "changes-counts")
    opt.materialize(COUNTS, "counts", state=work.folder / "state", sink=sink)
    work.check(session, {"counts": work.counts()})


def together(session: SparkSession, work: Work) -> None:
    opt = work.streams(session)
    sinks = {"pairs": Sink("parquet", work.folder / "changes-pairs")}
    opt.materialize_all({"pairs": PAIRS, "counts": COUNTS}, state=work.folder / "state", sinks=sinks)
    work.check(session, {"pairs": work.pairs(), "counts": work.counts()})


def alone(session: SparkSession, work: Work) -> None:
    opt = work.streams(session)
    sinks = {"pairs": Sink("parquet", work.folder / "changes-pairs")}
    opt.materialize_all({"pairs": PAIRS}, state=work.folder / "state", sinks=sinks)
    work.check(session, {"pairs": work.pairs()})


Step = "Callable[[SparkSession, Work], None]"


@dataclass(frozen=True)
class Scenario:
    """``before`` has taken so many ``files``; then there are so many ``more``, and ``step`` is killed."""

    step: Callable[[Any, Work], None]
    before: Callable[[Any, Work], None]
    files: int
    more: int = 1

    def prepare(self, session: SparkSession, work: Work) -> None:
        work.streams(session)
        if self.files:
            work.add(self.files)
            self.before(session, work)
        work.add(self.more)


SCENARIOS = {
    "first epoch": Scenario(stream, stream, 0),
    "epoch": Scenario(stream, stream, 2),
    "merge": Scenario(stream, stream, 7),
    "catch-up at epoch 0": Scenario(together, alone, 1, 0),
    "catch-up at epoch 1": Scenario(together, alone, 2, 0),
    "refresh": Scenario(view, view, 2),
    "refresh that merges": Scenario(view, view, 16),
    "refresh of two": Scenario(together, together, 2),
}


def restore(template: Path, work: Path) -> None:
    """Make a folder what it was before a step; under the same name, which Spark writes into its log."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(template, work)


def go_on(session: SparkSession, scenario: Scenario, work: Work) -> None:
    """Start again what was killed, and once more with another file of each stream; both look at what there is."""
    scenario.step(session.newSession(), work)
    work.add()
    scenario.step(session.newSession(), work)
