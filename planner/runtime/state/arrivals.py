"""All that the streams of a query have to give, kept as tables: what a batch can be asked about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import StructType

from planner.expr import quote
from planner.runtime.batch import run
from planner.runtime.state.epochs import Epochs
from planner.runtime.state.segments import INPUT, empty, exact_times, late, tagged_items
from planner.runtime.state.streams import held

_READ, _LATE, _ROW = "__dt_read", "__dt_late", "__dt_row"


class Arrivals:
    """The epochs of a join, run once over what its streams have now; each row that is read is kept as it came."""

    def __init__(self, epochs: Epochs, folder: str):
        self.epochs, self.folder = epochs, folder
        self.schema: StructType | None = None
        self.paths: list[str] = []

    def run(self, session: SparkSession, checkpoint: str) -> None:
        """Take all that is there, epoch by epoch, and then what is final once nothing more comes.

        Raises what Spark raises.
        """
        stream = run(session, self._whole(session))
        writer = stream.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        writer.foreachBatch(self).start().awaitTermination()
        self.epochs.close(session_with(session, {}))

    def __call__(self, batch: DataFrame, epoch: int) -> None:
        """Keep what an epoch brings, and run it."""
        join, session, path = self.epochs.join, batch.sparkSession, f"{self.folder}/{epoch}"
        before = self.epochs.store.before(epoch, len(join.inputs))
        rows = batch.withColumn(_LATE, F.expr(late(join, before.watermark)))
        with exact_times(session):
            rows.write.mode("overwrite").parquet(path)
        self.schema = rows.schema
        self.paths = [*dict.fromkeys((*self.paths, path))]
        own = [_LATE, _READ, *(f"{_ROW}{n}" for n in range(len(join.inputs)))]
        self.epochs(session.read.schema(rows.schema).parquet(path).where(_READ).drop(*own), epoch)

    def rows(self, session: SparkSession, number: int, schema: StructType) -> DataFrame:
        """The rows of an input that were not late; without columns that files cannot hold, which no join here reads."""
        if self.schema is None:
            return empty(session, schema)
        kept = session.read.schema(self.schema).parquet(*self.paths).where(f"{INPUT} = {number} AND NOT {_LATE}")
        return kept.select(*(F.col(f"{_ROW}{number}").getField(name).alias(name) for name in held(schema).names))

    def _whole(self, session: SparkSession) -> str:
        """The tagged stream of the join, with all rows of its inputs and all columns that files can hold."""
        blocks, inputs = [], self.epochs.join.inputs
        for number, (items, input_) in enumerate(zip(tagged_items(self.epochs.join), inputs, strict=True)):
            names = ", ".join(map(quote, held(session.table(input_.relation).schema).names))
            own = [f"{f'struct({names})' if n == number else 'NULL'} AS {_ROW}{n}" for n in range(len(inputs))]
            read = f"coalesce({input_.rows or 'true'}, false) AS {_READ}"
            blocks.append(f"SELECT {', '.join([*items, read, *own])} FROM {input_.relation}")
        return "\nUNION ALL\n".join(blocks)

    @property
    def late(self) -> int:
        """How many rows came too late for the join."""
        states = self.epochs.store
        return sum(i.late for i in states.manifest(states.epochs()[-1]).inputs) if self.paths else 0


def copied(session: SparkSession, name: str, folder: str) -> StructType:
    """Write all that a stream has now into a folder, and tell its columns.  Raises what Spark raises."""
    stream = session.table(name)
    writer: Any = stream.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
    writer.trigger(availableNow=True).start(f"{folder}/rows").awaitTermination()
    return stream.schema


def read_copy(session: SparkSession, schema: StructType, folder: str) -> DataFrame:
    """What ``copied`` has written."""
    return session.read.schema(schema).parquet(f"{folder}/rows")


def session_with(session: SparkSession, tables: Mapping[str, Callable[[SparkSession], DataFrame]]) -> SparkSession:
    """A copy of a session, with its settings, views and functions, in which some names stand for other rows."""
    jvm: Any = session._jsparkSession
    inside = SparkSession(session.sparkContext, jvm.cloneSession())
    for name, rows in tables.items():
        rows(inside).createOrReplaceTempView(name)
    return inside


def numbered(rows: DataFrame) -> DataFrame:
    """Rows whose columns have names that no two share, as files want them."""
    return rows.toDF(*(f"c{n}" for n in range(len(rows.columns))))
