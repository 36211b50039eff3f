"""A table of files as the sink of a streaming query that Spark writes: Spark checks nothing about it."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from dovetail.executor.session.settings import all_settings, name_case
from dovetail.executor.session.tables import Table, wrong_columns
from dovetail.planner.expr import quote


def as_columns_of(table: Table, frame: DataFrame) -> DataFrame:
    """The rows of a streaming DataFrame with the columns of a table, by name and in its order.

    Readers of the table in Spark follow the log of the sink: they find partitions that the catalog does not list, and
    look for no buckets.

    Raises ``OptionError`` for a table that has other columns or types.
    """
    names = name_case(all_settings(frame.sparkSession))
    columns, wanted = ({names.fold(f.name): f for f in side} for side in (frame.schema, table.columns))
    types = [[f.dataType.simpleString().lower() for _, f in sorted(side.items())] for side in (columns, wanted)]
    if columns.keys() != wanted.keys() or len(columns) < len(frame.columns) or types[0] != types[1]:
        raise wrong_columns(table.name, table.columns, frame.schema)
    if [f.name for f in frame.schema] == [f.name for f in table.columns]:
        return frame
    return frame.select(*(F.col(quote(columns[name].name)).alias(f.name) for name, f in wanted.items()))
