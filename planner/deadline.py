"""The time limits of planning: the first ends measurements, the second, twice as long, the planning itself.

The first is checked before each measurement, the second before each rule and each request to the catalog.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from time import perf_counter


@dataclass(frozen=True)
class _Limits:
    start: float
    seconds: float


_LIMITS: ContextVar[_Limits | None] = ContextVar("limits", default=None)
PLANNING = 2  # times the limit of measurements


class PlanningTimeout(BaseException):
    """Planning has reached its time limit.  No ``Exception``: code between here and the planner would catch it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Let nothing be measured after so many seconds, and ``check_deadline`` raise after twice as many."""
    before = _LIMITS.set(_Limits(perf_counter(), seconds))
    try:
        yield
    finally:
        _LIMITS.reset(before)


def may_measure() -> bool:
    """Whether there is time to measure data."""
    limits = _LIMITS.get()
    return limits is None or perf_counter() - limits.start <= limits.seconds


def check_deadline() -> None:
    """Raise ``PlanningTimeout`` if the time limit of planning has passed; without a limit, nothing happens."""
    limits = _LIMITS.get()
    if limits is not None and perf_counter() - limits.start > PLANNING * limits.seconds:
        raise PlanningTimeout
