"""A clock that measures the seconds of nested steps."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import wraps
from time import perf_counter
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class Clock:
    """Seconds by step; while one step runs inside another, the other's time stands still."""

    def __init__(self, steps: Iterable[str]):
        self.seconds = dict.fromkeys(steps, 0.0)
        self.whole = dict(self.seconds)
        self.inside: list[float] = []

    @contextmanager
    def running(self, step: str) -> Iterator[None]:
        """Count time for a step."""
        start = perf_counter()
        self.inside.append(0.0)
        try:
            yield
        finally:
            took = perf_counter() - start
            self.whole[step] += took
            self.seconds[step] += took - self.inside.pop()
            if self.inside:
                self.inside[-1] += took

    def watch(self, owner: object, step: str, *methods: str) -> None:
        """Count the time of an object's methods for a step."""
        for method in methods:
            setattr(owner, method, self._timed(getattr(owner, method), step))

    @contextmanager
    def patched(self, watched: Iterable[tuple[Any, ...]]) -> Iterator[None]:
        """Count the time of methods while this lasts; each item is a step, a class and names of methods."""
        with ExitStack() as patches:
            for step, owner, *methods in watched:
                for method in methods:
                    patches.enter_context(patch.object(owner, method, self._timed(getattr(owner, method), step)))
            yield

    def move(self, step: str, to: str, seconds: float) -> None:
        """Count for a step what another was counted for."""
        self.seconds[step] -= seconds
        self.seconds[to] += seconds

    def _timed(self, work: Callable[..., Any], step: str) -> Callable[..., Any]:
        @wraps(work)
        def timed(*given: Any, **more: Any) -> Any:
            with self.running(step):
                return work(*given, **more)

        return timed
