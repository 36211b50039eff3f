"""The environment of every part: files of events as a stream, and one query over them run in several ways."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass, field
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING, Any

from dovetail import Optimizer, Options, Sink
from dovetail.executor.state.files import HadoopFolder
from dovetail.executor.state.store import Store

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from benchmarks.harness import Report
    from dovetail.planner.state.manifest import Manifest

SCHEMA = "id BIGINT, k BIGINT, ts TIMESTAMP, v DOUBLE"
TIME_FORMAT = "yyyy-MM-dd HH:mm:ss.SSS"  # of times in CSV
_STORE = "spark.sql.streaming.stateStore"
_PROVIDER = "org.apache.spark.sql.execution.streaming.state.{}StateStoreProvider"
_ROCKSDB = {f"{_STORE}.providerClass": _PROVIDER.format("RocksDB")}
_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
# Spark's own join with each store and each format of its state; only RocksDB takes formats 3 and 4. The last way also
# writes changes in the place of snapshots, and counts no rows.
SPARK: dict[str, dict[str, str]] = {
    "Spark, in memory": {f"{_STORE}.providerClass": _PROVIDER.format("HDFSBacked")},
    "Spark, RocksDB, format 2": _ROCKSDB,
    "Spark, RocksDB, format 3": {**_ROCKSDB, _FORMAT: "3"},
    "Spark, RocksDB, format 4": {**_ROCKSDB, _FORMAT: "4"},
    "Spark, RocksDB, format 4, changelog": {
        **_ROCKSDB,
        _FORMAT: "4",
        f"{_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
        f"{_STORE}.rocksdb.trackTotalNumberOfRows": "false",
    },
}
OURS = "state modules"
LIMIT = 300.0  # seconds after which a run of Spark's own join is stopped
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

    def session(
        self, streams: dict[str, Path], delay: str, settings: Mapping[str, str] | None = None, per_epoch: int = 1
    ) -> SparkSession:
        """A session of its own that knows folders as streams, a file or several to an epoch."""
        session = self.spark.newSession()
        # What Spark reads of Parquet by itself is in its own type of time; ours says so too.
        session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        for setting, value in (settings or {}).items():
            session.conf.set(setting, value)
        for name, folder in streams.items():
            stream = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", per_epoch).parquet(str(folder))
            stream.withWatermark("ts", delay).createOrReplaceTempView(name)
        return session

    def run(self, session: SparkSession, text: str, *, folder: Path | None = None) -> Done:
        """Run a query on state modules over all that is there, from a new checkpoint or on in ``folder``."""
        folder = folder or self.new_folder()
        opt, sink = Optimizer(session, Options(force=False)), Sink("parquet", folder / "out")
        start = perf_counter()
        query = opt.stream(
            text, checkpoint=folder / "checkpoint", sink=sink, trigger="available now", state_modules=True
        )
        query.awaitTermination()
        seconds = perf_counter() - start
        inputs = self.state(folder).inputs
        return self._done(query, seconds, sum(i.rows for i in inputs), sum(i.bytes for i in inputs), folder)

    def run_spark(self, session: SparkSession, text: str, limit: float = LIMIT) -> Done | None:
        """Run a query as Spark's own streaming query, from a new checkpoint; None where the limit ends it."""
        folder = self.new_folder()
        start = perf_counter()
        writer = session.sql(text).writeStream.format("parquet").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(folder / "checkpoint")).start(str(folder / "out"))
        if not query.awaitTermination(math.ceil(limit)):
            query.stop()
            return None
        seconds = perf_counter() - start
        operators: list[Any] = query.recentProgress[-1]["stateOperators"]
        size = sum(o["customMetrics"].get("rocksdbSstFileSize") or o["memoryUsedBytes"] for o in operators)
        return self._done(query, seconds, sum(o["numRowsTotal"] for o in operators), size, folder)

    def run_way(self, way: str, streams: dict[str, Path], text: str, limit: float = LIMIT) -> Done | None:
        """Run a query in one of ``SPARK``, or on state modules, from a new checkpoint."""
        session = self.session(streams, "10 seconds", SPARK.get(way))
        return self.run(session, text) if way == OURS else self.run_spark(session, text, limit)

    def new_folder(self) -> Path:
        """A folder for the checkpoint and the rows of a run."""
        self.runs += 1
        return self.scratch / f"run-{self.runs}"

    def _done(self, query: StreamingQuery, seconds: float, kept: int, size: int, folder: Path) -> Done:
        progress: list[Any] = [p for p in query.recentProgress if p["numInputRows"]]
        epochs = tuple(p["batchDuration"] / 1000 for p in progress)
        rows = self.spark.read.parquet(str(folder / "out")).count()
        return Done(seconds, epochs, rows, kept, size, folder)

    def state(self, folder: Path) -> Manifest:
        """The newest state of a run of ours."""
        store = Store(HadoopFolder(self.spark, str(folder / "checkpoint")))
        return store.manifest(store.epochs()[-1])


@cache
def note_of_machine() -> str:
    """A sentence for reports."""
    return "All of it runs on one machine: Spark's executor, its driver and the files share the cores."
