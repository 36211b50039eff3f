"""A join of two streams of tables into a table of their format, in a process that is killed in the middle.

``python killed_main.py FORMAT JARS KILLS`` starts ``killed_main.py FORMAT JARS FOLDER`` again and again, kills it after
some files that it has written, lets the last one end, and prints a JSON line: its rows compared with the batch.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random
from time import sleep

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit

from dovetail import Optimizer
from format_sessions import DELTA, start
from outcomes import REWRITTEN, first_line, rows

FILES, EVENTS = 60, 6000
STARTS = 5  # of a driver that has ended by itself: Spark ends some after a crash
FAILED = "failed: "
QUERY = (
    "SELECT c.id, v.id AS v FROM clicks{0} c JOIN views{0} v "
    "ON c.k = v.k AND c.ts BETWEEN v.ts AND v.ts + INTERVAL 10 SECONDS"
)
TABLES, JOINED = ("clicks", "views"), "joined"


class Tables:
    """Tables of a format that outlive the process: by paths of Delta Lake, in a catalog of Iceberg."""

    def __init__(self, session: SparkSession, form: str, folder: Path) -> None:
        self.session, self.form, self.folder = session, form, folder

    def name(self, table: str) -> str:
        """The name of a table in SQL."""
        return f"delta.`{self.folder / table}`" if self.form == DELTA else f"ice.killed.{table}"

    def make(self) -> None:
        """Make the tables that are read as streams: each of many files, with a part of the events."""
        if self.form != DELTA:
            self.session.sql("CREATE DATABASE ice.killed")
        for number, table in enumerate(TABLES):
            event = ("id", f"CAST((id + {number}) % 20 AS INT) AS k", "timestamp_seconds(1767225600 + id) AS ts")
            events = self.session.range(0, EVENTS, 1, FILES).selectExpr(*event)
            if self.form == DELTA:
                events.write.format("delta").save(str(self.folder / table))
            else:
                events.writeTo(self.name(table)).using("iceberg").create()

    def stream(self) -> None:
        """Make views of the streams, which read a file in an epoch."""
        for table in TABLES:
            reader = self.session.readStream.format(self.form).option("maxFilesPerTrigger", 1)
            reader = reader.option("streaming-max-files-per-micro-batch", 1)
            stream = reader.load(str(self.folder / table)) if self.form == DELTA else reader.load(self.name(table))
            stream.withWatermark("ts", "2 hours").createOrReplaceTempView(f"{table}_stream")

    def write(self, frame: DataFrame, epoch: int) -> None:
        """Write an epoch so that it is there once, however often it is written."""
        with (self.folder / "epochs").open("a") as epochs:
            print(epoch, file=epochs)
        if self.form == DELTA:
            writer = frame.write.format("delta").mode("append").option("txnAppId", JOINED)
            writer.option("txnVersion", epoch).save(str(self.folder / JOINED))
            return
        with_epoch = frame.withColumn("epoch", lit(epoch))
        if not frame.sparkSession.catalog.tableExists(self.name(JOINED)):
            with_epoch.limit(0).writeTo(self.name(JOINED)).using("iceberg").partitionedBy(col("epoch")).create()
        with_epoch.writeTo(self.name(JOINED)).overwrite(col("epoch") == epoch)

    def run(self) -> None:
        """Join the streams until all files have been taken."""
        self.stream()
        opt, text = Optimizer(self.session), QUERY.format("_stream")
        assert not opt.stream_plan(text).reason
        checkpoint = self.folder / "checkpoint"
        opt.stream(text, checkpoint=checkpoint, sink=self.write, trigger="available now").awaitTermination()

    def compare(self) -> str:
        """Compare the rows with those of the batch."""
        for table in TABLES:
            self.session.table(self.name(table)).createOrReplaceTempView(table)
        found = rows(self.session.table(self.name(JOINED)).select("id", "v"))
        wanted = rows(self.session.sql(QUERY.format("")))
        return REWRITTEN if found == wanted else f"other rows: {len(found - wanted)} for {len(wanted - found)}"


def work(form: str, jars: list[str], folder: Path) -> None:
    """Make the tables, or join their streams: print "ready" before, and what came of it afterwards."""
    tables = Tables(start(form, folder, jars), form, folder)
    if not (folder / "made").exists():
        tables.make()
        (folder / "made").touch()
    print("ready", flush=True)
    try:
        tables.run()
        print(tables.compare(), flush=True)
    except Exception as error:  # noqa: BLE001 - of Spark, or of the format in the JVM
        print(FAILED + first_line(error), flush=True)


def main(form: str, jars: str, kills: int) -> None:
    """Kill one process after the other, each after some files that it has written."""
    random = Random(49)
    with tempfile.TemporaryDirectory() as name:
        folder, seen, killed, failed = Path(name), "", 0, 0
        while not seen:
            command = [sys.executable, __file__, form, jars, name]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
                if killed < kills and _writes(process, folder, random.randrange(10, 80)):
                    sleep(random.uniform(0, 0.5))
                    os.killpg(process.pid, signal.SIGKILL)
                    killed += 1
                else:
                    seen = process.stdout.readline().strip()
                    if seen.startswith(FAILED) and failed < STARTS:
                        failed, seen = failed + 1, ""
        epochs = (folder / "epochs").read_text().split()
    again = len(epochs) - len(set(epochs))
    if seen == REWRITTEN and not again:
        seen = "no epoch was written twice"
    what = f"a stream of each table into a table, {killed} kills"
    found = {"group": "killed", "what": what, "seen": seen, "epochs written twice": again, "failed": failed}
    print(json.dumps(found), flush=True)


def _writes(process: subprocess.Popen[str], folder: Path, count: int) -> bool:
    """Wait until so many files are new in the folder; whether the process still runs then."""
    before = _files(folder)
    found: set[str] = set()
    while len(found) < count and process.poll() is None:
        sleep(0.01)
        found |= _files(folder) - before
    return process.poll() is None


def _files(folder: Path) -> set[str]:
    return {f"{place}/{name}" for place, _, names in os.walk(folder) if "/local" not in place for name in names}


if __name__ == "__main__":
    if sys.argv[3].isdigit():
        main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    else:
        work(sys.argv[1], sys.argv[2].split(","), Path(sys.argv[3]))
    os._exit(0)
