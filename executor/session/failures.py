"""Extracts the message of exceptions of Spark, Py4J and Python workers, without plans and stack traces."""

from __future__ import annotations

import re
from dataclasses import dataclass

from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, ParseException, PySparkException

from dovetail.executor.session.first_message import first_message

_JVM_ENDED = "Spark's JVM has ended; it may have run out of memory"
_WORKER = re.compile(r"Traceback \(most recent call last\):\n(.*)", re.DOTALL)
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]")
_RAISED = re.compile(r"^(\w[\w.]*)(?:: (.*))?$")


@dataclass(frozen=True)
class SparkFailure:
    """The message of an error; ``raised``: the class raised by a Python worker; ``is_unreachable``: no JVM answers."""

    message: str
    raised: str = ""
    is_unreachable: bool = False


def spark_failure(error: BaseException) -> SparkFailure | None:
    """Return the message of an error of Spark; None for any other error."""
    try:
        return _failure(error)
    except Exception:  # noqa: BLE001 - the JVM that holds the error may have ended
        return SparkFailure(_JVM_ENDED, is_unreachable=True)


def failure_of_run(error: BaseException) -> str | None:
    """Return the condition or the class of an error that a query raised while it ran; None for any other error.

    Other errors: those of the analysis, which no rewriting changes, those of a session that has ended, and the end of a
    query that somebody has cancelled.
    """
    failure = spark_failure(error)
    if failure is None or failure.is_unreachable or isinstance(error, AnalysisException | ParseException):
        return None
    if "cancel" in failure.message.lower():
        return None
    condition = _CONDITION.search(str(error))
    return condition[1] if condition else type(error).__name__


def _failure(error: BaseException) -> SparkFailure | None:
    if isinstance(error, PySparkException):
        text = re.split(r"\n\s*JVM stacktrace:", str(error))[0]
        if worker := _WORKER.search(text):
            return _worker_failure(worker[1])
        if sentence := first_message(text):
            return SparkFailure(sentence)
        return SparkFailure(
            re.sub(r"(SQLSTATE: \w+(?:; line \d+ pos \d+)?);\n.*", r"\1", text, flags=re.DOTALL).strip()
        )
    module = type(error).__module__.split(".")[0]
    if module == "grpc":
        return SparkFailure(
            f"The Spark Connect server does not answer: {str(error).strip().splitlines()[0]}", is_unreachable=True
        )
    if module != "py4j":
        return None
    if (thrown := getattr(error, "java_exception", None)) is not None:
        cause = thrown
        while cause.getCause() is not None:
            cause = cause.getCause()
        return _jvm_failure(f"{cause.getClass().getSimpleName()}: {cause.getMessage() or thrown.getMessage()}")
    if isinstance(error, Py4JNetworkError):
        return SparkFailure(_JVM_ENDED, is_unreachable=True)
    match = re.search(r"py4j\.\w+: (.*)", str(error))
    return SparkFailure(f"Spark did not take a call: {match[1] if match else str(error).strip().splitlines()[0]}")


def _jvm_failure(message: str) -> SparkFailure:
    """Return a message of the JVM, and whether the JVM is shutting down."""
    return SparkFailure(message, is_unreachable="SparkContext was shut down" in message)


def _worker_failure(trace: str) -> SparkFailure:
    """Return the last error of a traceback: its class and its whole message."""
    lines = trace.strip().splitlines()
    starts = [n for n, line in enumerate(lines) if _RAISED.match(line) and n and lines[n - 1].startswith(" ")]
    if not starts:
        return SparkFailure(lines[-1].strip() if lines else "A Python worker failed")
    found = _RAISED.match(lines[starts[-1]])
    assert found is not None
    raised = found[1].rpartition(".")[2]
    text = "\n".join([found[2] or "", *lines[starts[-1] + 1 :]]).strip()
    return SparkFailure(text or raised, raised)
