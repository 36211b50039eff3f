"""Stores the arrangements of a join next to its checkpoint: Parquet segments, and a manifest for each epoch.

    CHECKPOINT/dovetail/query.json                   the join, or the inputs, that this state is of
                        run.3.json                   the run of the query that owns the state
                        name-1f6c2a90                what its files in a sink are called (executor/state/sink_names.py)
                        epoch-000000000012.json      the manifest: what makes up the state after epoch 12
                        epoch-000000000012.1.json    what it is after the epoch was run again, or a view has caught up
                        rows-000000000012-5f1c9a02/input=0/   what arrived in epoch 12 on the first input
                        merged-000000000012-0-5f1c9a02/       older segments of it, merged in epoch 12

No file is overwritten: an epoch that runs again writes into new folders, and its manifest is a new revision.  It reads
the previous manifest and nothing else, so that it starts from the same state.  Files that no manifest names any more
are removed when the next epoch starts: until then Spark may run the epoch again.  Manifests are removed before the
segments that they name.
"""

from __future__ import annotations

import re
from typing import Protocol

from dovetail.executor.state.folder import Folder
from dovetail.executor.state.revisions import newest, write_revision
from dovetail.executor.state.runs import STEM, check_owner, claim
from dovetail.executor.state.sink_names import NAMES, sink_name
from dovetail.executor.state.spark_logs import check_logs
from dovetail.planner.state.manifest import InputState, Manifest, Segment, read_manifest
from dovetail.planner.state.refusals import damaged

FOLDER = "dovetail"
_QUERY = "query.json"
_MANIFEST = re.compile(r"epoch-(\d+)(?:\.\d+)?\.json")


class Described(Protocol):
    """The query, or the inputs, that a state belongs to."""

    def to_json(self) -> str:
        """Describe it as text, for the file next to the state."""
        ...

    def check_same(self, written: str, where: str) -> None:
        """Raise ``StateError`` unless the state in ``where``, described by ``written``, belongs to it."""
        ...


class Store:
    """The state of one query, in a folder of its checkpoint."""

    def __init__(self, checkpoint: Folder):
        self.checkpoint = checkpoint
        self.folder = checkpoint.sub(FOLDER)

    def query(self) -> str | None:
        """Read the description of the query of the state; None if there is no state."""
        return self.folder.read(_QUERY)

    def begun_by_spark(self) -> bool:
        """Whether the checkpoint belongs to a query whose state is in Spark's own store."""
        return bool(self.checkpoint.inside("state"))

    def open(self, source: Described) -> str:
        """Start or reopen the state of a query; return the prefix of its files in a sink.

        Raises ``StateError`` if the state belongs to another query, or is damaged.
        """
        written = self.query()
        if written is not None:
            self._tidy()
            source.check_same(written, self.folder.below(_QUERY))
            self.check_newest()
        elif self.checkpoint.inside("commits"):
            raise damaged(f"{self.folder.below(_QUERY)} is missing, and {self.checkpoint} has been used without it")
        unfinished = self.has_unfinished_epoch()
        if written is not None and unfinished:
            self.check_name()
        name = sink_name(self.folder, self.folder.read(NAMES), unfinished=unfinished)
        if written is None:
            self.folder.create(_QUERY, source.to_json())
        return name

    def has_unfinished_epoch(self) -> bool:
        """Whether Spark has started an epoch and not committed it."""
        begun, ended = ({f.name for f in self.checkpoint.inside(log)} for log in ("offsets", "commits"))
        return any(name.isdigit() and name not in ended for name in begun)

    def _tidy(self) -> None:
        """Remove an unfinished log of Spark's first epoch, from which Spark would not start again."""
        offsets = self.checkpoint.inside("offsets")
        if offsets and all(f.name.startswith(".") for f in (*offsets, *self.checkpoint.inside("commits"))):
            self.checkpoint.delete("offsets")

    def epochs(self) -> list[int]:
        """List the epochs that have a manifest, in order."""
        return sorted({int(m[1]) for f in self.folder.inside() if (m := _MANIFEST.fullmatch(f.name))})

    def manifest(self, epoch: int) -> Manifest:
        """Read the newest manifest of an epoch.  Raises ``StateError`` if it is missing or damaged."""
        name = newest(self.folder, manifest_name(epoch))
        text = self.folder.read(name)
        if text is None:
            raise damaged(f"{self.folder.below(name)} is missing")
        return read_manifest(text, self.folder.below(name))

    def before(self, epoch: int, inputs: int) -> Manifest:
        """Read the state that an epoch starts from.  Raises ``StateError``."""
        if epoch == 0:
            return Manifest(-1, (InputState(),) * inputs)
        return self.manifest(epoch - 1)

    def check_newest(self) -> None:
        """Raise ``StateError`` unless the newest manifest, its files and the logs of Spark are there."""
        epochs = self.epochs()
        check_logs(self.checkpoint, epochs[-1] if epochs else -1)
        if epochs:
            self.check(self.manifest(epochs[-1]))

    def check_name(self) -> None:
        """Raise ``StateError`` unless the name is there under which an epoch may have written to a sink."""
        if not any(f.name.startswith(NAMES) for f in self.folder.inside()):
            raise damaged(f"{self.folder.below(NAMES)}-… is missing, which records the prefix of its files in a sink")

    def check(self, manifest: Manifest) -> None:
        """Raise ``StateError`` unless every file that a manifest names exists and has its size."""
        for segment in (s for state in manifest.inputs for s in state.segments):
            found = dict(self.files(segment.folder))
            for name, size in segment.files:
                path = self.folder.below(f"{segment.folder}/{name}")
                if name not in found:
                    raise damaged(f"{path} is missing, one of the files that hold {segment.rows} rows")
                if found[name] != size:
                    raise damaged(f"{path} is damaged: it has {found[name]} bytes, and had {size}")

    def claim(self) -> str:
        """Make this run the owner of the state; return its token.  Raises ``StateError``."""
        return claim(self.folder)

    def check_owner(self, token: str) -> None:
        """Raise ``StateError`` if another run owns the state now."""
        check_owner(self.folder, token, str(self.checkpoint))

    def commit(self, manifest: Manifest) -> None:
        """Write the manifest of a state, which makes it the newest."""
        write_revision(self.folder, manifest_name(manifest.epoch), manifest.to_json())

    def clean(self, state: Manifest, *, all_of_it: bool) -> None:
        """Remove the files that no epoch after ``state`` needs; ``all_of_it``: also those that a crash left behind."""
        needed = {s.folder.split("/")[0] for i in state.inputs for s in i.segments}
        names = [f.name for f in self.folder.inside()]
        current = newest(self.folder, manifest_name(state.epoch))
        for name in names:
            if name != current and (match := _MANIFEST.fullmatch(name)) and (all_of_it or int(match[1]) <= state.epoch):
                self.folder.delete(name)
        for folder in state.obsolete:
            whole = folder.split("/")[0]
            self.folder.delete(folder if whole in needed else whole)
        if all_of_it:
            for name in names:
                if not (_MANIFEST.fullmatch(name) or name in (*needed, _QUERY) or name.startswith((NAMES, f"{STEM}."))):
                    self.folder.delete(name)

    def files(self, folder: str) -> tuple[tuple[str, int], ...]:
        """List the data files of a segment, with their sizes."""
        return tuple((f.name, f.size) for f in self.folder.inside(folder) if not f.name.startswith(("_", ".")))

    def paths(self, segments: tuple[Segment, ...]) -> list[str]:
        """Return the folders of segments, as Spark reads them."""
        return [self.folder.below(s.folder) for s in segments]


def manifest_name(epoch: int) -> str:
    """Return the name of the manifest of an epoch, without its revision."""
    return f"epoch-{epoch:012}"
