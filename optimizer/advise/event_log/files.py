"""Finds the event logs of a folder: single files, and the folders ``eventlog_v2_…`` of rolling logs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from dovetail.optimizer.advise.event_log.errors import LogProblem
from dovetail.planner.errors import reason_of

_ROLLING = "eventlog_v2_"
_PART = re.compile(r"events_(\d+)_.*?(\.compact)?(\.inprogress)?$")


@dataclass(frozen=True)
class EventLog:
    """The log of one application: its files in the order in which they were written."""

    path: Path
    parts: tuple[Path, ...]
    in_progress: bool

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(part.stat().st_size for part in self.parts)


def find_logs(folder: Path) -> tuple[list[EventLog], list[LogProblem]]:
    """Find the event logs of a folder, or the one that a path names, and a problem for each entry that is unreadable.

    Hidden files and other folders are left out.
    """
    if not folder.exists():
        return [], [LogProblem(folder, "There is no such file or folder.")]
    if not folder.is_dir() or folder.name.startswith(_ROLLING):
        entries = [folder]
    else:
        entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith((".", "_")))
    logs, problems = [], []
    for entry in entries:
        try:
            if entry.is_dir() and entry.name.startswith(_ROLLING):
                logs.append(_rolling_log(entry))
            elif entry.is_file():
                logs.append(EventLog(entry, (entry,), entry.name.endswith(".inprogress")))
            elif not entry.is_dir():
                problems.append(LogProblem(entry, "It is neither a file nor a folder, so it was not opened."))
        except OSError as error:
            problems.append(LogProblem(entry, f"The folder cannot be read: {reason_of(error)}. Check its permissions."))
        except LogProblem as problem:
            problems.append(problem)
    return logs, problems


def _rolling_log(folder: Path) -> EventLog:
    """Order the parts of a rolling log by number; a compact part replaces all parts up to its own number."""
    parts: dict[tuple[int, bool], Path] = {}
    in_progress = False
    for entry in folder.iterdir():
        found = _PART.match(entry.name)
        if found and entry.is_file():
            parts[int(found[1]), bool(found[2])] = entry
        in_progress |= entry.name.startswith("appstatus_") and entry.name.endswith(".inprogress")
    if not parts:
        raise LogProblem(folder, "The folder has no files events_N_…, so the log is empty.")
    first = max((number for number, compact in parts if compact), default=None)
    kept = [key for key in parts if first is None or key[0] > first or key == (first, True)]
    return EventLog(folder, tuple(parts[key] for key in sorted(kept)), in_progress)
