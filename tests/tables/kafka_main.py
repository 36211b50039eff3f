"""Joins of Kafka topics, compared with plain Spark's batch over the same offsets: a JSON line for each thing tried.

``python kafka_main.py JARS_OF_SPARK JARS_OF_BROKER``
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.avro.functions import from_avro, to_avro
from pyspark.sql.functions import col, expr, struct

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
AVRO = "_avro"
AVRO_QUERY = (
    "SELECT c.id, v.id AS v, c.origin FROM clicks_avro c JOIN views_avro v "
    f"ON c.k = v.k AND {BAND} AND c.origin = v.origin"
)
COMPACTED = {"cleanup.policy": "compact", "segment.ms": "500", "min.cleanable.dirty.ratio": "0.01"}
COMPACTED_QUERY = (
    "SELECT a.id, b.id AS b FROM compacted a JOIN compacted b ON a.ts BETWEEN b.ts AND b.ts + INTERVAL 3 SECONDS"
)
BEGIN = 1767225600  # 2026
END = 1200  # seconds after it
HELD = 400  # seconds: rows of the last ones may still match


class Topics:
    """The topics of a broker, as streams and as batches."""

    def __init__(self, session: SparkSession, servers: str) -> None:
        self.session, self.servers, self.last = session, servers, 0

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
            parsed(reader.load()).withWatermark("ts", DELAY).createOrReplaceTempView(topic)

    def batch(self, offsets: dict[str, dict[str, int]], text: str) -> DataFrame:
        """Run a query by plain Spark over the rows of topics up to some offsets, without those that are late."""
        session = self.session.newSession()
        for topic, ends in offsets.items():
            reader = self._options(session.read.format("kafka")).option("subscribe", topic)
            reader = reader.option("endingOffsets", json.dumps({topic: ends}))
            parsed(reader.load()).where("NOT late").createOrReplaceTempView(topic)
        return session.sql(text)

    def add_partition(self, count: int) -> None:
        """Give the first topic more partitions."""
        jvm: Any = self.session._jvm
        more = jvm.java.util.HashMap()
        more.put(TOPICS[0], jvm.org.apache.kafka.clients.admin.NewPartitions.increaseTo(count))
        self._administer(lambda admin: admin.createPartitions(more))

    def create(self, topic: str, settings: dict[str, str]) -> None:
        """Create a topic of one partition with settings of its own."""
        jvm: Any = self.session._jvm
        given = jvm.java.util.HashMap()
        for name, value in settings.items():
            given.put(name, value)
        topics = jvm.java.util.ArrayList()
        topics.add(jvm.org.apache.kafka.clients.admin.NewTopic(topic, 1, 1).configs(given))
        self._administer(lambda admin: admin.createTopics(topics))

    def _administer(self, change: Callable[[Any], Any]) -> None:
        jvm: Any = self.session._jvm
        settings = jvm.java.util.Properties()
        settings.put("bootstrap.servers", self.servers)
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
        change(admin).all().get()
        admin.close()

    def copy_as_avro(self) -> str:
        """Copy the messages of both topics as Avro, with a header; return the schema of Avro."""
        schema = ""
        for topic in TOPICS:
            events = parsed(self._options(self.session.read.format("kafka")).option("subscribe", topic).load())
            events = events.coalesce(1).sortWithinPartitions("ts")  # or most of them would be late
            value = struct("id", "k", "ts")
            messages = events.where("NOT late").select(
                col("topic_key").alias("key"),
                to_avro(value).alias("value"),
                expr("array(named_struct('key', 'origin', 'value', CAST('test' AS BINARY)))").alias("headers"),
            )
            options = self._options(messages.write.format("kafka")).option("includeHeaders", "true")
            options.option("topic", f"{topic}{AVRO}").save()
            jvm: Any = self.session._jvm
            type_ = events.select(value.alias("v"))._jdf.schema().apply("v").dataType()
            schema = jvm.org.apache.spark.sql.avro.SchemaConverters.toAvroType(type_, False, "event", "").toString()
        return schema

    def stream_avro(self, schema: str) -> None:
        """Make views of both copies as streams."""
        for topic in TOPICS:
            reader = self._options(self.session.readStream.format("kafka")).option("subscribe", f"{topic}{AVRO}")
            reader = reader.option("startingOffsets", "earliest").option("includeHeaders", "true")
            messages = reader.option("maxOffsetsPerTrigger", 300).load()
            event = from_avro(col("value"), schema).alias("event")
            events = messages.select(event, expr("CAST(headers[0].value AS STRING) AS origin")).select(
                "event.*", "origin"
            )
            events.withWatermark("ts", DELAY).createOrReplaceTempView(f"{topic}{AVRO}")

    def write_compacted(self, first: int, last: int) -> None:
        """Write events of few keys to the compacted topic, one for each second."""
        events = self.session.range(first, last, 1, 1).selectExpr(*_COMPACTED_EVENT)
        messages = events.selectExpr("CAST(id % 3 AS STRING) AS key", "to_json(struct(*)) AS value")
        self._options(messages.write.format("kafka")).option("topic", "compacted").save()

    def read_compacted(self) -> DataFrame:
        """The messages that the compacted topic has now."""
        found: DataFrame = self._options(self.session.read.format("kafka")).option("subscribe", "compacted").load()
        return found

    def stream_compacted(self) -> None:
        """Make a view of the compacted topic as a stream."""
        reader = self._options(self.session.readStream.format("kafka")).option("subscribe", "compacted")
        events = (
            reader.option("startingOffsets", "earliest")
            .load()
            .selectExpr("from_json(CAST(value AS STRING), 'id INT, ts TIMESTAMP') AS event")
        )
        events.select("event.*").withWatermark("ts", DELAY).createOrReplaceTempView("compacted")

    def _options(self, reader: Any) -> Any:
        return reader.option("kafka.bootstrap.servers", self.servers)


_COMPACTED_EVENT = ("CAST(id AS INT) AS id", f"timestamp_seconds({BEGIN} + id) AS ts")


def parsed(messages: DataFrame) -> DataFrame:
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
            for what, seen in observe(Topics(session, broker.servers), broker, folder):
                print(json.dumps({"group": "kafka", "what": what, "seen": seen}), flush=True)
        finally:
            broker.kill()


def observe(topics: Topics, broker: Broker, folder: Path) -> Iterator[tuple[str, str]]:
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
    yield "Avro with headers, a band and keys", _avro(topics, Run(topics, AVRO_QUERY, folder / "avro"))
    yield "a compacted topic joined with itself", _compacted(topics, Run(topics, COMPACTED_QUERY, folder / "compacted"))
    yield "a broker killed and started again", _killed(topics, broker, runs["LEFT JOIN"])
    topics.add_partition(PARTITIONS + 1)
    yield "a partition more", _with_partition(topics, runs["a band and a key"])


def _avro(topics: Topics, run: Run) -> str:
    """Join copies of both topics as Avro, and compare the rows with the batch over the JSON."""
    topics.stream_avro(topics.copy_as_avro())
    if error := run.finish():
        return error
    session = topics.session.newSession()
    for topic in TOPICS:
        reader = topics._options(session.read.format("kafka")).option("subscribe", topic)
        events = parsed(reader.load()).where("NOT late").selectExpr("*", "'test' AS origin")
        events.createOrReplaceTempView(f"{topic}{AVRO}")
    return run.compare_with(session.sql(AVRO_QUERY))


def _compacted(topics: Topics, run: Run) -> str:
    """Join a topic that loses messages between two runs; what has been read stays in the state."""
    topics.create("compacted", COMPACTED)
    topics.write_compacted(0, 200)
    topics.stream_compacted()
    if error := run.finish():
        return error
    last, deadline = 200, time.monotonic() + 120
    while topics.read_compacted().count() > 150:
        if time.monotonic() > deadline:
            return "the topic was not compacted"
        time.sleep(1)
        topics.write_compacted(last, last + 1)  # which closes the segment before it
        last += 1
    topics.write_compacted(last, last + 100)
    if error := run.finish():
        return error
    session = topics.session.newSession()
    session.range(0, last + 100).selectExpr(*_COMPACTED_EVENT).createOrReplaceTempView("compacted")
    return run.compare_with(session.sql(COMPACTED_QUERY))


def _killed(topics: Topics, broker: Broker, run: Run) -> str:
    """Kill the broker while a query runs, and write and read more once it is back."""
    query = run.start(None)
    try:
        topics.write(END, END + 300)
        broker.kill()
        time.sleep(3)
        broker.start()
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
        return _compare(found, wanted)

    def compare_with(self, wanted: DataFrame) -> str:
        """Compare the rows with those of a query."""
        return _compare(self.topics.session.read.parquet(str(self.folder / "out")), wanted)

    def offsets(self) -> dict[str, dict[str, int]]:
        """The offsets behind the last epoch, of each topic."""
        log = self.folder / "checkpoint" / "offsets"
        last = max((path for path in log.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
        found: dict[str, dict[str, int]] = {}
        for line in last.read_text().splitlines():
            if line.startswith("{") and any(f'"{topic}"' in line for topic in TOPICS):
                found |= json.loads(line)
        return found


def _compare(found: DataFrame, wanted: DataFrame) -> str:
    here, there = rows(found), rows(wanted)
    if not here:
        return "no rows to compare"
    return REWRITTEN if here == there else f"other rows: {len(here - there)} for {len(there - here)}"


if __name__ == "__main__":
    main(sys.argv[1].split(","), sys.argv[2].split(","))
    os._exit(0)
