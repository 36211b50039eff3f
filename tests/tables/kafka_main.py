"""Joins of Kafka topics, compared with plain Spark's batch over the same offsets: a JSON line for each thing tried.

``python kafka_main.py JARS_OF_SPARK JARS_OF_BROKER``
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from dovetail import Optimizer, Sink
from format_sessions import PARQUET, start
from kafka_broker import Broker
from outcomes import REWRITTEN, first_line, rows

SCHEMA = "id INT, k INT, ts TIMESTAMP, late BOOLEAN"
DELAY, PARTITIONS = "2 minutes", 3
BAND = "c.ts BETWEEN v.ts AND v.ts + INTERVAL 10 SECONDS"
QUERIES = {
    "a band without an equality": f"SELECT c.id, v.id AS v FROM clicks c JOIN views v ON {BAND}",
    "a band and a key": f"SELECT c.id, v.id AS v, c.topic_key FROM clicks c JOIN views v ON c.k = v.k AND {BAND}",
    "LEFT JOIN": f"SELECT c.id, v.id AS v, c.ts FROM clicks c LEFT JOIN views v ON c.k = v.k AND {BAND}",
    "a self-join": "SELECT a.id, b.id AS b FROM clicks a JOIN clicks b ON a.k = b.k AND a.id <> b.id "
    "AND a.ts BETWEEN b.ts AND b.ts + INTERVAL 5 SECONDS",
}
TOPICS = ("clicks", "views")
BEGIN = 1767225600  # 2026
END = 1200  # seconds after it
HELD = 400  # seconds: rows of the last ones may still match


class Topics:
    """The topics of a broker, as streams and as batches."""

    def __init__(self, session: SparkSession, broker: Broker) -> None:
        self.session, self.broker, self.last = session, broker, 0

    def write(self, first: int, last: int, *, late: bool = False, at: int | None = None) -> None:
        """Write events to both topics, one for each second, in an order that is wrong by up to half a minute.

        ``at``: the second of all of them.
        """
        self.last = self.last if late else last
        second = str(at) if at is not None else "id + 30 - id * 7 % 31"
        for number, topic in enumerate(TOPICS):
            event = (
                f"CAST(id AS INT) AS id, CAST((id + {3 * number}) % 5 AS INT) AS k, "
                f"timestamp_seconds({BEGIN} + {second}) AS ts, {late} AS late"
            )
            events = self.session.range(first, last, 1, 1).selectExpr(event.split(", ")[0], *event.split(", ")[1:])
            message = events.selectExpr(
                "CAST(k AS STRING) AS key",
                "to_json(struct(*)) AS value",
                f"CAST(id % {PARTITIONS} AS INT) AS partition",
            )
            self._options(message.write.format("kafka")).option("topic", topic).save()

    def stream(self) -> None:
        """Make views of both topics as streams."""
        for topic in TOPICS:
            reader = self._options(self.session.readStream.format("kafka")).option("subscribe", topic)
            reader = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 150)
            _parsed(reader.load()).withWatermark("ts", DELAY).createOrReplaceTempView(topic)

    def batch(self, offsets: dict[str, dict[str, int]], text: str) -> DataFrame:
        """Run a query by plain Spark over the rows of topics up to some offsets, without those that are late."""
        session = self.session.newSession()
        for topic, ends in offsets.items():
            reader = self._options(session.read.format("kafka")).option("subscribe", topic)
            reader = reader.option("endingOffsets", json.dumps({topic: ends}))
            _parsed(reader.load()).where("NOT late").createOrReplaceTempView(topic)
        return session.sql(text)

    def add_partition(self, count: int) -> None:
        """Give the first topic more partitions."""
        jvm: Any = self.session._jvm
        settings = jvm.java.util.Properties()
        settings.put("bootstrap.servers", self.broker.servers)
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
        more = jvm.java.util.HashMap()
        more.put(TOPICS[0], jvm.org.apache.kafka.clients.admin.NewPartitions.increaseTo(count))
        admin.createPartitions(more).all().get()
        admin.close()

    def _options(self, reader: Any) -> Any:
        return reader.option("kafka.bootstrap.servers", self.broker.servers)


def _parsed(messages: DataFrame) -> DataFrame:
    event = f"from_json(CAST(value AS STRING), '{SCHEMA}') AS event"
    return messages.selectExpr(event, "CAST(key AS STRING) AS topic_key").select("event.*", "topic_key")


def main(spark_jars: list[str], broker_jars: list[str]) -> None:
    """Start a broker, try every query, and end the broker."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        broker = Broker(folder / "broker", broker_jars)
        broker.start()
        try:
            session = start(PARQUET, folder, spark_jars)
            for what, seen in observe(Topics(session, broker), folder):
                print(json.dumps({"group": "kafka", "what": what, "seen": seen}), flush=True)
        finally:
            broker.kill()


def observe(topics: Topics, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield what was tried, and what came of it."""
    topics.write(0, END // 2)
    topics.stream()
    runs = {what: Run(topics, text, folder / f"run{n}") for n, (what, text) in enumerate(QUERIES.items())}
    for run in runs.values():
        run.finish()
    topics.write(5000, 5020, late=True, at=1)
    topics.write(END // 2, END)
    for what, run in runs.items():
        yield f"{what}, over two runs, with late rows", run.finish() or run.compare()
    yield "a broker killed and started again", _killed(topics, runs["LEFT JOIN"])
    topics.add_partition(PARTITIONS + 1)
    yield "a partition more", _with_partition(topics, runs["a band and a key"])


def _killed(topics: Topics, run: Run) -> str:
    """Kill the broker while a query runs, and write and read more once it is back."""
    query = run.start(None)
    try:
        topics.write(END, END + 300)
        topics.broker.kill()
        time.sleep(3)
        topics.broker.start()
        topics.write(END + 300, END + 600)
        query.processAllAvailable()
        return run.compare()
    except Exception as error:  # noqa: BLE001
        return first_line(error)
    finally:
        query.stop()


def _with_partition(topics: Topics, run: Run) -> str:
    session = topics.session
    events = session.range(END + 600, END + 650).selectExpr(
        "CAST(id AS INT) AS id", "1 AS k", f"timestamp_seconds({BEGIN} + id) AS ts", "false AS late"
    )
    message = events.selectExpr("'1' AS key", "to_json(struct(*)) AS value", f"{PARTITIONS} AS partition")
    topics._options(message.write.format("kafka")).option("topic", TOPICS[0]).save()
    topics.write(END + 600, END + 650)
    return run.finish() or run.compare()


class Run:
    """A query over the topics, with its checkpoint and its files."""

    def __init__(self, topics: Topics, text: str, folder: Path) -> None:
        self.topics, self.text, self.folder = topics, text, folder

    def start(self, trigger: str | None) -> Any:
        """Start the query, or resume it."""
        sink = Sink("parquet", self.folder / "out")
        return Optimizer(self.topics.session).stream(
            self.text, checkpoint=self.folder / "checkpoint", sink=sink, trigger=trigger
        )

    def finish(self) -> str:
        """Process what is there; return an error, or an empty text."""
        try:
            self.start("available now").awaitTermination()
        except Exception as error:  # noqa: BLE001
            return first_line(error)
        return ""

    def compare(self) -> str:
        """Compare the rows with the batch over the same offsets, but for those that a LEFT JOIN may still hold back."""
        found = self.topics.session.read.parquet(str(self.folder / "out"))
        wanted = self.topics.batch(self.offsets(), self.text)
        if "LEFT" in self.text:
            final = f"v IS NOT NULL OR ts < timestamp_seconds({BEGIN + self.topics.last - HELD})"
            found, wanted = found.where(final), wanted.where(final)
        here, there = rows(found), rows(wanted)
        if not here:
            return "no rows to compare"
        return REWRITTEN if here == there else f"other rows: {len(here - there)} for {len(there - here)}"

    def offsets(self) -> dict[str, dict[str, int]]:
        """The offsets behind the last epoch, of each topic."""
        log = self.folder / "checkpoint" / "offsets"
        last = max((path for path in log.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
        found: dict[str, dict[str, int]] = {}
        for line in last.read_text().splitlines():
            if line.startswith("{") and any(f'"{topic}"' in line for topic in TOPICS):
                found |= json.loads(line)
        return found


if __name__ == "__main__":
    main(sys.argv[1].split(","), sys.argv[2].split(","))
    os._exit(0)
