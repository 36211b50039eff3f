"""Streams of tables of a format as sources, and its tables as sinks: rows compared with the batch over the tables."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.functions import col, lit

from dovetail import Optimizer, Sink
from fill import full_name
from format_sessions import DELTA
from outcomes import REWRITTEN, first_line, rows

QUERY = (
    "SELECT c.id, v.id AS v FROM clicks{0} c JOIN views{0} v "
    "ON c.k = v.k AND c.ts BETWEEN v.ts AND v.ts + INTERVAL 10 SECONDS"
)
TABLES = ("clicks", "views")
STREAMS, BATCHES = "_stream", ""


def streams(opt: Optimizer, form: str) -> Iterator[tuple[str, str]]:
    """Join the streams of two tables, in two runs with new rows between them, into sinks of every kind."""
    session = opt.session
    for name in TABLES:
        session.sql(f"DROP TABLE IF EXISTS {name}")
        session.sql(f"CREATE TABLE {name} (id BIGINT, k INT, ts TIMESTAMP) USING {form}")
    _insert(opt, 0, 200)
    for name in TABLES:
        stream = session.readStream.table(name).withWatermark("ts", "1 minute")
        stream.createOrReplaceTempView(f"{name}{STREAMS}")
    yield "a stream of each table, on state modules", opt.stream_plan(QUERY.format(STREAMS)).reason or REWRITTEN
    sinks: dict[str, Callable[[Path], Any]] = {
        "into files": lambda folder: Sink("parquet", folder / "out"),
        "into a table, by a function": lambda _: _transaction(form, full_name(session, "joined")),
        "into a table, by Spark's own join": lambda _: "joined_by_spark",
    }
    with tempfile.TemporaryDirectory() as name:
        places = {what: Path(name) / str(n) for n, what in enumerate(sinks)}
        for what, sink in sinks.items():
            error = _run(opt, places[what], sink(places[what]))
            yield f"a stream of each table, {what}", error or _compare(opt, what, places[what])
        _insert(opt, 200, 400)
        for what, sink in sinks.items():
            error = _run(opt, places[what], sink(places[what]))
            yield f"a stream of each table, {what}, after more rows", error or _compare(opt, what, places[what])
        yield "a materialized view", _view(opt, Path(name) / "view")


def _insert(opt: Optimizer, first: int, last: int) -> None:
    for number, name in enumerate(TABLES):
        opt.session.sql(
            f"INSERT INTO {name} SELECT id, CAST((id + {number}) % 5 AS INT), timestamp_seconds(1767225600 + id) "
            f"FROM range({first}, {last})"
        )


def _transaction(form: str, table: str) -> Callable[[DataFrame, int], None]:
    """Write an epoch so that it is there once, however often it is written.

    ``table`` has its catalog, since Spark runs the function in a copy of the session, whose catalog is Spark's own.
    """

    def write(frame: DataFrame, epoch: int) -> None:
        if form == DELTA:
            writer = frame.write.format("delta").mode("append")
            writer.option("txnAppId", "joined").option("txnVersion", epoch).saveAsTable(table)
        else:
            with_epoch = frame.withColumn("epoch", lit(epoch))
            if not frame.sparkSession.catalog.tableExists(table):
                with_epoch.limit(0).writeTo(table).using("iceberg").partitionedBy(col("epoch")).create()
            with_epoch.writeTo(table).overwrite(col("epoch") == epoch)

    def twice(frame: DataFrame, epoch: int) -> None:
        write(frame, epoch)
        write(frame, epoch)

    return twice


def _run(opt: Optimizer, folder: Path, sink: Any) -> str:
    try:
        text = QUERY.format(STREAMS)
        query = opt.stream(text, checkpoint=folder / "checkpoint", sink=sink, trigger="available now")
        query.awaitTermination()
    except Exception as error:  # noqa: BLE001 - of Spark, or of the format in the JVM
        return first_line(error)
    return ""


def _compare(opt: Optimizer, what: str, folder: Path) -> str:
    session = opt.session
    table = "joined_by_spark" if "Spark" in what else "joined"
    try:
        frame = session.read.parquet(str(folder / "out")) if "files" in what else session.table(table).drop("epoch")
        found = rows(frame)
    except Exception as error:  # noqa: BLE001
        return first_line(error)
    wanted = rows(session.sql(QUERY.format(BATCHES)))
    return REWRITTEN if found == wanted else f"other rows: {len(found - wanted)} for {len(wanted - found)}"


def _view(opt: Optimizer, folder: Path) -> str:
    """Refresh a view of the join before and after more rows; it replaces a table of the format."""
    session = opt.session
    try:
        view = opt.materialize(
            QUERY.format(STREAMS), "joined_view", state=folder, sink="joined_complete", mode="complete"
        )
        view.refresh()
        _insert(opt, 400, 500)
        view.refresh()
        found = [rows(frame) for frame in (view.table(), session.table("joined_complete"))]
    except Exception as error:  # noqa: BLE001
        return first_line(error)
    wanted = rows(session.sql(QUERY.format(BATCHES)))
    return REWRITTEN if found == [wanted, wanted] else "other rows"
