"""One round trip, tried as often as the lookup says; then one error that says what was asked of whom, and why not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from planner.connectors.answer import WrongAnswer, conformed
from planner.connectors.connection import Connection, T
from planner.connectors.keys import sample
from planner.connectors.metrics import Counters
from planner.connectors.source import LookupSource
from planner.connectors.spec import LookupSpec
from planner.errors import LookupFailed, SourceError

if TYPE_CHECKING:
    import pyarrow as pa


class Retrying:
    """A source that is connected when it is needed, and anew after a fault.  ``close`` it on every path."""

    def __init__(self, source: LookupSource, spec: LookupSpec, counters: Counters) -> None:
        self._source = source
        self._spec = spec
        self._counters = counters
        self._connection: Connection | None = None
        self._stopped = False

    def fetch(self, keys: pa.Table, check: Callable[[pa.Table], T]) -> T:
        """Fetch the rows of these keys; ``check`` raises ``WrongAnswer`` for rows that are not what was asked for.

        Raises ``LookupFailed`` after the last attempt.  Where one key is to blame, the error names it.
        """
        try:
            return self._tried(keys, check)
        finally:
            if self._stopped:
                self.close()

    def _tried(self, keys: pa.Table, check: Callable[[pa.Table], T]) -> T:
        error, said, attempts = None, "it was stopped", 0
        while attempts < self._spec.attempts and not self._stopped:
            if attempts:
                self.wait()
            attempts += 1
            try:
                return check(self._ask(keys))
            except Exception as failed:  # noqa: BLE001 - a driver may raise anything
                error, said = failed, self._said(failed)
                self.close()
                if isinstance(failed, SourceError):
                    break
        clear = isinstance(error, SourceError | TimeoutError | WrongAnswer) or self._stopped
        blamed = keys if clear else self._culprit(keys)
        what = sample(blamed)
        if keys.num_rows > 1:
            what = f"{keys.num_rows} keys, {what}" if blamed is keys else f"{what} among {keys.num_rows} keys"
        raise self._failed(what, attempts, said)

    def scan(self, index: int, count: int, schema: pa.Schema) -> Iterator[pa.Table]:
        """Read one share of the table; tried again from its start only as long as nothing of it was handed on."""
        attempts = 0
        while True:
            attempts += 1
            started = False
            try:
                for batch in self._share(index, count):
                    table = conformed(batch, schema)
                    started = True
                    yield table
                return
            except Exception as failed:  # noqa: BLE001
                said = self._said(failed)
                self.close()
                if started or attempts == self._spec.attempts or isinstance(failed, SourceError):
                    raise self._failed(f"share {index + 1} of {count}", attempts, said) from None
                self.wait()

    def wait(self) -> None:
        """Wait as long as between two attempts, and count one."""
        self._counters.retries += 1
        time.sleep(self._spec.delay)

    def stop(self) -> None:
        """Make no further attempt, and close the connection; for another thread than the one that fetches."""
        self._stopped = True
        self.close()

    def close(self) -> None:
        """Close the connection, if there is one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _call(self, work: Callable[[LookupSource], T]) -> T:
        if self._connection is None:
            self._connection = Connection(self._source)
        return self._connection.call(work, self._spec.timeout)

    def _ask(self, keys: pa.Table) -> pa.Table:
        self._counters.fetches += 1
        return self._call(lambda source: source.fetch(keys))

    def _share(self, index: int, count: int) -> Iterator[pa.Table]:
        import pyarrow as pa

        self._counters.fetches += 1
        batches = self._call(lambda source: iter(source.scan_share(index, count, self._spec.keys)))
        while (batch := self._call(lambda _: next(batches, None))) is not None:
            yield pa.Table.from_batches([batch])

    def _culprit(self, keys: pa.Table) -> pa.Table:
        """The fewest keys without which the rest would be answered, found by halving; all where there are no such."""
        while keys.num_rows > 1:
            half = keys.num_rows // 2
            parts = (keys.slice(0, half), keys.slice(half))
            failing = [part for part in parts if not self._answers(part)]
            if len(failing) != 1:
                return keys
            keys = failing[0]
        return keys

    def _answers(self, keys: pa.Table) -> bool:
        try:
            self._ask(keys)
        except Exception:  # noqa: BLE001
            self.close()
            return False
        return True

    def _said(self, error: Exception) -> str:
        """What an error says, in one line and without credentials, which only a source that is open knows."""
        kind = "" if isinstance(error, SourceError | WrongAnswer | TimeoutError) else f"{type(error).__name__}: "
        text = kind + " ".join(str(error).split())
        return self._connection.redacted(text) if self._connection is not None else text

    def _failed(self, what: str, attempts: int, said: str) -> LookupFailed:
        times = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        return LookupFailed(f"lookup in {self._spec.table} ({self._source!r}) failed for {what}; {times}; {said}")
