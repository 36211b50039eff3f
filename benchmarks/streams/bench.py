"""The environment of every part: files of events as a stream, and one query over them run in several ways."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING, Any

from dovetail import Optimizer, Options, Sink
from dovetail.executor.state.files import HadoopFolder
from dovetail.executor.state.store import Store

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from benchmarks.harness import Report
    from dovetail.planner.state.manifest import Manifest

SCHEMA = "id BIGINT, k BIGINT, ts TIMESTAMP, v DOUBLE"
TIME_FORMAT = "yyyy-MM-dd HH:mm:ss.SSS"  # of times in CSV
PROVIDERS = {
    "RocksDB": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "in memory": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
}
ZIPF = "CAST(floor(pow({keys} + 1, rand({seed}))) AS BIGINT)"
EVEN = "CAST(floor(rand({seed}) * {keys}) AS BIGINT)"


@dataclass(frozen=True)
class Done:
    """A run: seconds of all of it and of each epoch, rows that came out, and what was kept at its end.

    ``bytes`` are those of the state's files, or of Spark's store, by its own metrics.
    """

    seconds: float
    epochs: tuple[float, ...]
    rows: int
    kept: int
    bytes: int
    folder: Path


@dataclass
class Bench:
    """A session, and streams of Parquet files in a folder."""

    spark: SparkSession
    report: Report
    scratch: Path
    quick: bool = False
    long: bool = False
    runs: int = field(default=0)

    def events(
        self, name: str, files: int, rows: int, *, span: float, keys: int, key: str = EVEN, first: int = 0
    ) -> Path:
        """Write files of so many events, each over the next ``span`` seconds; add to those that are there."""
        folder = self.scratch / name
        folder.mkdir(exist_ok=True)
        for number in range(first, first + files):
            start, kept = number * span, self.scratch / f".{name}"
            position = f"timestamp_micros(CAST(1704067200e6 + ({start} + rand({number}) * {span}) * 1e6 AS BIGINT))"
            value = key.format(keys=keys, seed=1000 + number)
            made = self.spark.range(number * rows, (number + 1) * rows, 1, 1)
            made.selectExpr("id", f"{value} AS k", f"{position} AS ts", "id / 7 AS v").write.parquet(str(kept))
            next(kept.glob("part-*.parquet")).rename(folder / f"{number:06}.parquet")
            shutil.rmtree(kept)
        return folder

    def session(self, streams: dict[str, Path], delay: str, provider: str = "", per_epoch: int = 1) -> SparkSession:
        """A session of its own that knows folders as streams, a file or several to an epoch."""
        session = self.spark.newSession()
        # What Spark reads of Parquet by itself is in its own type of time; ours says so too.
        session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        if provider:
            session.conf.set("spark.sql.streaming.stateStore.providerClass", PROVIDERS[provider])
        for name, folder in streams.items():
            stream = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", per_epoch).parquet(str(folder))
            stream.withWatermark("ts", delay).createOrReplaceTempView(name)
        return session

    def run(self, session: SparkSession, text: str, *, ours: bool, folder: Path | None = None) -> Done:
        """Run a query over all that is there, into Parquet files, from a new checkpoint or on in ``folder``."""
        if folder is None:
            self.runs += 1
            folder = self.scratch / f"run-{self.runs}"
        sink = Sink("parquet", folder / "out")
        opt = Optimizer(session, Options(force=False))
        start = perf_counter()
        query = opt.stream(
            text, checkpoint=folder / "checkpoint", sink=sink, trigger="available now", state_modules=ours
        )
        query.awaitTermination()
        seconds = perf_counter() - start
        progress: list[Any] = [p for p in query.recentProgress if p["numInputRows"]]
        epochs = tuple(p["batchDuration"] / 1000 for p in progress)
        rows = session.read.parquet(str(folder / "out")).count()
        if ours:
            state = self.state(folder)
            kept, size = sum(i.rows for i in state.inputs), sum(i.bytes for i in state.inputs)
        else:
            operators = query.recentProgress[-1]["stateOperators"]
            kept = sum(o["numRowsTotal"] for o in operators)
            size = sum(o["customMetrics"].get("rocksdbSstFileSize") or o["memoryUsedBytes"] for o in operators)
        return Done(seconds, epochs, rows, kept, size, folder)

    def state(self, folder: Path) -> Manifest:
        """The newest state of a run of ours."""
        store = Store(HadoopFolder(self.spark, str(folder / "checkpoint")))
        return store.manifest(store.epochs()[-1])


@cache
def note_of_machine() -> str:
    """A sentence for reports."""
    return "All of it runs on one machine: Spark's executor, its driver and the files share the cores."
