"""The list of the files of a materialized view: its folders, and every file of finished refreshes, with its size.

STATE/parts-000000000020.json   the newest list counts; each is written once
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

from dovetail.executor.state.folder import Folder
from dovetail.executor.state.spark_logs import Progress
from dovetail.planner.state.refusals import RESTORE, damaged

OWNER = "kept"
COMPLETE = "_complete"
"""The list of the files of a result, which is there once all of them are."""
RESULT = "result-"
_ATTEMPTS = 10  # to read a list while refreshes replace it
_PAUSE = 0.01  # seconds between them


@dataclass(frozen=True)
class Parts:
    """The folders that hold the rows: ``merged`` from the oldest on, then ``live``, to which epochs add files.

    ``old`` folders are no longer read, and are deleted with the next merge.  ``since``: the last epoch before the
    newest refresh; -1 for none.  ``ended``: whether that refresh has ended.  ``number`` counts the versions of this
    list.  ``files``: the files of refreshes that have ended, by their path below the state, with their bytes.
    ``epoch``: the last epoch of the checkpoint when the last refresh ended.
    """

    number: int = 0
    merged: tuple[str, ...] = ()
    live: str = "rows-000000000000"
    old: tuple[str, ...] = ()
    since: int = -1
    ended: bool = True
    files: tuple[tuple[str, int], ...] = ()
    epoch: int | None = None

    @property
    def results(self) -> tuple[str, ...]:
        """The folders of results that sinks have, the newest last."""
        return tuple(sorted({path.partition("/")[0] for path, _ in self.files if path.startswith(RESULT)}))

    def is_at(self, progress: Progress) -> bool:
        """Whether rows of a refresh that has ended go as far as the epochs of their checkpoint.

        An epoch that Spark runs again has begun and not ended; its rows are replaced.
        """
        return not self.ended or self.epoch is None or progress.ended <= self.epoch <= progress.begun


def read_parts(folder: Folder, remedy: str = RESTORE) -> Parts:
    """Read the newest list.  Raises ``StateError`` if it is missing or unreadable; ``remedy``: what to do then.

    A refresh that runs at the same time may replace the list between the look at its name and the read.
    """
    rows = None
    for attempt in range(_ATTEMPTS):
        time.sleep(_PAUSE if attempt else 0)
        inside = folder.inside()
        rows = next((f.name for f in inside if f.folder and f.name.startswith(("rows-", "part-"))), None)
        names = [f.name for f in inside if f.name.startswith("parts-") and f.name.endswith(".json")]
        if names and (text := folder.read(names[-1])) is not None:
            return _parts(text, folder.below(names[-1]), remedy)
        if not names and not rows:
            return Parts()
    raise damaged(f"{folder} has {rows}, and the list of its files, parts-….json, is missing", remedy)


def _parts(text: str, path: str, remedy: str) -> Parts:
    """Parse a list."""
    try:
        found: dict[str, Any] = json.loads(text)
        lists: Any = {name: tuple(found.pop(name)) for name in ("merged", "old")}
        files = tuple((str(path), int(size)) for path, size in found.pop("files"))
        return Parts(**lists, files=files, **found)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise damaged(f"{path} cannot be read: {error}", remedy) from error


def write_parts(folder: Folder, parts: Parts) -> None:
    """Write the next list, and remove earlier ones and those that a crash left unfinished."""
    before = [f.name for f in folder.inside() if f.name.startswith("parts-")]
    parts = replace(parts, number=parts.number + 1)
    folder.create(f"parts-{parts.number:012}.json", json.dumps(asdict(parts)))
    for name in before:
        folder.delete(name)


def stored_files(folder: Folder, folders: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """List the files of these folders that hold rows, and the lists of results, as in ``Parts.files``."""
    return tuple(
        (f"{name}/{f.name}", f.size)
        for name in folders
        for f in folder.inside(name)
        if f.name.startswith(f"{OWNER}-") or f.name == COMPLETE
    )


def check_parts(folder: Folder, parts: Parts, remedy: str = RESTORE) -> None:
    """Raise ``StateError`` unless every file of refreshes that have ended exists and has its size."""
    found = dict(stored_files(folder, tuple(dict.fromkeys(path.partition("/")[0] for path, _ in parts.files))))
    for path, size in parts.files:
        if path not in found:
            raise damaged(f"{folder.below(path)} is missing, one of the files that hold the rows of this view", remedy)
        if found[path] != size:
            raise damaged(f"{folder.below(path)} is damaged: it has {found[path]} bytes, and had {size}", remedy)
