"""Turns every exception into one message and one exit code: the boundary of the command line.

0    done
1    the query failed, or ``verify`` found a difference
2    a query, file, option or catalog cannot be used as it was given
3    what the command needs is missing or does not answer: Java, memory, Spark, a server, a lookup source
4    a fault in Dovetail
130  interrupted
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

from dovetail.planner import errors
from dovetail.planner.errors import DovetailError, reason_of, summarize


class Exit(IntEnum):
    """The exit codes of all commands."""

    DONE = 0
    FAILED = 1
    UNUSABLE = 2
    MISSING = 3
    FAULT = 4
    INTERRUPTED = 130


class CommandFailed(DovetailError):
    """A message that names the option or file at fault, with the exit code."""

    def __init__(self, message: str, code: Exit):
        super().__init__(message)
        self.code = code


_CODES = {
    errors.EnvironmentProblem: Exit.MISSING,
    errors.LookupFailed: Exit.MISSING,
    errors.QueryError: Exit.FAILED,
    errors.Refused: Exit.FAILED,
    errors.RuleError: Exit.FAULT,
}
"""The codes of our own errors; that of any other is 2."""


@contextmanager
def located(where: str) -> Iterator[None]:
    """Put an option or a place in a file before the message of an error that comes from what is given there.

    Its code is not 1: what cannot run is here what was given, not the query.
    """
    try:
        yield
    except Exception as error:
        message, found = describe_failure(error)
        if found is Exit.FAULT:
            raise
        raise CommandFailed(f"{where}: {message}", Exit.UNUSABLE if found is Exit.FAILED else found) from error


def describe_failure(error: BaseException) -> tuple[str, Exit]:
    """The message of an exception, without stack traces and plans, and the exit code of the command that it ends."""
    match error:
        case KeyboardInterrupt():
            return "interrupted", Exit.INTERRUPTED
        case CommandFailed():
            return str(error), error.code
        case DovetailError():
            is_unreachable = isinstance(error, ConnectionError | TimeoutError)
            return str(error), Exit.MISSING if is_unreachable else _code_of(type(error))
    return _of_spark(error) or _of_database(error) or _of_python(error)


def _code_of(kind: type[BaseException]) -> Exit:
    return next((code for known, code in _CODES.items() if issubclass(kind, known)), Exit.UNUSABLE)


def _of_spark(error: BaseException) -> tuple[str, Exit] | None:
    """An error of Spark's, or one of a Python worker's that Spark passes on."""
    if "pyspark" not in sys.modules:
        return None
    from dovetail.executor.session.failures import spark_failure

    found = spark_failure(error)
    if found is None:
        return None
    ours = getattr(errors, found.raised, None)
    if isinstance(ours, type) and issubclass(ours, DovetailError):
        return found.message, _code_of(ours) if ours is errors.LookupFailed else Exit.FAILED
    message = f"{found.raised}: {found.message}" if found.raised and found.raised != found.message else found.message
    return message, Exit.MISSING if found.is_unreachable else Exit.FAILED


def _of_database(error: BaseException) -> tuple[str, Exit] | None:
    """An error of a database's driver, of Arrow or of the HTTP client that a source has passed on as it is."""
    message, module = " ".join(str(error).split()) or type(error).__name__, type(error).__module__
    status = getattr(getattr(error, "status_code", None), "name", "")
    if module.startswith("adbc_driver") and status in ("IO", "TIMEOUT", "CANCELLED"):
        return f"The database does not answer: {message}; see that it runs and that the address is right", Exit.MISSING
    if module == "http.client":
        return f"The service does not answer in HTTP: {message}; see that the address is right", Exit.MISSING
    if module.startswith(("adbc_driver", "sqlite3")):
        return f"The database refused: {message}", Exit.FAILED
    if module.startswith("pyarrow"):
        return (
            f"The rows cannot be read: {message}; see that files and lookup tables have the columns of the query",
            Exit.FAILED,
        )
    return None


def _of_python(error: BaseException) -> tuple[str, Exit]:
    match error:
        case MemoryError():
            return "Python has run out of memory; show fewer rows (--limit), or write them with --out", Exit.MISSING
        case RecursionError():
            return "The query is nested too deeply; move inner queries into WITH or views", Exit.FAILED
        case UnicodeEncodeError():
            letters = error.object[error.start : error.end]
            message = f"{letters!r} cannot be written in {error.encoding}; set PYTHONIOENCODING=utf-8"
            return message, Exit.MISSING
        case ConnectionError() | TimeoutError():
            message = re.sub(r"^\[Errno \S+\] ", "", str(error)) or type(error).__name__
            return f"A server does not answer: {message}; see that it runs and that the address is right", Exit.MISSING
        case OSError() if error.filename:
            return f"{error.filename}: {reason_of(error)}", Exit.UNUSABLE
        case OSError():
            return f"The operating system refused: {reason_of(error)}", Exit.MISSING
    return (
        f"Dovetail has a fault: {summarize(error)}; `dovetail --debug …` shows where; `dovetail report` has the rest",
        Exit.FAULT,
    )
