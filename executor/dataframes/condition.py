"""The condition of a join of DataFrames, from SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dovetail.executor.session.batch import classic

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def condition(frame: DataFrame, text: str) -> Column:
    """Read an expression for the session of a DataFrame.  Raises Spark's error for what it cannot parse."""
    if classic(frame.sparkSession):
        from pyspark.sql.functions import expr
    else:
        from pyspark.sql.connect.functions import expr
    return expr(text)
