"""The time limit of planning: checked before each rule and each request to the catalog."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter

_DEADLINE: ContextVar[float | None] = ContextVar("deadline", default=None)


class PlanningTimeout(BaseException):
    """Planning has reached its time limit.  No ``Exception``: code between here and the planner would catch it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Let ``check_deadline`` raise ``PlanningTimeout`` inside the block once so many seconds have passed."""
    before = _DEADLINE.set(perf_counter() + seconds)
    try:
        yield
    finally:
        _DEADLINE.reset(before)


def check_deadline() -> None:
    """Raise ``PlanningTimeout`` if the time limit has passed; without a limit, nothing happens."""
    deadline = _DEADLINE.get()
    if deadline is not None and perf_counter() > deadline:
        raise PlanningTimeout
