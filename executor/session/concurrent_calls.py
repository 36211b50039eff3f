"""Runs small calls to Spark concurrently: most of their time is spent waiting."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

from pyspark.sql import SparkSession

from dovetail.executor.session.pyspark_versions import thread_target

T = TypeVar("T")


def call_concurrently(session: SparkSession, *calls: Callable[[], T]) -> tuple[T, ...]:
    """Run calls concurrently and return their results; the threads inherit the caller's properties and tags.

    Raises the error of the first call that failed.
    """
    if len(calls) < 2:
        return tuple(call() for call in calls)
    first, *others = calls
    with ThreadPoolExecutor(len(others)) as pool:
        waiting = [pool.submit(copy_context().run, thread_target(session, other)) for other in others]
        return (first(), *(future.result() for future in waiting))
