"""Files of several statements: each has a heading, and an error names the statement and where it begins."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dovetail.optimizer import terminal
from dovetail.optimizer.commands.inputs import Job
from dovetail.optimizer.failures import CommandFailed, describe_failure


@contextmanager
def located_statement(job: Job, number: int) -> Iterator[None]:
    """Put the number and the place of a statement before the message of an error; nothing where there is only one."""
    try:
        yield
    except Exception as error:
        if len(job.statements) == 1:
            raise
        message, code = describe_failure(error)
        raise CommandFailed(f"{heading(job, number)}: {message}", code) from error


def heading(job: Job, number: int) -> str:
    """The number of a statement, and the line on which it begins; the lines of its own places count from there."""
    start = job.statements[number - 1].start
    return f"statement {number} of {len(job.statements)} ({job.source}:{start.line})"


def print_heading(job: Job, number: int) -> None:
    """Print the heading of a statement to stderr, if there are several."""
    if len(job.statements) > 1:
        terminal.print_note(heading(job, number))
