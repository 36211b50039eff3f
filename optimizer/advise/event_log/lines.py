"""Cuts a log into lines of bounded length, which are events; finds the name of an event without parsing it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from dovetail.optimizer.advise.event_log.errors import Damaged

LONGEST_LINE = 64 << 20
"""Plans of thousands of columns reach some MiB."""

_LONGEST_SKIPPED = 1 << 30
_EMPTY_LINES = re.compile(rb"\n{2,}")
_EVENT = re.compile(rb'\s*\{\s*"Event"\s*:\s*"(?:[\w$]+\.)*([\w$]+)"')


class TooLong:
    """A line that was longer than ``LONGEST_LINE``, in its place."""


def read_lines(chunks: Iterable[bytes]) -> Iterator[bytes | TooLong]:
    """Yield the lines of a log that are not empty, the last one also where it does not end.

    Raises ``Damaged`` for a line without end.
    """
    tail: list[bytes] = []
    length = 0
    for chunk in chunks:
        first, *rest = (_EMPTY_LINES.sub(b"\n", chunk) if b"\n\n" in chunk else chunk).split(b"\n")
        length += len(first)
        if length <= LONGEST_LINE:
            tail.append(first)
        elif length > _LONGEST_SKIPPED:
            raise Damaged(f"A line is longer than {_LONGEST_SKIPPED >> 20:,} MiB; the rest was not read.")
        else:
            tail.clear()
        if rest:
            if length:
                yield b"".join(tail) if length <= LONGEST_LINE else TooLong()
            yield from filter(None, rest[:-1])
            tail, length = [rest[-1]], len(rest[-1])
    if length:
        yield b"".join(tail) if length <= LONGEST_LINE else TooLong()


def event_name(line: bytes) -> bytes | None:
    """The name of an event without its package; None for a line that does not begin as an event.

    >>> event_name(b'{"Event":"org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd","executionId":0}')
    b'SparkListenerSQLExecutionEnd'
    """
    found = _EVENT.match(line, 0, 300)
    return found[1] if found else None
