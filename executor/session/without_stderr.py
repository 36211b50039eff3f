"""Keeps PySpark from printing expected errors on stderr, as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from logging import LogRecord

from dovetail.executor.session.pyspark_versions import pyspark_logger

_IS_SILENT = ContextVar("is_silent", default=False)


@contextmanager
def without_stderr() -> Iterator[None]:
    """Suppress PySpark's error log inside the block, and in threads that run in a copy of its context."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logger = pyspark_logger(name)
        if _is_logged not in logger.filters:
            logger.addFilter(_is_logged)
    token = _IS_SILENT.set(True)
    try:
        yield
    finally:
        _IS_SILENT.reset(token)


def _is_logged(_: LogRecord) -> bool:
    return not _IS_SILENT.get()
