"""What is wrong with an event log."""

from __future__ import annotations

from pathlib import Path

from planner.errors import DovetailError


class LogProblem(DovetailError):
    """A log that cannot be read, or not to its end: which file, what is wrong with it, and what to do."""

    def __init__(self, path: Path, reason: str):
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class Damaged(DovetailError):
    """Bytes that cannot be read on: the reason, as a sentence."""


class CutOff(Damaged):
    """Compressed bytes that end in the middle of a block, as those of an application that runs may do."""

    def __init__(self) -> None:
        super().__init__("The compressed data ends in the middle of a block; it was read to there.")


def reason_of(error: OSError) -> str:
    """The reason that the system gives, in small letters."""
    return (error.strerror or str(error)).lower()
