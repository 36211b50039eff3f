"""A time limit for what a block runs in Spark: its jobs are canceled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from uuid import uuid4

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from planner.runtime.batch import classic


class TimeIsUp(Exception):
    """The time limit of a block was reached."""


@contextmanager
def time_limit(session: SparkSession, seconds: float | None) -> Iterator[None]:
    """Cancel the jobs that this thread starts inside the block, ``seconds`` after its begin.

    Raises ``TimeIsUp`` then.  None is no limit.
    """
    if seconds is None:
        yield
        return
    tag, expired = f"dovetail-{uuid4().hex}", []
    tags = session.sparkContext if classic(session) else session

    def stop() -> None:
        expired.append(True)
        if classic(session):
            session.sparkContext.cancelJobsWithTag(tag)
        else:
            session.interruptTag(tag)

    timer = Timer(seconds, stop)
    timer.daemon = True
    (tags.addJobTag if classic(session) else tags.addTag)(tag)  # type: ignore[union-attr]
    timer.start()
    try:
        yield
    except (PySparkException, Py4JError) as error:
        if expired:
            raise TimeIsUp from error
        raise
    finally:
        timer.cancel()
        (tags.removeJobTag if classic(session) else tags.removeTag)(tag)  # type: ignore[union-attr]
    if expired:
        raise TimeIsUp
