"""Passes statements to Spark."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from dovetail.executor.session.installation import uninstalled_sql
from dovetail.executor.session.pyspark_versions import dataset_class

Arguments = dict[str, Any] | list[Any] | None


def run(session: SparkSession, text: str, args: Arguments = None, /, **values: Any) -> DataFrame:
    """``session.sql`` with exactly this text, as it was before Dovetail was installed; ``values`` stand for braces."""
    sql = uninstalled_sql(session)
    return sql(text, args=args, **values) if args else sql(text, **values)


def connect_query(session: SparkSession, text: str) -> DataFrame:
    """The DataFrame of a query, not of a command, on Spark Connect; nothing is sent before it is used."""
    from pyspark.sql.connect.dataframe import DataFrame as ConnectDataFrame
    from pyspark.sql.connect.plan import SQL

    return ConnectDataFrame(SQL(text), session)  # type: ignore[arg-type]


def without_names(frame: DataFrame) -> DataFrame:
    """The DataFrame of a query's analyzed plan, on a classic session; not of a command, which would run again.

    ``writeTo(…).create()`` analyzes the statement of a DataFrame once more, when the views that it names have gone.  A
    DataFrame of Spark Connect is sent with its views each time, and is returned as it is.
    """
    session = frame.sparkSession
    if not classic(session):
        return frame
    analyzed = frame._jdf.queryExecution().analyzed()
    return DataFrame(dataset_class(session).ofRows(session._jsparkSession, analyzed), session)


def classic(session: object) -> bool:
    """Whether a session is classic, and not a client of Spark Connect."""
    return isinstance(session, SparkSession)
