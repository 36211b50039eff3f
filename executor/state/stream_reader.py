"""Starts a streaming query with Spark's own writer and checkpoint."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from dovetail.executor.session.batch import classic
from dovetail.executor.session.file_tables import as_columns_of
from dovetail.executor.session.first_message import QueryWithFirstMessage
from dovetail.executor.session.settings import all_settings, name_case
from dovetail.executor.session.tables import FILE_FORMATS, find_table
from dovetail.executor.state.micro_batch import only_start, with_short_errors
from dovetail.planner.state.sink import Destination, Sink, check_partitions, trigger_of


def start_query(frame: DataFrame, to: Destination) -> StreamingQuery:
    """Write the rows of a streaming DataFrame, resuming from the checkpoint.

    Raises ``OptionError`` for an invalid ``partition_by``, ``StateError`` where another query starts on the checkpoint,
    and Spark's errors.
    """
    with only_start(to.checkpoint):
        query = _start(frame, to)
    return QueryWithFirstMessage(query) if classic(frame.sparkSession) else query


def _start(frame: DataFrame, to: Destination) -> StreamingQuery:
    target = to.sink
    check_partitions(target, frame.columns, name_case(all_settings(frame.sparkSession)))
    table = find_table(frame.sparkSession, target) if isinstance(target, str) and classic(frame.sparkSession) else None
    if table and table.provider in FILE_FORMATS:
        frame = as_columns_of(table, frame)
    writer = frame.writeStream.outputMode(to.mode).option("checkpointLocation", str(to.checkpoint))
    if to.name is not None:
        writer = writer.queryName(to.name)
    if when := trigger_of(to.trigger):
        writer = writer.trigger(**when)
    if table and table.provider:
        # Spark looks at none of them for the table: it would write CSV without the header that readers skip.
        writer = writer.format(table.provider).options(**table.options)
        writer = writer.partitionBy(*table.partitions) if table.partitions else writer
    if isinstance(target, str):
        return writer.toTable(target)
    if isinstance(target, Sink):
        writer = writer.format(target.format).options(**target.options)
        if target.partition_by:
            writer = writer.partitionBy(*target.partition_by)
        return writer.start() if target.path is None else writer.start(str(target.path))
    function = with_short_errors(target) if classic(frame.sparkSession) else target
    return writer.foreachBatch(function).start()
