"""Streaming queries whose errors begin with the sentence that matters, before Spark's report and Python's traceback."""

from __future__ import annotations

import re
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from dovetail.planner.state.changes import UNKNOWN_KIND
from dovetail.planner.state.refusals import two_runs

_OURS = re.compile(r"^dovetail\.planner\.errors\.\w+: (.+)$", re.MULTILINE)
# Two runs write the log of one epoch; or one finds the log of the other before its own first epoch.
_TWO_RUNS = re.compile(r"\[CONCURRENT_STREAM_LOG_UPDATE\]|/offsets should be empty on batch 0")
_CHECKPOINT = re.compile(r"checkpointLocation=([^],\n]+)")


def first_message(text: str) -> str:
    """Find the sentence in the report of a failed query that describes the fault; empty if there is none of ours."""
    if cause := UNKNOWN_KIND.search(text):
        return cause[0]
    if _TWO_RUNS.search(text):
        place = _CHECKPOINT.search(text)
        return f"Another run of a query {two_runs(place[1] if place else 'of this one')}"
    found: list[str] = _OURS.findall(text)
    return found[-1] if found else ""


class QueryWithFirstMessage(StreamingQuery):
    """A ``StreamingQuery`` whose exceptions begin with our own sentence, if there is one."""

    def __init__(self, query: StreamingQuery):
        super().__init__(query._jsq)

    def awaitTermination(self, timeout: int | None = None) -> bool | None:  # noqa: N802 - Spark's name
        """Wait for the end of the query.  Raises ``StreamingQueryException``, with a known cause first."""
        try:
            return super().awaitTermination(timeout)
        except StreamingQueryException as error:
            raise with_first_message(error) from None

    def processAllAvailable(self) -> None:  # noqa: N802 - Spark's name
        """Wait until all rows are processed.  Raises ``StreamingQueryException``, with a known cause first."""
        try:
            super().processAllAvailable()
        except StreamingQueryException as error:
            raise with_first_message(error) from None

    def exception(self) -> Any:
        """Return the error that ended the query, with a known cause first; None if it has none."""
        error = super().exception()
        return error and with_first_message(error)


def with_first_message(error: StreamingQueryException) -> StreamingQueryException:
    """Return an error that begins with our own sentence; the same one if it has none, or begins with it already."""
    text = str(error)
    sentence = first_message(text)
    if not sentence or text.startswith(sentence):
        return error
    return StreamingQueryException(f"{sentence}\n\n{text}")
