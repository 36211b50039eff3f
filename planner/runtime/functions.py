"""Functions of users that have the names of Spark's own."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from planner.runtime.batch import classic

_OWN = "org.apache.spark.sql.catalyst.expressions."


def user_functions(session: SparkSession, names: frozenset[str]) -> frozenset[str]:
    """Those of these names, in capitals, that mean a user's function: temporary, of Python, or of the database.

    Spark 4.3 looks for its own first, others for temporary ones; so Spark is asked what each of them means.
    """
    return _in_classic(session, names) if classic(session) else told(session, names)


def _in_classic(session: SparkSession, names: frozenset[str]) -> frozenset[str]:
    """Half a millisecond for each name, where SHOW USER FUNCTIONS takes as long as analysing some queries."""
    java: Any = session
    catalog = java._jsparkSession.sessionState().catalog()
    identifier = getattr(java.sparkContext._jvm, "org.apache.spark.sql.catalyst.FunctionIdentifier")
    found = set()
    for name in names:
        try:
            if not catalog.lookupFunctionInfo(identifier(name.lower())).getClassName().startswith(_OWN):
                found.add(name)
        except (Py4JError, PySparkException):
            continue  # a word of the grammar: no function has this name
    return frozenset(found)


def told(session: SparkSession, names: frozenset[str]) -> frozenset[str]:
    """The same as SQL tells it."""
    try:
        users = {row[0].rpartition(".")[2].upper() for row in session.sql("SHOW USER FUNCTIONS").collect()}
        return frozenset(name for name in names & users if not _is_own(session, name))
    except PySparkException:
        return names


def _is_own(session: SparkSession, function: str) -> bool:
    rows = session.sql(f"DESCRIBE FUNCTION {function}").collect()
    return any(row[0].startswith(f"Class: {_OWN}") for row in rows)
