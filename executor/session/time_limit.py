"""Cancels what a block runs in Spark once a time has passed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from time import monotonic
from uuid import uuid4

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dovetail.executor.session.batch import classic

_EVERY = 0.5  # seconds


class TimeIsUp(Exception):
    """The time limit of a block was reached."""


@contextmanager
def cancel_jobs_after(session: SparkSession, seconds: float) -> Iterator[None]:
    """Cancel the jobs that this thread starts inside the block and that still run after so many seconds.

    Jobs that start later are canceled as well, within half a second.
    """
    tag = f"dovetail-{uuid4().hex}"
    context = session.sparkContext if classic(session) else None
    add, remove, cancel = (
        (context.addJobTag, context.removeJobTag, context.cancelJobsWithTag)
        if context
        else (session.addTag, session.removeTag, session.interruptTag)
    )
    ended = Event()

    def cancel_jobs() -> None:
        wait = seconds
        while not ended.wait(wait):
            wait = _EVERY
            with suppress(Exception):  # the session may have ended
                cancel(tag)

    add(tag)
    Thread(target=cancel_jobs, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
        remove(tag)


@contextmanager
def time_limit(session: SparkSession, seconds: float | None) -> Iterator[None]:
    """Raise ``TimeIsUp`` where a block takes longer, and cancel its jobs; None is no limit."""
    if seconds is None:
        yield
        return
    end = monotonic() + seconds
    try:
        with cancel_jobs_after(session, seconds):
            yield
    except (PySparkException, Py4JError) as error:
        if monotonic() >= end:
            raise TimeIsUp from error
        raise
    if monotonic() >= end:
        raise TimeIsUp
