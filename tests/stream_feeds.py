"""Streams of files for tests, one file to an epoch; and a plain model in Python of what their join returns."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from hypothesis import Phase, settings
from hypothesis import strategies as st

from dovetail import Optimizer, Sink
from dovetail.executor.state.files import HadoopFolder
from dovetail.executor.state.folder import LocalFolder
from dovetail.executor.state.segments import Segments
from dovetail.executor.state.store import Store
from effort import examples, quick

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pytest
    from pyspark.sql import SparkSession

    from dovetail.planner.state.manifest import Manifest

SCHEMA = "id INT, k INT, ts TIMESTAMP"
Row = tuple[int, int | None, int | None]  # id, key, time in milliseconds
Epochs = "Sequence[Sequence[Row]]"

# Each example is a streaming query of its own: `make test` runs those that are written down.
FEW = settings(max_examples=examples(1 / 15), phases=[Phase.explicit] if quick() else tuple(Phase))
_rows = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.one_of(st.none(), st.integers(0, 2)),
        st.one_of(st.none(), st.integers(0, 12).map(lambda n: n * 1000)),
    ),
    max_size=5,
)


@st.composite
def arrivals(draw: st.DrawFn, streams: int) -> list[list[list[Row]]]:
    """Streams of as many epochs, in which time goes on, by and large."""
    epochs = draw(st.integers(1, 4))

    def later(found: list[Row], by: int) -> list[Row]:
        return [(i, k, None if t is None else t + by) for i, k, t in found]

    return [[later(draw(_rows), n * 8000) for n in range(epochs)] for _ in range(streams)]


def grow_ids(session: SparkSession, folder: Path, first: int) -> None:
    """Add two rows, from ``first`` on, to each of the streams ``s`` and ``t`` of ids, in folders of that name."""
    for name in ("s", "t"):
        rows = session.range(first, first + 2).coalesce(1)
        rows.write.mode("append").parquet(str(folder / name))
        session.readStream.schema(rows.schema).parquet(str(folder / name)).createOrReplaceTempView(name)


def stamp(milliseconds: int) -> str:
    """A time as JSON files have it."""
    day, rest = divmod(milliseconds, 86_400_000)
    hour, rest = divmod(rest, 3_600_000)
    minute, rest = divmod(rest, 60_000)
    return f"2024-01-{day + 1:02}T{hour:02}:{minute:02}:{rest // 1000:02}.{rest % 1000:03}Z"


@dataclass
class Feed:
    """A stream of files in a folder, under a name; ``delay`` in seconds for a watermark."""

    session: SparkSession
    folder: Path
    name: str
    delay: int | None = None
    files: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        stream = self.session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(self.folder))
        if self.delay is not None:
            stream = stream.withWatermark("ts", f"{self.delay} seconds")
        stream.createOrReplaceTempView(self.name)

    def table(self) -> None:
        """All that is there now, as a table of the stream's name with `_table` behind it."""
        self.session.read.schema(SCHEMA).json(str(self.folder)).createOrReplaceTempView(f"{self.name}_table")

    def add(self, rows: Sequence[Row]) -> None:
        """The next file."""
        lines = [json.dumps({"id": i, "k": k, "ts": None if t is None else stamp(t)}) for i, k, t in rows]
        hidden = self.folder / f".{self.files}"
        hidden.write_text("\n".join(lines))
        os.utime(hidden, (1_700_000_000 + self.files,) * 2)  # the order in which Spark takes files
        hidden.rename(self.folder / f"{self.files:04}.json")
        self.files += 1


def run(opt: Optimizer, query: str, folder: Path, **more: Any) -> Counter[tuple[Any, ...]]:
    """The rows that a query has written to Parquet files once it has taken all that is there."""
    sink = Sink("parquet", folder / "out")
    more = {"trigger": "available now", "state_modules": True, **more}
    args = more.pop("args", None)
    opt.stream(query, args, checkpoint=folder / "checkpoint", sink=sink, **more).awaitTermination()
    return written(opt.session, folder)


def written(session: SparkSession, folder: Path) -> Counter[tuple[Any, ...]]:
    """The rows that any reader of the files sees."""
    if not list((folder / "out").glob("*.parquet")):
        return Counter()
    return Counter(map(tuple, session.read.parquet(str(folder / "out")).collect()))


def out_of_order(seed: int, epoch: int, size: int) -> Sequence[Row]:
    """Rows of ten seconds, with a few that come late or out of order."""
    random = Random(seed * 1000 + epoch)
    times = [max(0, epoch * 10_000 + random.randrange(-3_000, 10_000)) for _ in range(size)]
    return [(epoch * size + n, random.randrange(3), time) for n, time in enumerate(times)]


def newest(folder: Path) -> Manifest:
    """The state after the last epoch of a query that ran in a folder."""
    store = Store(LocalFolder(folder / "checkpoint"))
    return store.manifest(store.epochs()[-1])


@dataclass
class Model:
    """A join of lists of epochs, reckoned row by row.

    ``delays``: of the watermark of each side, in milliseconds, None without one.  ``ticks``: whether a row of a side
    moves its watermark, as one does not that the query drops for its other columns.
    """

    matches: Callable[[Row, Row], bool]
    delays: tuple[int | None, ...]
    policy: Callable[[list[int]], int] = min
    ticks: Callable[[Row, int], bool] = lambda row, side: True
    late: Counter[int] = field(default_factory=Counter)

    def join(self, left: Sequence[Sequence[Row]], right: Sequence[Sequence[Row]]) -> Counter[tuple[Row, Row]]:
        """The pairs of rows that were not late."""
        kept = self.on_time(left, right)
        return Counter((a, b) for a in kept[0] for b in kept[1] if self.matches(a, b))

    def on_time(self, *sides: Sequence[Sequence[Row]]) -> tuple[list[Row], ...]:
        """The rows of each side that were not late."""
        mark = 0 if any(d is not None for d in self.delays) else None
        greatest: list[int | None] = [None for _ in sides]
        kept: tuple[list[Row], ...] = tuple([] for _ in sides)
        for arrived in zip(*sides, strict=True):
            for side, rows in enumerate(arrived):
                timed = self.delays[side] is not None
                for row in rows:
                    if timed and row[2] is not None and mark is not None and row[2] + START <= mark:
                        self.late[side] += 1
                    else:
                        kept[side].append(row)
                times = [row[2] + START for row in rows if row[2] is not None and self.ticks(row, side)]
                if times and timed:
                    greatest[side] = max([*times, greatest[side] or 0])
            marks = [0 if g is None else g - d for g, d in zip(greatest, self.delays, strict=True) if d is not None]
            if mark is not None and any(g is not None for g in greatest):
                mark = max(mark, self.policy(marks))
        return kept


START = 1_704_067_200_000  # 2024-01-01 in milliseconds


class Interrupted(Exception):
    """What stands for the end of the driver."""


def interrupting(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A countdown over all that is written beside a checkpoint: at nothing left, that write is interrupted."""
    left = [0]

    def counted(kind: type, name: str) -> None:
        whole = getattr(kind, name)

        def step(*given: Any, **more: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                raise Interrupted
            return whole(*given, **more)

        monkeypatch.setattr(kind, name, step)

    counted(HadoopFolder, "delete")
    counted(HadoopFolder, "delete_empty")
    counted(HadoopFolder, "rename")
    counted(HadoopFolder, "_rename")
    counted(Segments, "_save")
    return left


def arrive(feeds: list[Feed], epoch: int) -> None:
    """Add an epoch of rows, late ones and one without key and time among them, to each stream."""
    for seed, feed in enumerate(feeds):
        feed.add([*out_of_order(seed, epoch, 9), (7, None, None)])
