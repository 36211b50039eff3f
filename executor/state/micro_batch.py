"""Starts of streaming queries and functions of micro-batches, whose errors reach the user as a message."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame

from dovetail.executor.session.failures import spark_failure
from dovetail.planner.errors import StateError, add_note

MicroBatch = Callable[[DataFrame, int], None]

_BEGINS = "py4j.protocol.Py4JJavaError: An error occurred while calling"
_INTERRUPTED = (
    "java.lang.InterruptedException",
    "java.io.InterruptedIOException",
    "java.nio.channels.ClosedByInterruptException",
)


class MicroBatchFailed(RuntimeError):
    """An error of the JVM in a micro-batch: its class and message, without Java's stack."""


@contextmanager
def only_start(checkpoint: object) -> Iterator[None]:
    """Start a query.  Raises ``StateError`` where another one starts on its checkpoint at the same time."""
    try:
        yield
    except Py4JJavaError as error:
        if "ConcurrentModification" not in error.java_exception.getClass().getSimpleName():
            raise
        raise StateError(f"Another query starts on {checkpoint} at the same time, so stop one of them") from error


def with_short_errors(function: MicroBatch) -> MicroBatch:
    """The function, with errors whose text is short.

    When a query has been stopped, Spark searches the text of an error for an interruption.  Its pattern
    (``StreamExecution.PROXY_ERROR``) takes frames of the thread's stack for each character behind ``Py4JJavaError``,
    and overflows within 2,000 characters; the text with Java's stack is longer.  The thread would end there, with
    StackOverflowError on stderr.
    """

    def call(rows: DataFrame, number: int) -> None:
        try:
            function(rows, number)
        except Exception as error:
            text = traceback.format_exc()
            if _BEGINS not in text:
                raise
            if any(name in text for name in _INTERRUPTED):  # which is no error: the query was stopped
                raise MicroBatchFailed(f"{_BEGINS} a method: {_INTERRUPTED[0]}") from None
            if isinstance(error, Py4JJavaError):
                raise MicroBatchFailed(_message(error)) from None
            if _BEGINS in str(error):
                short = str(error).replace(_BEGINS, "An error occurred while calling")
                raise MicroBatchFailed(f"{type(error).__name__}: {short}") from None
            if (cause := _cause(error)) is not None:
                add_note(error, f"caused by {_message(cause)}")
            raise error from None

    return call


def _cause(error: BaseException) -> Py4JJavaError | None:
    """The error of the JVM that another error was raised for."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, Py4JJavaError):
        found = found.__cause__ or found.__context__
    return found


def _message(error: Py4JJavaError) -> str:
    failure = spark_failure(error)
    return failure.message if failure else type(error).__name__
