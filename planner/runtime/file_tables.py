"""A table of files as the sink of a streaming query that Spark writes: Spark checks nothing about it."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import StructField

from planner.errors import OptionError
from planner.expr import quote
from planner.runtime.tables import Table


def as_columns_of(table: Table, frame: DataFrame) -> DataFrame:
    """The rows of a streaming DataFrame with the columns of a table, by name and in its order.

    Readers of the table in Spark follow the log of the sink: they find partitions that the catalog does not list, and
    look for no buckets.

    Raises ``OptionError`` for a table that has other columns or types.
    """
    sensitive = frame.sparkSession.conf.get("spark.sql.caseSensitive") == "true"

    def folded(name: str) -> str:
        return name if sensitive else name.lower()

    columns = {folded(f.name): f for f in frame.schema}
    wanted = {folded(f.name): f for f in table.columns}
    types = [[f.dataType.simpleString().lower() for _, f in sorted(side.items())] for side in (columns, wanted)]
    if columns.keys() != wanted.keys() or len(columns) < len(frame.columns) or types[0] != types[1]:
        raise OptionError(
            f"The table {table.name} has the columns {_format(table.columns)}, and the query returns "
            f"{_format(tuple(frame.schema))}; create a table with these columns, or name another"
        )
    if [f.name for f in frame.schema] == [f.name for f in table.columns]:
        return frame
    return frame.select(*(F.col(quote(columns[name].name)).alias(f.name) for name, f in wanted.items()))


def _format(columns: tuple[StructField, ...]) -> str:
    return ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in columns)
