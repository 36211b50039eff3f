"""The progress of epochs: the state after each, in the form of Spark's state operators."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

from dovetail.planner.state.manifest import InputState, Manifest

OPERATOR = "arrangement of "


class StepTimes:
    """The milliseconds of the steps of an epoch: ``segments``, ``answer``, ``compaction`` and ``manifest``."""

    def __init__(self) -> None:
        self._start = self._last = perf_counter()
        self.steps: dict[str, int] = {}

    def end(self, step: str) -> None:
        """Note the end of a step, which has begun at the end of the one before."""
        now = perf_counter()
        self.steps[step] = round((now - self._last) * 1000)
        self._last = now

    def __str__(self) -> str:
        steps = ", ".join(f"{step} {millis / 1000:.2f} s" for step, millis in self.steps.items())
        return f"{self._last - self._start:.2f} s ({steps})"


class EpochProgress:
    """The state of each input after the last epochs; ``keep``: how many epochs are remembered."""

    def __init__(self, names: Sequence[str], keep: int):
        self.names, self.keep = tuple(names), max(1, keep)
        self._epochs: dict[int, list[dict[str, Any]]] = {}

    def add(self, before: Manifest, after: Manifest, added: Sequence[int], times: StepTimes) -> None:
        """Remember an epoch by the states before and after it; ``added``: the rows added to each input."""
        states = zip(self.names, before.inputs, after.inputs, added, strict=True)
        self._epochs[after.epoch] = [_operator(*state, times) for state in states]
        self._epochs.pop(after.epoch - self.keep, None)

    def of(self, epoch: int) -> list[dict[str, Any]]:
        """Return the state after an epoch, by input, as JSON; empty if the epoch is not remembered."""
        return [{**one, "customMetrics": {**one["customMetrics"]}} for one in self._epochs.get(epoch, ())]


def of_arrangements(operators: Sequence[Any]) -> bool:
    """Whether the state operators of a query's progress are those of state modules."""
    return any(str(one["operatorName"]).startswith(OPERATOR) for one in operators)


def _operator(name: str, before: InputState, after: InputState, added: int, times: StepTimes) -> dict[str, Any]:
    """Describe an input as a state operator with Spark's names; a state in files takes no memory of Spark's.

    The times are those of the epoch, whose steps serve all inputs together.
    """
    metrics = {
        "bytes": after.bytes,
        "files": after.files,
        "segments": len(after.segments),
        "rowsRead": after.read - before.read,
        "rowsReadInAll": after.read,
        "rowsLateInAll": after.late,
        "answerMs": times.steps.get("answer", 0),
    }
    if after.times:
        metrics["oldestMicros"], metrics["newestMicros"] = after.times
    return {
        "operatorName": f"{OPERATOR}{name}",
        "numRowsTotal": after.rows,
        "numRowsUpdated": added,
        "numRowsRemoved": before.rows + added - after.rows,
        "allUpdatesTimeMs": times.steps.get("segments", 0),
        "allRemovalsTimeMs": times.steps.get("compaction", 0),
        "commitTimeMs": times.steps.get("manifest", 0),
        "memoryUsedBytes": 0,
        "numRowsDroppedByWatermark": after.late - before.late,
        "numShufflePartitions": 0,
        "numStateStoreInstances": 0,
        "customMetrics": metrics,
    }
