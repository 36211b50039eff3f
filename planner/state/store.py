"""The arrangements of a join beside its checkpoint: segments in Parquet, and a manifest for each epoch.

    CHECKPOINT/dovetail/query.json                   the join, or the inputs, that this state is of
                        epoch-000000000012.json      the manifest: what makes up the state after epoch 12
                        rows-000000000012/input=0/   what arrived in epoch 12 on the first input
                        merged-000000000012-0/       older segments of it, merged in epoch 12

An epoch reads the manifest before its own and nothing else, so that one that is run again sees what it saw the first
time, and writes over what it wrote.  What a manifest no longer names is removed once the next epoch has begun: until
then Spark may ask for the epoch again.
"""

from __future__ import annotations

import re
from typing import Protocol
from uuid import uuid4

from planner.state.folder import Folder
from planner.state.manifest import InputState, Manifest, Segment, read_manifest
from planner.state.refusals import damaged

FOLDER = "dovetail"
_QUERY, _NAME = "query.json", "name"
_MANIFEST = re.compile(r"epoch-(\d+)\.json")


class Described(Protocol):
    """What a state is of."""

    def to_json(self) -> str:
        """As text, which is written beside the state."""
        ...

    def hold_against(self, written: str, where: str) -> None:
        """Raise ``StateError`` unless the state in ``where``, described by ``written``, is of this."""
        ...


class Store:
    """The state of one query, in a folder of its checkpoint."""

    def __init__(self, checkpoint: Folder):
        self.checkpoint = checkpoint
        self.folder = checkpoint.sub(FOLDER)

    def query(self) -> str | None:
        """The join that the state is of, as it was written; None where there is no state."""
        return self.folder.read(_QUERY)

    def begun_by_spark(self) -> bool:
        """Whether the checkpoint is of a query that keeps its state in Spark's own store."""
        return bool(self.checkpoint.inside("state"))

    def open(self, said: Described) -> str:
        """Begin a state of what is said, or go on with its own; return the name that its files in a sink go by.

        Raises ``StateError`` where it is another's, or damaged.
        """
        written = self.query()
        if written is not None:
            self._tidy()
            said.hold_against(written, self.folder.below(_QUERY))
            epochs = self.epochs()
            if epochs:
                self.check(self.manifest(epochs[-1]))
        elif self.checkpoint.inside("commits"):
            raise damaged(f"{self.folder.below(_QUERY)} is missing, and {self.checkpoint} has been used without it")
        if (name := self.folder.read(_NAME)) is None:
            name = uuid4().hex[:8]
            self.folder.write(_NAME, name)
        if written is None:
            self.folder.write(_QUERY, said.to_json())
        return name

    def _tidy(self) -> None:
        """Remove what is left of Spark's first word on its first epoch, on which it would not begin again."""
        offsets = self.checkpoint.inside("offsets")
        if offsets and all(f.name.startswith(".") for f in (*offsets, *self.checkpoint.inside("commits"))):
            self.checkpoint.delete("offsets")

    def epochs(self) -> list[int]:
        """The epochs whose manifests are there, in order."""
        return sorted(int(m[1]) for f in self.folder.inside() if (m := _MANIFEST.fullmatch(f.name)))

    def manifest(self, epoch: int) -> Manifest:
        """The manifest of an epoch.  Raises ``StateError`` where it is missing or damaged."""
        name = f"epoch-{epoch:012}.json"
        text = self.folder.read(name)
        if text is None:
            raise damaged(f"{self.folder.below(name)} is missing")
        return read_manifest(text, self.folder.below(name))

    def before(self, epoch: int, inputs: int) -> Manifest:
        """The state that an epoch begins with.  Raises ``StateError``."""
        if epoch == 0:
            return Manifest(-1, (InputState(),) * inputs)
        return self.manifest(epoch - 1)

    def check(self, manifest: Manifest) -> None:
        """Raise ``StateError`` unless every file that a manifest names is there and as long as it was."""
        for segment in (s for state in manifest.inputs for s in state.segments):
            found = dict(self.files(segment.folder))
            for name, size in segment.files:
                path = self.folder.below(f"{segment.folder}/{name}")
                if name not in found:
                    raise damaged(f"{path} is missing, one of the files that hold {segment.rows} rows")
                if found[name] != size:
                    raise damaged(f"{path} is damaged: it has {found[name]} bytes, and had {size}")

    def commit(self, manifest: Manifest) -> None:
        """Make a state the newest."""
        self.folder.write(f"epoch-{manifest.epoch:012}.json", manifest.to_json())

    def clean(self, state: Manifest, *, all_of_it: bool) -> None:
        """Remove what no epoch after ``state`` needs; ``all_of_it``: also what a crash has left behind."""
        needed = {s.folder.split("/")[0] for i in state.inputs for s in i.segments}
        if not all_of_it:
            for folder in state.obsolete:
                whole = folder.split("/")[0]
                self.folder.delete(folder if whole in needed else whole)
            self.folder.delete(f"epoch-{state.epoch - 1:012}.json")
            return
        needed |= {_QUERY, _NAME, f"epoch-{state.epoch:012}.json"}
        for found in self.folder.inside():
            if found.name not in needed:
                self.folder.delete(found.name)

    def files(self, folder: str) -> tuple[tuple[str, int], ...]:
        """The data files of a segment, with their sizes."""
        return tuple((f.name, f.size) for f in self.folder.inside(folder) if not f.name.startswith(("_", ".")))

    def paths(self, segments: tuple[Segment, ...]) -> list[str]:
        """The folders of segments, as Spark reads them."""
        return [self.folder.below(s.folder) for s in segments]
