"""The Spark jobs that planning runs: their name, and their end at the time limit of measurements."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from dovetail.executor.session.job_names import job_name
from dovetail.executor.session.time_limit import cancel_jobs_after
from dovetail.planner.deadline import time_limit


@contextmanager
def planning_jobs(session: SparkSession, seconds: float) -> Iterator[None]:
    """Name the jobs inside the block, and cancel those that still run after so many seconds.

    A canceled job measures nothing, and the planning goes on without what it would have measured.
    """
    with cancel_jobs_after(session, seconds), job_name(session, "Dovetail plans a query"), time_limit(seconds):
        yield
