"""The streaming query of a join on state modules: Spark's own, whose progress also tells what is kept."""

from __future__ import annotations

import json

from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from planner.state.progress import Told


class StateQuery(StreamingQuery):
    """A ``StreamingQuery`` whose ``stateOperators`` are the inputs that are kept, after the very epoch they stand at.

    Spark knows nothing of them: what it hands to a ``StreamingQueryListener`` has none.
    """

    def __init__(self, query: StreamingQuery, told: Told):
        super().__init__(query._jsq)
        self._told = told

    @property
    def recentProgress(self) -> list[StreamingQueryProgress]:  # noqa: N802 - Spark's name
        """What Spark tells of the last micro-batches, with what is kept after each."""
        return [self._with_state(progress) for progress in super().recentProgress]

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:  # noqa: N802 - Spark's name
        """What Spark tells of the last micro-batch, with what is kept after it; None before the first."""
        progress = super().lastProgress
        return None if progress is None else self._with_state(progress)

    def _with_state(self, progress: StreamingQueryProgress) -> StreamingQueryProgress:
        said = json.loads(progress.json)
        said["stateOperators"] = self._told.of(said["batchId"])
        return StreamingQueryProgress.fromJson(said)
