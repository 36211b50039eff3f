"""Short-lived temporary views with fixed names in the user's session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

from pyspark.sql import DataFrame, SparkSession

TEMPORARY_VIEWS_LOCK = RLock()
"""Guards such views: concurrent threads of one session wait for each other."""


@contextmanager
def temporary_view(session: SparkSession, name: str, rows: DataFrame) -> Iterator[None]:
    """Define a temporary view inside the block, in a classic session; a user's view of that name is restored."""
    with TEMPORARY_VIEWS_LOCK:
        known = session._jsparkSession.sessionState().catalog().getTempView(name).isDefined()
        before = session.table(name) if known else None
        rows.createOrReplaceTempView(name)
        try:
            yield
        finally:
            session.catalog.dropTempView(name)
            if before is not None:
                before.createOrReplaceTempView(name)
