"""Functions of users that have the names of Spark's own."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

_OWN = "Class: org.apache.spark.sql.catalyst.expressions."


def user_functions(session: SparkSession, names: frozenset[str]) -> frozenset[str]:
    """Those of these names, in capitals, that mean a user's function: temporary, of Python, or of the database.

    Spark 4.3 looks for its own first, others for temporary ones; so Spark is asked about each that a user has, too.
    """
    try:
        users = {row[0].rpartition(".")[2].upper() for row in session.sql("SHOW USER FUNCTIONS").collect()}
        return frozenset(name for name in names & users if not _is_own(session, name))
    except PySparkException:
        return names


def _is_own(session: SparkSession, function: str) -> bool:
    return any(row[0].startswith(_OWN) for row in session.sql(f"DESCRIBE FUNCTION {function}").collect())
