"""Retries round trips; the final error names the source, the keys, the number of attempts and the reason."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from dovetail.executor.connectors.answer import WrongAnswer
from dovetail.executor.connectors.connection import Connection, T
from dovetail.executor.connectors.keys import format_sample
from dovetail.executor.connectors.metrics import Counters
from dovetail.executor.connectors.source import LookupSource
from dovetail.planner.errors import LookupFailed, SourceError, plural
from dovetail.planner.logical.lookup_spec import LookupSpec

if TYPE_CHECKING:
    import pyarrow as pa


class RetryingSource:
    """A source that connects on demand and reconnects after a fault.  ``close`` it on every path."""

    def __init__(self, source: LookupSource, spec: LookupSpec, counters: Counters) -> None:
        self._source = source
        self._spec = spec
        self._counters = counters
        self._connection: Connection | None = None
        self._stopped = False

    def fetch(self, keys: pa.Table, check: Callable[[pa.Table], T]) -> T:
        """Fetch the rows of keys; ``check`` raises ``WrongAnswer`` for rows that do not fit the request.

        After the last attempt, halves are fetched to find a single key that causes the failure.  If both halves are
        answered, their rows are returned.  Raises ``LookupFailed``.
        """
        try:
            return self._fetch_with_retries(keys, check)
        finally:
            if self._stopped:
                self.close()

    def _fetch_with_retries(self, keys: pa.Table, check: Callable[[pa.Table], T]) -> T:
        import pyarrow as pa

        error, reason, attempts = None, "it was stopped", 0
        while attempts < self._spec.attempts and not self._stopped:
            if attempts:
                self.wait()
            attempts += 1
            try:
                return check(self._fetch_once(keys))
            except Exception as failed:  # noqa: BLE001 - a driver may raise anything
                error, reason = failed, self._describe_error(failed)
                self.close()
                if isinstance(failed, SourceError):
                    break
        clear = isinstance(error, SourceError | TimeoutError | WrongAnswer) or self._stopped
        blamed, answers = (keys, []) if clear else self._find_failing_keys(keys)
        if answers:
            try:
                return check(pa.concat_tables(answers))
            except Exception as failed:  # noqa: BLE001
                reason = self._describe_error(failed)
        what = format_sample(blamed)
        if keys.num_rows > 1:
            what = f"{keys.num_rows} keys, {what}" if blamed is keys else f"{what} among {keys.num_rows} keys"
        raise self._failure(what, attempts, reason)

    def scan(self, index: int, count: int, check: Callable[[pa.Table], pa.Table]) -> Iterator[pa.Table]:
        """Read one split of the table; it is retried from its start only before the first row was yielded.

        ``check`` converts the source's rows to those of the lookup; it raises ``WrongAnswer``.
        """
        attempts = 0
        while True:
            attempts += 1
            started = False
            try:
                for batch in self._scan_once(index, count):
                    table = check(batch)
                    started = True
                    yield table
                return
            except Exception as failed:  # noqa: BLE001
                reason = self._describe_error(failed)
                self.close()
                if started or attempts == self._spec.attempts or isinstance(failed, SourceError):
                    raise self._failure(f"split {index + 1} of {count}", attempts, reason) from None
                self.wait()

    def wait(self) -> None:
        """Wait for the retry delay, and count a retry."""
        self._counters.retries += 1
        time.sleep(self._spec.delay)

    def stop(self) -> None:
        """Stop retrying and close the connection; called from another thread than the one that fetches."""
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

    def _fetch_once(self, keys: pa.Table) -> pa.Table:
        self._counters.fetches += 1
        return self._call(lambda source: source.fetch(keys))

    def _scan_once(self, index: int, count: int) -> Iterator[pa.Table]:
        import pyarrow as pa

        self._counters.fetches += 1
        batches = self._call(lambda source: iter(source.scan_split(index, count, self._spec.keys)))
        while (batch := self._call(lambda _: next(batches, None))) is not None:
            yield pa.Table.from_batches([batch])

    def _find_failing_keys(self, keys: pa.Table) -> tuple[pa.Table, list[pa.Table]]:
        """Bisect for the smallest set of keys that fails alone; the current set if the failure has no single cause.

        Returns the answers, too, if both halves of all keys have one.
        """
        is_whole = True
        while keys.num_rows > 1:
            half = keys.num_rows // 2
            parts = (keys.slice(0, half), keys.slice(half))
            answers = [self._try_once(part) for part in parts]
            failing = [part for part, answer in zip(parts, answers, strict=True) if answer is None]
            if len(failing) != 1:
                return keys, [answer for answer in answers if answer is not None] if is_whole and not failing else []
            keys, is_whole = failing[0], False
        return keys, []

    def _try_once(self, keys: pa.Table) -> pa.Table | None:
        try:
            return self._fetch_once(keys)
        except Exception:  # noqa: BLE001
            self.close()
            return None

    def _describe_error(self, error: Exception) -> str:
        """Describe an error in one line without credentials, which only an open source knows."""
        kind = "" if isinstance(error, SourceError | WrongAnswer | TimeoutError) else f"{type(error).__name__}: "
        text = kind + " ".join(str(error).split())
        return self._connection.redact(text) if self._connection is not None else text

    def _failure(self, what: str, attempts: int, reason: str) -> LookupFailed:
        times = plural(attempts, "attempt")
        return LookupFailed(f"lookup in {self._spec.table} ({self._source!r}) failed for {what}; {times}; {reason}")
