"""Reads an event log, as far as it can be read, into an application and the problem that it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dovetail.optimizer.advise.event_log.application import Application, NotAnEvent
from dovetail.optimizer.advise.event_log.compression import read_chunks
from dovetail.optimizer.advise.event_log.errors import Damaged, LogProblem
from dovetail.optimizer.advise.event_log.files import EventLog
from dovetail.optimizer.advise.event_log.lines import LONGEST_LINE, TooLong, event_name, read_lines
from dovetail.planner.errors import reason_of

_MOST_WRONG = 10_000


@dataclass
class _Problems:
    """The first problem of each kind; a log has one line for all of them."""

    wrong: int = 0
    first_wrong: int = 0
    too_long: int = 0
    damage: str = ""


def read_log(log: EventLog, report: Callable[[int], object]) -> tuple[Application | None, LogProblem | None]:
    """Read a log; ``report`` gets the number of bytes of each read.  None for a file that is no event log."""
    application, problems = Application(), _Problems()
    number, read = 0, 0
    try:
        for line in _all_lines(log, report):
            number += 1
            if isinstance(line, TooLong):
                problems.too_long += 1
                continue
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
                if problems.wrong > _MOST_WRONG:
                    raise Damaged(f"More than {_MOST_WRONG:,} lines are no events; the rest was not read.") from None
    except Damaged as damaged:
        problems.damage = str(damaged)
    except OSError as error:
        problems.damage = f"It cannot be read: {reason_of(error)}."
    reason = _describe(problems, log, application, last=number, read=read)
    return (application if read else None), LogProblem(log.path, reason) if reason else None


def _all_lines(log: EventLog, report: Callable[[int], object]) -> Iterator[bytes | TooLong]:
    for part in log.parts:
        yield from read_lines(read_chunks(part, report))


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
    if problems.too_long:
        lines = "line" if problems.too_long == 1 else "lines"
        found.append(f"{problems.too_long:,} {lines} of more than {LONGEST_LINE >> 20} MiB left out.")
    if not last and not found:
        return "" if log.in_progress else "The log is empty."
    if read and not application.ended and not log.in_progress and not found:
        found.append("The log ends before its application does; it was read as far as it goes.")
    return " ".join(found)
