"""Tests wait for a condition and not for a time: only a defect misses the deadline, however busy the machine is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

DEADLINE = 120.0  # seconds


def until(condition: Callable[[], object], seconds: float = DEADLINE) -> bool:
    """Wait until something is so; returns whether it is."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
