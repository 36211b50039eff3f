"""Reads an event log, as far as it can be read, into an application and the problem that it has."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from dovetail.optimizer.advise.event_log.application import Application, NotAnEvent
from dovetail.optimizer.advise.event_log.compression import read_lines
from dovetail.optimizer.advise.event_log.errors import Damaged, LogProblem
from dovetail.optimizer.advise.event_log.files import EventLog
from dovetail.planner.errors import reason_of

_EVENT = re.compile(rb'\s*\{\s*"Event"\s*:\s*"(?:[\w$]+\.)*([\w$]+)"')


@dataclass
class _Problems:
    """The first problem of each kind; a log has one line for all of them."""

    wrong: int = 0
    first_wrong: int = 0
    damage: str = ""


def open_unbuffered(path: Path) -> IO[bytes]:
    """Open a part of a log."""
    return path.open("rb", buffering=0)


def read_log(
    log: EventLog, open_part: Callable[[Path], IO[bytes]] = open_unbuffered
) -> tuple[Application | None, LogProblem | None]:
    """Read a log, without buffers of ``open_part``.  None for a file that is no event log."""
    application, problems = Application(), _Problems()
    number, read = 0, 0
    try:
        for line in _all_lines(log, open_part):
            number += 1
            name = event_name(line)
            if name is None and not line.strip():
                continue
            if name is None and not read:
                return None, LogProblem(log.path, "It is no Spark event log: it does not begin with an event.")
            try:
                if name is None:
                    raise NotAnEvent
                application.read(name, line)
                read += 1
            except NotAnEvent:
                problems.wrong += 1
                problems.first_wrong = problems.first_wrong or number
    except Damaged as damaged:
        problems.damage = str(damaged)
    except OSError as error:
        problems.damage = f"It cannot be read: {reason_of(error)}."
    reason = _describe(problems, log, application, last=number, read=read)
    return (application if read else None), LogProblem(log.path, reason) if reason else None


def event_name(line: bytes) -> bytes | None:
    """The name of an event without its package; None for a line that does not begin as an event.

    >>> event_name(b'{"Event":"org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd","executionId":0}')
    b'SparkListenerSQLExecutionEnd'
    """
    found = _EVENT.match(line, 0, 300)
    return found[1] if found else None


def _all_lines(log: EventLog, open_part: Callable[[Path], IO[bytes]]) -> Iterator[bytes]:
    for part in log.parts:
        with open_part(part) as file:
            yield from read_lines(file)


def _describe(problems: _Problems, log: EventLog, application: Application, *, last: int, read: int) -> str:
    """The problems of a log in one line; an application that still runs may have half a last line."""
    found = [problems.damage] if problems.damage else []
    wrong = problems.wrong
    if wrong == 1 and problems.first_wrong == last:
        wrong = 0
        if not log.in_progress:
            found.append("The last line is cut off.")
    if wrong:
        more = f", nor {'is' if wrong == 2 else 'are'} {wrong - 1:,} more" if wrong > 1 else ""
        found.append(f"Line {problems.first_wrong:,} is no event of Spark's{more}; the others were read.")
    if not last and not found:
        return "" if log.in_progress else "The log is empty."
    if read and not application.ended and not log.in_progress and not found:
        found.append("The log ends before its application does; it was read as far as it goes.")
    return " ".join(found)
