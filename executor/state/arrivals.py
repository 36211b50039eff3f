"""Stores all rows of the streams of a query as tables, which a batch query can read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import StructType

from dovetail.executor.session.batch import run
from dovetail.executor.session.clones import clone_session
from dovetail.executor.state.epochs import Epochs
from dovetail.executor.state.micro_batch import with_short_errors
from dovetail.executor.state.paths import read_paths
from dovetail.executor.state.segments import INPUT, empty_rows, exact_times, late_condition, tagged_items
from dovetail.executor.state.streams import storable_columns
from dovetail.planner.expr import quote

_READ, _LATE, _ROW = "__dt_read", "__dt_late", "__dt_row"


class Arrivals:
    """The epochs of a join, run once over all rows of its streams; each row that is read is stored as it arrived."""

    def __init__(self, epochs: Epochs, folder: str):
        self.epochs, self.folder = epochs, folder
        self.schema: StructType | None = None
        self.paths: list[str] = []

    def run(self, session: SparkSession, checkpoint: str) -> None:
        """Run all epochs, and then return the rows that are final once no more rows arrive.

        Raises what Spark raises.
        """
        stream = run(session, self._whole(session))
        writer = stream.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        writer.foreachBatch(with_short_errors(self)).start().awaitTermination()
        self.epochs.close(session_with(session, {}))

    def __call__(self, batch: DataFrame, epoch: int) -> None:
        """Store the rows of an epoch, and run it."""
        join, session, path = self.epochs.join, batch.sparkSession, f"{self.folder}/{epoch}"
        before = self.epochs.store.before(epoch, len(join.inputs))
        rows = batch.withColumn(_LATE, F.expr(late_condition(join, before.watermark)))
        with exact_times(session):
            rows.write.mode("overwrite").parquet(path)
        self.schema = rows.schema
        self.paths = [*dict.fromkeys((*self.paths, path))]
        added = [_LATE, _READ, *(f"{_ROW}{n}" for n in range(len(join.inputs)))]
        stored = read_paths(lambda: session.read.schema(rows.schema), [path])
        self.epochs(stored.where(_READ).drop(*added), epoch)

    def rows(self, session: SparkSession, number: int, schema: StructType) -> DataFrame:
        """Return the rows of an input that were not late, without columns that files cannot hold."""
        if self.schema is None:
            return empty_rows(session, schema)
        stored_schema = self.schema
        stored = read_paths(lambda: session.read.schema(stored_schema), self.paths)
        rows, names = stored.where(f"{INPUT} = {number} AND NOT {_LATE}"), storable_columns(schema).names
        return rows.select(*(F.col(f"{_ROW}{number}").getField(name).alias(name) for name in names))

    def _whole(self, session: SparkSession) -> str:
        """Return the query for the tagged stream of the join, with all rows and all columns that files can hold."""
        blocks, inputs = [], self.epochs.join.inputs
        for number, (items, input_) in enumerate(zip(tagged_items(self.epochs.join), inputs, strict=True)):
            names = ", ".join(map(quote, storable_columns(session.table(input_.relation).schema).names))
            structs = [f"{f'struct({names})' if n == number else 'NULL'} AS {_ROW}{n}" for n in range(len(inputs))]
            read = f"coalesce({input_.rows or 'true'}, false) AS {_READ}"
            blocks.append(f"SELECT {', '.join([*items, read, *structs])} FROM {input_.relation}")
        return "\nUNION ALL\n".join(blocks)

    @property
    def late(self) -> int:
        """The number of rows that were late for the join."""
        states = self.epochs.store
        return sum(i.late for i in states.manifest(states.epochs()[-1]).inputs) if self.paths else 0


def copy_stream(session: SparkSession, name: str, folder: str) -> StructType:
    """Write all rows of a stream into a folder, and return its schema.  Raises what Spark raises."""
    stream = session.table(name)
    writer: Any = stream.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
    writer.trigger(availableNow=True).start(f"{folder}/rows").awaitTermination()
    return stream.schema


def read_copy(session: SparkSession, schema: StructType, folder: str) -> DataFrame:
    """Read the rows that ``copy_stream`` has written."""
    return read_paths(lambda: session.read.schema(schema), [f"{folder}/rows"])


def session_with(session: SparkSession, tables: Mapping[str, Callable[[SparkSession], DataFrame]]) -> SparkSession:
    """Copy a session, with its settings, views and functions; some names then stand for other rows."""
    inside = SparkSession(session.sparkContext, clone_session(session))
    for name, rows in tables.items():
        rows(inside).createOrReplaceTempView(name)
    return inside


def with_numbered_columns(rows: DataFrame) -> DataFrame:
    """Rename the columns of rows to distinct names, which files need."""
    return rows.toDF(*(f"c{n}" for n in range(len(rows.columns))))
