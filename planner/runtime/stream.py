"""Start a streaming query: Spark's own writer, with its checkpoint."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from planner.state.sink import Mode, Sink, Target, check_partitions, trigger_of


def start(
    frame: DataFrame, target: Target, checkpoint: str | Path, trigger: str | None, mode: Mode, name: str | None
) -> StreamingQuery:
    """Write the rows of a streaming DataFrame from the checkpoint on.

    Raises ``OptionError`` for a bad ``partition_by``, and what Spark raises.
    """
    sensitive = frame.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    check_partitions(target, frame.columns, case_sensitive=sensitive)
    writer = frame.writeStream.outputMode(mode).option("checkpointLocation", str(checkpoint))
    if name is not None:
        writer = writer.queryName(name)
    if when := trigger_of(trigger):
        writer = writer.trigger(**when)
    if isinstance(target, str):
        return writer.toTable(target)
    if isinstance(target, Sink):
        writer = writer.format(target.format).options(**target.options)
        if target.partition_by:
            writer = writer.partitionBy(*target.partition_by)
        return writer.start() if target.path is None else writer.start(str(target.path))
    return writer.foreachBatch(target).start()
