"""Chooses the prefix of the files of a state in a sink: each folder of a state has its own.

    CHECKPOINT/dovetail/name-1f6c2a90     the name that this folder writes under, by a hash of the folder's path

A copy of a state may run next to its original.  With one prefix, each would take the files of the other for those of
its own earlier attempt, and remove them.
"""

from __future__ import annotations

import hashlib
from uuid import uuid4

from dovetail.executor.state.folder import UNFINISHED, Folder

NAMES = "name"
"""The prefix of the files that hold these names."""


def sink_name(folder: Folder, known: str | None, *, unfinished: bool) -> str:
    """Return the prefix of a folder, which is stored in it.

    ``known``: the prefix of its first place, if no file has it.  ``unfinished``: an epoch or refresh may have written
    files and not ended.  Then a state that was moved must find them, and keeps its prefix.
    """
    file_name = f"{NAMES}-{hashlib.sha256(folder.below('').rstrip('/').encode()).hexdigest()[:8]}"
    if (found := folder.read(file_name)) is not None:
        return found
    before = [f.name for f in folder.inside() if f.name.startswith(f"{NAMES}-") and not f.name.endswith(UNFINISHED)]
    name = known if known and not before else None
    if name is None and before and unfinished:
        name = folder.read(before[-1])
    name = name or uuid4().hex[:8]
    folder.create(file_name, name)
    return name
