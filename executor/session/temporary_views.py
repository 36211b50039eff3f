"""Short-lived temporary views, whose creation and removal leave what Spark has cached as it is.

``session.catalog.dropTempView`` also drops the cached rows of any DataFrame with the plan of the view, and so does
``session.sql(text, name=frame)``, which makes a view of the frame and drops it.  A view that replaces another drops
what was cached under that name.  Here each name is new, or free while the view exists, and only the name is removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import RLock

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from dovetail.executor.session.batch import classic, run

TEMPORARY_VIEWS_LOCK = RLock()
"""Guards views with fixed names in the user's session: concurrent threads of one session wait for each other."""


def drop_view(session: SparkSession, name: str) -> None:
    """Drop a temporary view, and nothing that is cached."""
    if classic(session):
        session._jsparkSession.sessionState().catalog().dropTempView(name)
        return
    try:
        run(session, f"DROP VIEW {name}")  # drops what is cached under the name, not under the plan
    except PySparkException:
        session.catalog.dropTempView(name)


@contextmanager
def temporary_views(frames: Mapping[str, DataFrame]) -> Iterator[None]:
    """Define views with new names inside the block."""
    created: list[tuple[SparkSession, str]] = []
    try:
        for name, frame in frames.items():
            frame.createOrReplaceTempView(name)
            created.append((frame.sparkSession, name))
        yield
    finally:
        for session, name in created:
            drop_view(session, name)


@contextmanager
def temporary_view(session: SparkSession, name: str, rows: DataFrame) -> Iterator[None]:
    """Define a view with a fixed name inside the block, in a classic session; a user's view of it is restored."""
    with TEMPORARY_VIEWS_LOCK:
        catalog = session._jsparkSession.sessionState().catalog()
        before = catalog.getRawTempView(name)
        catalog.dropTempView(name)
        try:
            with temporary_views({name: rows}):
                yield
        finally:
            if before.isDefined():
                catalog.createTempView(name, before.get(), True)
