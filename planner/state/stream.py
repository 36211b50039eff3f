"""The properties of a stream that a statement reads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stream:
    """A streaming relation: its columns with their types, its watermark, and whether two readings are the same.

    ``event_time`` is the column of the watermark, of type ``time``; None without one; ``delay`` is in milliseconds.
    ``change`` is the column with the kind of change; empty if all rows are inserts.
    ``reads`` lists the declared tables and views that it reads, if it is a view.
    """

    columns: tuple[tuple[str, str], ...]
    event_time: str | None = None
    delay: int = 0
    deterministic: bool = True
    change: str = ""
    reads: tuple[tuple[str, ...], ...] = ()

    @property
    def time(self) -> str:
        """The type of the column of the watermark."""
        return dict(self.columns)[self.event_time] if self.event_time else ""
