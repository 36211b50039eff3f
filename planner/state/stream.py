"""What is known of a stream that a statement names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stream:
    """A streaming relation: its columns with their types, its watermark, and whether two readings are the same.

    ``event_time`` is the column of the watermark, of type ``time``; None without one; ``delay`` is in milliseconds.
    """

    columns: tuple[tuple[str, str], ...]
    event_time: str | None = None
    delay: int = 0
    deterministic: bool = True

    @property
    def time(self) -> str:
        """The type of the column of the watermark."""
        return dict(self.columns)[self.event_time] if self.event_time else ""
