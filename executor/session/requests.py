"""Questions about queries, with one request each on Spark Connect.

A client's ``session.sql`` sends a query once to learn that it is no command, and ``collect`` reads a setting as well: a
plan would take two or three times as many requests, and a remote server answers each of them after a round trip.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from dovetail.executor.session.batch import Arguments, classic, connect_query, run
from dovetail.executor.session.sail import is_sail

_DETAILS = re.compile(r'^<_\w*RpcError of RPC that terminated with:\n.*\n\s*details = "(.*)"\n')


def query_frame(session: SparkSession, text: str, args: Arguments = None) -> DataFrame:
    """The DataFrame of a query, not of a command; on Spark Connect nothing is sent before it is used."""
    if args or classic(session) or is_sail(session):
        return run(session, text, args)
    return connect_query(session, text)


def analyze(session: SparkSession, text: str, args: Arguments = None) -> tuple[DataFrame, StructType] | str:
    """Return the DataFrame and analyzed schema of a query, or a line of Spark's error.  Runs nothing."""
    try:
        frame = query_frame(session, text, args)
        return frame, frame.schema
    except (PySparkException, Py4JError) as error:  # Py4JError: Spark's internal errors
        of_grpc = _DETAILS.search(str(error))
        return of_grpc[1] if of_grpc else str(error).strip().splitlines()[0]


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    """The rows of a DataFrame of numbers and texts."""
    if classic(frame.sparkSession):
        return [tuple(row) for row in frame.collect()]
    table, _ = frame._to_table()  # type: ignore[operator]
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def explanation(
    session: SparkSession, text: str, args: Arguments = None, mode: Literal["extended", "cost"] = "extended"
) -> str:
    """Spark's plans of a query as text, of EXPLAIN EXTENDED or EXPLAIN COST."""
    if classic(session) or is_sail(session):
        return str(rows_of(run(session, f"EXPLAIN {mode.upper()} {text}", args))[0][0])
    return str(query_frame(session, text, args)._explain_string(mode=mode))  # type: ignore[operator]
