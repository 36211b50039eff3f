"""An opened source in a thread of its own, so that a call that hangs can be given up."""

from __future__ import annotations

import copy
import queue
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from planner.connectors.source import LookupSource

T = TypeVar("T")


class _Call(Generic[T]):
    """Work for the thread, and what came of it."""

    def __init__(self, work: Callable[[LookupSource], T]) -> None:
        self.work = work
        self.done = threading.Event()
        self.value: T | None = None
        self.error: BaseException | None = None


class Connection:
    """A copy of a source, opened with the first call.

    All its methods are called in one thread, except ``cancel``.  A call that takes too long is given up: whoever
    waits gets a ``TimeoutError``, the source is asked to cancel, and the thread closes it when the call returns.
    """

    def __init__(self, source: LookupSource) -> None:
        self._source = copy.copy(source)
        self._calls: queue.SimpleQueue[_Call[Any] | None] = queue.SimpleQueue()
        self._hangs = False
        self._thread = threading.Thread(target=self._serve, name=f"lookup {source!r}", daemon=True)
        self._thread.start()

    def call(self, work: Callable[[LookupSource], T], timeout: float) -> T:
        """Do this with the open source; raise what it raises, or ``TimeoutError``."""
        call = _Call(work)
        self._calls.put(call)
        if not call.done.wait(timeout):
            self._hangs = True
            self._calls.put(None)
            threading.Thread(target=self._cancel, daemon=True).start()
            raise TimeoutError(f"no answer within {timeout:g} seconds")
        if call.error is not None:
            raise call.error
        return call.value  # type: ignore[return-value]

    def close(self, timeout: float = 5.0) -> None:
        """Close the source; do not wait longer than this, and for one that hangs not at all."""
        self._calls.put(None)
        self._thread.join(0 if self._hangs else timeout)

    def redacted(self, text: str) -> str:
        """Take the credentials of the open source out of what an error says."""
        return self._source.redacted(text)

    def _serve(self) -> None:
        opened = False
        try:
            while (call := self._calls.get()) is not None:
                try:
                    if not opened:
                        self._source.open()
                        opened = True
                    call.value = call.work(self._source)
                except BaseException as error:  # noqa: BLE001 - whoever waits raises it
                    call.error = error
                call.done.set()
        finally:
            self._closed()

    def _closed(self) -> None:
        try:
            self._source.close()
        except Exception:  # noqa: BLE001 - it is being thrown away, often because it is broken
            return

    def _cancel(self) -> None:
        try:
            self._source.cancel()
        except Exception:  # noqa: BLE001 - the call was given up already
            return
