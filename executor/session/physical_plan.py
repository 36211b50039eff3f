"""Spark's physical plan of a query: whether it has nested loops.  Works on classic and Connect sessions."""

from __future__ import annotations

import re

from pyspark.sql import SparkSession

from dovetail.executor.session.batch import run

_LOOP = re.compile(r"\b(BroadcastNestedLoopJoin|CartesianProduct)\b")


def count_nested_loops(session: SparkSession, query: str) -> int:
    """Count the nested loops in Spark's plan of a query, without running it.  Raises what Spark raises."""
    return len(_LOOP.findall(str(run(session, f"EXPLAIN {query}").collect()[0][0])))


def check_query(session: SparkSession, query: str) -> None:
    """Analyze a query, without running it.  Raises what Spark raises."""
    _ = run(session, query).schema


def create_temporary_view(session: SparkSession, name: str, query: str) -> None:
    """Make a query a temporary view for this session.  Raises what Spark raises."""
    run(session, query).createOrReplaceTempView(name)
