"""A join of Kafka topics into a table of Delta Lake, whose driver is killed again and again: each row is there once.

``python kafka_kills_main.py JARS_OF_SPARK JARS_OF_BROKER KILLS`` prints a JSON line.  The driver is a process of its
own (``… drive FOLDER SERVERS JARS_OF_SPARK``), which is killed with its JVM at a random moment of its run.  Spark's
source of Kafka 4.1 and 4.2 may end a query with a NullPointerException in the first epoch after a crash, with Dovetail
and without (SPARK-55271); the driver is then started again, as whoever runs it would.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from random import Random

from pyspark.sql import DataFrame

from dovetail import Optimizer
from format_sessions import DELTA, PARQUET, start
from kafka_broker import Broker
from kafka_main import QUERIES, TOPICS, Topics, parsed
from outcomes import REWRITTEN, rows

TEXT = QUERIES["a band and a key"]
STARTS = 5  # of a driver that fails
ROUND = 60  # events written to each topic before each start of the driver
SEED = int(os.environ.get("DOVETAIL_SEED", "1"))


def main(spark_jars: str, broker_jars: list[str], kills: int) -> None:
    """Start a broker and drivers, kill the drivers, and compare the table with the batch over the topics."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        broker = Broker(folder / "broker", broker_jars)
        broker.start()
        try:
            session = start(PARQUET, folder / "here", spark_jars.split(","))
            what, seen = _killed(Topics(session, broker.servers), folder, spark_jars, kills)
            print(json.dumps({"group": "kills", "what": what, "seen": seen}), flush=True)
        finally:
            broker.kill()


def _killed(topics: Topics, folder: Path, spark_jars: str, kills: int) -> tuple[str, str]:
    random, killed, runs, written, longest = Random(SEED), 0, 0, 0, 10.0
    while killed < kills and runs < 4 * kills:
        topics.write(written, written + ROUND)
        written, runs = written + ROUND, runs + 1
        with suppress(QueryFailed), Driver(folder, topics.servers, spark_jars) as driver:
            seconds = driver.run(random.uniform(0, longest))
            killed += seconds is None
            longest = max(5.0, seconds or longest)
    if not any(_has_ended(folder, topics.servers, spark_jars) for _ in range(STARTS)):
        return f"{killed} kills", f"the query failed {STARTS} times"
    found = rows(topics.session.read.parquet(*_files_of_delta(folder / "table")))
    wanted = rows(_batch(topics))
    what = f"{killed} kills of the driver in {runs} runs, {sum(wanted.values())} rows"
    if not wanted:
        return what, "no rows to compare"
    return what, REWRITTEN if found == wanted else f"other rows: {len(found - wanted)} for {len(wanted - found)}"


def _has_ended(folder: Path, servers: str, spark_jars: str) -> bool:
    """Whether a driver has read all there is."""
    with suppress(QueryFailed), Driver(folder, servers, spark_jars) as driver:
        return driver.run(600) is not None
    return False


def _batch(topics: Topics) -> DataFrame:
    """The query by plain Spark over all messages."""
    session = topics.session.newSession()
    for topic in TOPICS:
        reader = topics._options(session.read.format("kafka")).option("subscribe", topic)
        parsed(reader.load()).createOrReplaceTempView(topic)
    return session.sql(TEXT)


def _files_of_delta(table: Path) -> list[str]:
    """The files of the newest version of a table that is only appended to, by its log, which nobody else reads here."""
    logs = sorted((table / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
    return [str(table / action["add"]["path"]) for action in actions if "add" in action]


class QueryFailed(Exception):
    """A query that has ended with an error."""


class Driver:
    """A driver in a process group of its own."""

    def __init__(self, folder: Path, servers: str, jars: str) -> None:
        command = [sys.executable, __file__, "drive", str(folder), servers, jars]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True)

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def run(self, seconds: float) -> float | None:
        """Let the query run; return the seconds until its end, or kill it after so many and return None."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError("The driver did not start.")
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        began = time.monotonic()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        if self.process.returncode:
            raise QueryFailed
        return time.monotonic() - began


def drive(folder: Path, servers: str, jars: list[str]) -> None:
    """Run the query over what is there, into the table."""
    session = start(DELTA, folder / "driver", jars)
    Topics(session, servers).stream()
    print("ready", flush=True)
    sys.stdin.readline()
    table = str(folder / "table")

    def into_delta(frame: DataFrame, epoch: int) -> None:
        writer = frame.write.format("delta").mode("append")
        writer.option("txnAppId", "joined").option("txnVersion", epoch).save(table)

    checkpoint = folder / "checkpoint"
    Optimizer(session).stream(TEXT, checkpoint=checkpoint, sink=into_delta, trigger="available now").awaitTermination()
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[1] == "drive":
        drive(Path(sys.argv[2]), sys.argv[3], sys.argv[4].split(","))
    else:
        main(sys.argv[1], sys.argv[2].split(","), int(sys.argv[3]))
        os._exit(0)
