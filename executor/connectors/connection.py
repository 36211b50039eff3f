"""Runs an open source in its own thread, so that a call that hangs can time out."""

from __future__ import annotations

import copy
import queue
import threading
import traceback
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from dovetail.executor.connectors.source import LookupSource

T = TypeVar("T")


class _Call(Generic[T]):
    """A call to run in the thread, and its result."""

    def __init__(self, work: Callable[[LookupSource], T]) -> None:
        self.work = work
        self.done = threading.Event()
        self.value: T | None = None
        self.error: BaseException | None = None


class Connection:
    """A copy of a source, opened with the first call.

    One thread calls all its methods except ``cancel``.  When a call times out, the caller gets a ``TimeoutError``, the
    source's ``cancel`` is called, and the thread closes the source when the call returns.
    """

    def __init__(self, source: LookupSource) -> None:
        self._source = copy.copy(source)
        self._calls: queue.SimpleQueue[_Call[Any] | None] = queue.SimpleQueue()
        self._is_hung = False
        self._is_busy = False
        self._thread = threading.Thread(target=self._serve, name=f"lookup {source!r}", daemon=True)
        self._thread.start()

    def call(self, work: Callable[[LookupSource], T], timeout: float) -> T:
        """Run ``work`` on the open source.  Raises what it raises, or ``TimeoutError``."""
        call = _Call(work)
        self._calls.put(call)
        if not call.done.wait(timeout):
            self._is_hung = True
            self._calls.put(None)
            threading.Thread(target=self._cancel, daemon=True).start()
            raise TimeoutError(f"no answer within {timeout:g} seconds")
        if call.error is not None:
            raise call.error
        return call.value  # type: ignore[return-value]

    def close(self, timeout: float = 5.0) -> None:
        """Close the source, and cancel a running call.

        Waits ``timeout`` seconds at most, and not at all for a source that hangs.
        """
        self._calls.put(None)
        if self._is_busy and not self._is_hung:
            threading.Thread(target=self._cancel, daemon=True).start()
        self._thread.join(0 if self._is_hung else timeout)

    def redact(self, text: str) -> str:
        """Remove the credentials of the open source from an error message."""
        return self._source.redact(text)

    def _serve(self) -> None:
        opened = False
        try:
            while (call := self._calls.get()) is not None:
                self._is_busy = True
                try:
                    if not opened:
                        self._source.open()
                        opened = True
                    call.value = call.work(self._source)
                except BaseException as error:  # noqa: BLE001 - the caller raises it
                    _release(error)
                    call.error = error
                self._is_busy = False
                call.done.set()
        finally:
            self._close_source()

    def _close_source(self) -> None:
        try:
            self._source.close()
        except Exception:  # noqa: BLE001 - the source is discarded, often because it is broken
            return

    def _cancel(self) -> None:
        try:
            self._source.cancel()
        except Exception:  # noqa: BLE001 - the call has timed out already
            return


def _release(error: BaseException) -> None:
    """Clear the frames of an error's traceback, which may hold an answer: an error may live long."""
    seen: BaseException | None = error
    while seen is not None:
        traceback.clear_frames(seen.__traceback__)
        seen = seen.__cause__ or seen.__context__
