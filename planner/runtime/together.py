"""Questions to Spark that do not wait for each other: most of the time of a small one is spent waiting."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

from pyspark.sql import SparkSession
from pyspark.util import inheritable_thread_target

T = TypeVar("T")


def together(session: SparkSession, *asking: Callable[[], T]) -> tuple[T, ...]:
    """The answers to several questions, all asked at once; their threads have the caller's properties and tags.

    Raises what the first of them raises.
    """
    if len(asking) < 2:
        return tuple(ask() for ask in asking)
    first, *others = asking
    with ThreadPoolExecutor(len(others)) as pool:
        inherited = map(inheritable_thread_target(session), others)
        waiting = [pool.submit(copy_context().run, other) for other in inherited]
        return (first(), *(future.result() for future in waiting))
