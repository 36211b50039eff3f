"""Streams of files for tests, one file to an epoch; and a plain model in Python of what their join returns."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimizer import Optimizer, Sink

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

SCHEMA = "id INT, k INT, ts TIMESTAMP"
Row = tuple[int, int | None, int | None]  # id, key, time in milliseconds
Epochs = "Sequence[Sequence[Row]]"


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
    opt.stream(query, checkpoint=folder / "checkpoint", sink=sink, **more).awaitTermination()
    return written(opt.session, folder)


def written(session: SparkSession, folder: Path) -> Counter[tuple[Any, ...]]:
    """The rows that any reader of the files sees."""
    if not list((folder / "out").glob("*.parquet")):
        return Counter()
    return Counter(map(tuple, session.read.parquet(str(folder / "out")).collect()))


@dataclass
class Model:
    """A join of two lists of epochs, reckoned row by row.

    ``delays``: of the watermark of either side, in milliseconds, None without one.  ``ticks``: whether a row of a side
    moves its watermark, as one does not that the query drops for its other columns.
    """

    matches: Callable[[Row, Row], bool]
    delays: tuple[int | None, int | None]
    policy: Callable[[list[int]], int] = min
    ticks: Callable[[Row, int], bool] = lambda row, side: True
    late: list[int] = field(default_factory=lambda: [0, 0])

    def join(self, left: Sequence[Sequence[Row]], right: Sequence[Sequence[Row]]) -> Counter[tuple[Row, Row]]:
        """The pairs of rows that were not late."""
        kept = self.on_time(left, right)
        return Counter((a, b) for a in kept[0] for b in kept[1] if self.matches(a, b))

    def on_time(self, *sides: Sequence[Sequence[Row]]) -> tuple[list[Row], list[Row]]:
        """The rows of each side that were not late."""
        mark = 0 if self.delays != (None, None) else None
        greatest: list[int | None] = [None, None]
        kept: tuple[list[Row], list[Row]] = ([], [])
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
