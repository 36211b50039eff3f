"""The table of statements: a line of JSON for each, in a file or a folder that several processes write."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dovetail.optimizer.warn_once import warn_once
from dovetail.planner.errors import InputError, OptionError, reason_of

if TYPE_CHECKING:
    from dovetail.optimizer.options import Options
    from dovetail.optimizer.statements.events import StatementEvent


class StatementLog:
    """A listener that appends each statement to ``Options.statement_log``.

    A line is one write at the end of a file under a lock, so that lines of several processes do not mix.  In a folder
    each process has a file of its own, for file systems without locks.  A path that cannot be written is one WARNING in
    a process; the statements run, and each tries again.
    """

    def __init__(self, options: Options) -> None:
        self.path = options.statement_log
        self.mode = options.mode
        if "://" in self.path:
            raise OptionError(
                f"statement_log is a file or a folder of the driver's machine, not {self.path!r}; "
                "examples/statement_table.py writes a table of Spark's"
            )

    def __call__(self, event: StatementEvent) -> None:
        """Append an event."""
        line = json.dumps({"mode": self.mode, **event.to_json()}, ensure_ascii=False) + "\n"
        try:
            is_folder = self.path.endswith("/") or Path(self.path).is_dir()
            name = f"{socket.gethostname()}-{os.getpid()}.jsonl" if is_folder else ""
            append(Path(self.path, name), line.encode(errors="replace"))
        except OSError as error:
            warn_once(
                f"statement_log={self.path} cannot be written: {reason_of(error)}. Statements run, but the log lacks "
                "them; make the path writable, or set another one"
            )


def append(path: Path, data: bytes) -> None:
    """Append to a file, in a folder made if needed, with one write under a lock.

    A line that a full disk has cut off is closed first.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o640)
    try:
        with suppress(ImportError):  # Windows, where each process needs a file of its own: a folder
            from fcntl import LOCK_EX, flock

            flock(file, LOCK_EX)  # released when the file is closed
        end = os.lseek(file, 0, os.SEEK_END)
        if end and os.lseek(file, end - 1, os.SEEK_SET) >= 0 and os.read(file, 1) != b"\n":
            data = b"\n" + data
        while data:
            data = data[os.write(file, data) :]
    finally:
        os.close(file)


@dataclass(frozen=True)
class Record:
    """A line of a table of statements, as it was read."""

    values: dict[str, Any]

    def text(self, name: str) -> str:
        """A value that is a text; empty if it is not."""
        value = self.values.get(name)
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> float | None:
        """A value that is a number; None if it is not."""
        value = self.values.get(name)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules of the rewriting."""
        rules = self.values.get("rules")
        return tuple(map(str, rules)) if isinstance(rules, list) else ()


def read_log(path: Path) -> tuple[list[Record], int]:
    """The records of a file or of all files of a folder, and the number of lines that are none.

    Raises ``InputError`` for a path that cannot be read.
    """
    try:
        files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        found = [_parse(line) for file in files for line in _lines(file)]
    except OSError as error:
        raise InputError(f"{path} cannot be read: {reason_of(error)}") from error
    if not files:
        raise InputError(f"{path} has no .jsonl files; the option statement_log names the folder")
    return [one for one in found if one], found.count(None)


def _lines(file: Path) -> Iterator[bytes]:
    with file.open("rb") as lines:
        yield from lines


def _parse(line: bytes) -> Record | None:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return Record(values) if isinstance(values, dict) and isinstance(values.get("hash"), str) else None
