"""Questions to Spark whose errors are answers: PySpark would print each of them on stderr, as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from logging import LogRecord

from pyspark.logger import PySparkLogger

_HUSHED = ContextVar("hushed", default=False)


@contextmanager
def hushed() -> Iterator[None]:
    """In here, and in threads that run in a copy of this context, PySpark logs no error that Spark raises."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logger = PySparkLogger.getLogger(name)
        if _speaks not in logger.filters:
            logger.addFilter(_speaks)
    token = _HUSHED.set(True)
    try:
        yield
    finally:
        _HUSHED.reset(token)


def _speaks(_: LogRecord) -> bool:
    return not _HUSHED.get()
