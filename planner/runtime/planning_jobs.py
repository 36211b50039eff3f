"""The Spark jobs that planning runs: their name, and their end once planning has reached its time limit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from threading import Event, Thread

from pyspark.sql import SparkSession

from planner.deadline import time_limit
from planner.runtime.batch import classic
from planner.runtime.job_names import job_name

_NUMBERS = count(1)
_EVERY = 0.5  # seconds


@contextmanager
def planning_jobs(session: SparkSession, seconds: float) -> Iterator[None]:
    """Name the jobs inside the block, and cancel those that still run after so many seconds.

    A cancelled job measures nothing; the next check of the deadline then ends the planning.
    """
    tag = f"dovetail-planning-{next(_NUMBERS)}"
    context = session.sparkContext if classic(session) else None
    add, remove, cancel = (
        (context.addJobTag, context.removeJobTag, context.cancelJobsWithTag)
        if context
        else (session.addTag, session.removeTag, session.interruptTag)
    )

    ended = Event()

    def stop_jobs() -> None:
        wait = seconds
        while not ended.wait(wait):
            wait = _EVERY  # a job may have started since
            with suppress(Exception):  # the session may have ended
                cancel(tag)

    add(tag)
    Thread(target=stop_jobs, daemon=True).start()
    try:
        with job_name(session, "Dovetail plans a query"), time_limit(seconds):
            yield
    finally:
        ended.set()
        remove(tag)
