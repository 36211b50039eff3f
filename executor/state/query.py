"""The streaming query of a join on state modules, whose progress includes the stored inputs."""

from __future__ import annotations

import json

from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from dovetail.executor.session.first_message import QueryWithFirstMessage
from dovetail.planner.state.progress import EpochProgress


class StateQuery(QueryWithFirstMessage):
    """A ``StreamingQuery`` whose ``stateOperators`` are the stored inputs after the epoch of each progress.

    Spark does not know them: the progress that a ``StreamingQueryListener`` gets has none.
    """

    def __init__(self, query: StreamingQuery, epochs: EpochProgress):
        super().__init__(query)
        self._epochs = epochs

    @property
    def recentProgress(self) -> list[StreamingQueryProgress]:  # noqa: N802 - Spark's name
        """The progress of the last micro-batches, with the stored inputs after each."""
        return [self._with_state(progress) for progress in super().recentProgress]

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:  # noqa: N802 - Spark's name
        """The progress of the last micro-batch, with the stored inputs after it; None before the first."""
        progress = super().lastProgress
        return None if progress is None else self._with_state(progress)

    def _with_state(self, progress: StreamingQueryProgress) -> StreamingQueryProgress:
        document = json.loads(progress.json)
        document["stateOperators"] = self._epochs.of(document["batchId"])
        return StreamingQueryProgress.fromJson(document)
