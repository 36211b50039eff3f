"""Finds user functions that shadow Spark's built-in functions."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dovetail.executor.session.batch import classic, run
from dovetail.executor.session.pyspark_versions import is_at_least, jvm_class

_OWN = "org.apache.spark.sql.catalyst.expressions."
_KEYWORDS = frozenset(("CAST", "TRY_CAST", "EXTRACT"))  # no functions; an error of the JVM costs thirty calls


def user_functions(session: SparkSession, names: frozenset[str]) -> frozenset[str]:
    """Return those of the names of Spark's functions, in upper case, that mean a function of the user's.

    None do from Spark 4.3 on, which resolves its own functions first: no statement is rewritten where
    ``spark.sql.functionResolution.sessionOrder`` is ``first``.  Other versions resolve temporary functions first.
    """
    if is_at_least(session.version, 4, 3):
        return frozenset()
    return user_functions_in_catalog(session, names) if classic(session) else user_functions_in_sql(session, names)


def user_functions_in_catalog(session: SparkSession, names: frozenset[str]) -> frozenset[str]:
    """Resolve the names in the session catalog, half a millisecond each; SHOW USER FUNCTIONS is much slower."""
    java: Any = session
    catalog = java._jsparkSession.sessionState().catalog()
    identifier = jvm_class(java.sparkContext._jvm, "org.apache.spark.sql.catalyst.FunctionIdentifier")
    found = set()
    for name in names - _KEYWORDS:
        try:
            if not catalog.lookupFunctionInfo(identifier(name.lower())).getClassName().startswith(_OWN):
                found.add(name)
        except (Py4JError, PySparkException):
            continue  # a keyword: no function has this name
    return frozenset(found)


def user_functions_in_sql(session: SparkSession, names: frozenset[str]) -> frozenset[str]:
    """Resolve the names with SQL, for Spark Connect."""
    try:
        users = {row[0].rpartition(".")[2].upper() for row in run(session, "SHOW USER FUNCTIONS").collect()}
        return frozenset(name for name in names & users if not _is_own(session, name))
    except PySparkException:
        return names


def _is_own(session: SparkSession, function: str) -> bool:
    rows = run(session, f"DESCRIBE FUNCTION {function}").collect()
    return any(row[0].startswith(f"Class: {_OWN}") for row in rows)
