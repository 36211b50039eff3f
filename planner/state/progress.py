"""What each epoch left in the state, told as Spark tells of its state operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planner.state.manifest import InputState, Manifest

OPERATOR = "arrangement of "


class Told:
    """What the last epochs left in the state of each input; ``keep``: how many of them are remembered."""

    def __init__(self, names: Sequence[str], keep: int):
        self.names, self.keep = tuple(names), max(1, keep)
        self._epochs: dict[int, list[dict[str, Any]]] = {}

    def add(self, before: Manifest, after: Manifest, added: Sequence[int]) -> None:
        """Remember an epoch by the states around it; ``added``: the rows that came into that of each input."""
        states = zip(self.names, before.inputs, after.inputs, added, strict=True)
        self._epochs[after.epoch] = [_operator(*state) for state in states]
        self._epochs.pop(after.epoch - self.keep, None)

    def of(self, epoch: int) -> list[dict[str, Any]]:
        """The state after an epoch, by input, as JSON has it; nothing where the epoch is not remembered."""
        return [{**one, "customMetrics": {**one["customMetrics"]}} for one in self._epochs.get(epoch, ())]


def of_arrangements(operators: Sequence[Any]) -> bool:
    """Whether the state operators of a query's progress are those of state modules."""
    return any(str(one["operatorName"]).startswith(OPERATOR) for one in operators)


def _operator(name: str, before: InputState, after: InputState, added: int) -> dict[str, Any]:
    """Spark's names where Spark has one for it; no time of its own, and no memory, is spent on a state in files."""
    own = {
        "bytes": after.bytes,
        "files": after.files,
        "segments": len(after.segments),
        "rowsRead": after.read - before.read,
        "rowsReadInAll": after.read,
        "rowsLateInAll": after.late,
    }
    if after.times:
        own["oldestMicros"], own["newestMicros"] = after.times
    return {
        "operatorName": f"{OPERATOR}{name}",
        "numRowsTotal": after.rows,
        "numRowsUpdated": added,
        "numRowsRemoved": before.rows + added - after.rows,
        "allUpdatesTimeMs": 0,
        "allRemovalsTimeMs": 0,
        "commitTimeMs": 0,
        "memoryUsedBytes": 0,
        "numRowsDroppedByWatermark": after.late - before.late,
        "numShufflePartitions": 0,
        "numStateStoreInstances": 0,
        "customMetrics": own,
    }
