"""Copies of classic sessions: with their settings, views and functions, and the same current catalog."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def clone_session(session: SparkSession) -> Any:
    """Return a copy of a session, as the JVM's object: names mean the same tables in it.

    Spark's own copy goes back to ``spark_catalog``.
    """
    java: Any = session._jsparkSession
    copy = java.cloneSession()
    copy.catalog().setCurrentCatalog(session.catalog.currentCatalog())
    if database := session.catalog.currentDatabase():  # empty at the root of another catalog
        copy.catalog().setCurrentDatabase(database)
    return copy
