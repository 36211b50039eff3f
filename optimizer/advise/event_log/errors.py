"""Errors of event logs."""

from __future__ import annotations

from pathlib import Path

from dovetail.planner.errors import DovetailError


class LogProblem(DovetailError):
    """A log that cannot be read, or not to its end: the file, the reason, and a remedy if there is one."""

    def __init__(self, path: Path, reason: str):
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class Damaged(DovetailError):
    """Bytes that cannot be read on: the reason, as a sentence."""
