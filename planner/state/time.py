"""Combines the watermarks of several sides, as Spark does: in milliseconds since 1970, and never backward."""

from __future__ import annotations

from collections.abc import Sequence


def side_time(before: int | None, greatest: int | None, delay: int) -> int | None:
    """The watermark of a side after rows whose greatest time, in microseconds, is ``greatest``."""
    if greatest is None:
        return before
    now = greatest // 1000 - delay
    return now if before is None else max(before, now)


def watermark(before: int, times: Sequence[int | None], policy: str) -> int:
    """The watermark of the query; a side that has seen no row yet stands at 1970.

    ``policy`` is Spark's ``multipleWatermarkPolicy``: ``min`` waits for the slowest side, ``max`` goes with the fastest
    one.
    """
    choose = max if policy.lower() == "max" else min
    return max(before, choose(0 if t is None else t for t in times))
