"""The rows that a kept view stores, joined rows or accumulators: files by epoch, written as one when there are many.

    STATE/view.json                                the query that this is of
          parts-000000000020.json                  the list of the folders that hold the rows; counts its versions
          rows-000000000016/kept-000000000016-…    what epoch 16 added, the first after the last merge
                            kept-000000000017-…    what epoch 17 added
          part-000000000015/kept-000000000015-…    what all epochs up to 15 added, written as one

A refresh adds files.  A merge happens only before a refresh, and only if the last one has ended: so an epoch that is
run again writes into the folder in which it wrote before, and replaces its own files, which it knows by their names.
A merge writes a folder and then, in one step, the list of folders.  Folders that the list names no more stay until the
next merge, for those who are still reading.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from planner.errors import StateError
from planner.runtime.state.files import HadoopFolder
from planner.runtime.state.segments import empty, exact_times
from planner.runtime.state.sinks import FileOutput
from planner.state.refusals import damaged, hold_settings
from planner.state.sink import Sink

FORMAT = 1
FULL = 16  # epochs that are merged at once
_VIEW, _OWNER = "view.json", "kept"
_ANEW = "give this view a folder of its own"
_OTHER = {
    "join": "another query, with these joined rows",
    "stored": "another query, which stores of its joined rows",
    "columns": "rows with other columns",
    "sink": "a view with another sink",
}
_ENDED_ONCE = 2  # the number after the first refresh has begun and ended


@dataclass(frozen=True)
class Parts:
    """The folders that hold the rows: ``merged`` from the oldest on, then ``live``, to which epochs add files.

    ``old`` ones are read no more, and go with the next merge.  ``since``: the last epoch before the newest refresh; -1
    for none.  ``ended``: whether that refresh has ended.  ``number`` counts how often this has been written.
    """

    number: int = 0
    merged: tuple[str, ...] = ()
    live: str = "rows-000000000000"
    old: tuple[str, ...] = ()
    since: int = -1
    ended: bool = True


class KeptRows:
    """The rows of one kept view, of a ``schema``, in a folder."""

    def __init__(self, session: SparkSession, state: str, schema: StructType, anew: str = _ANEW):
        """``anew`` says what helps where the folder is of something else."""
        self.session, self.schema, self.anew = session, schema, anew
        self.folder = HadoopFolder(session, state)

    def open(self, said: dict[str, Any]) -> str:
        """Begin with a query, or go on with it; the name of the folder's files in a sink.

        ``said``: what the rows are of: the ``join`` that finds them, what is ``stored`` of them, the ``settings`` that
        say what these mean, by name, and the ``sink``.  Raises ``StateError`` where the folder is of something else.
        """
        said = {**said, "columns": self.schema.simpleString()}
        written = self.folder.read(_VIEW)
        if written is None:
            if there := {found.name for found in self.folder.inside()} - {f"{_VIEW}.new"}:
                others = "views that are kept together; refresh them by opt.keep_together, or"
                raise StateError(f"{self.folder} holds {others if 'views' in there else 'other files;'} {self.anew}")
            name = uuid4().hex[:8]
            self.folder.write(_VIEW, json.dumps({"format": FORMAT, "name": name, **said}, indent=1, ensure_ascii=False))
            return name
        try:
            found = json.loads(written)
            version, name = found.pop("format"), str(found.pop("name"))
        except (ValueError, KeyError, AttributeError) as error:
            raise damaged(f"{self.folder.below(_VIEW)} cannot be read: {error}") from error
        if version != FORMAT:
            raise StateError(
                f"{self.folder} has format {version}, and this version of Dovetail writes {FORMAT}; {self.anew}"
            )
        if found != said:
            where = str(self.folder)
            hold_settings(where, found.get("settings", {}).items(), said["settings"].items(), self.anew)
            other = next(name for name in _OTHER if found.get(name) != said[name])
            was, now = (" ".join(str(one.get(other)).split()) for one in (found, said))
            raise StateError(f"{where} is of {_OTHER[other]}: {was}; now: {now}; {self.anew}")
        return name

    @property
    def refresh(self) -> int:
        """The number of the refresh that has begun; one that is begun again keeps it, the next has a larger one."""
        return self._parts().number

    @property
    def first(self) -> bool:
        """Whether the newest refresh is the first one, before which there was no result."""
        return self.refresh <= _ENDED_ONCE

    @property
    def ended(self) -> bool:
        """Whether the newest refresh has ended."""
        return self._parts().ended

    @property
    def name(self) -> str:
        """What tells this folder from all others, also from one in its place later.  Raises ``StateError``."""
        written = self.folder.read(_VIEW)
        if written is None:
            raise damaged(f"{self.folder.below(_VIEW)} is missing")
        return str(json.loads(written)["name"])

    @property
    def refreshed(self) -> bool:
        """Whether a refresh that found something has ended, if only that the result is empty."""
        parts = self._parts()
        return parts.number >= _ENDED_ONCE and self._last(parts) >= 0

    def clear(self) -> None:
        """Remove what a first refresh, which has not ended, has written."""
        self.folder.delete(self._parts().live)

    def begin(self, merged: Callable[[DataFrame], DataFrame]) -> None:
        """Begin a refresh, or go on with one that has not ended; ``merged`` adds up the rows of several epochs."""
        parts = self._parts()
        if not parts.ended:
            return
        if len(self._epochs(parts.live)) >= FULL:
            parts = self._merge(parts, merged)
        self._save(replace(parts, since=self._last(parts), ended=False))

    def end(self) -> None:
        """End a refresh."""
        self._save(replace(self._parts(), ended=True))

    def add(self, rows: DataFrame, epoch: int) -> None:
        """Write the rows of an epoch, in the place of those of an earlier try."""
        self._write(rows, self._parts().live, epoch)

    def read(self, *, before: bool = False) -> DataFrame:
        """All rows; ``before``: those that were there before the newest refresh."""
        parts = self._parts()
        files = self._files(parts.live)
        kept = [f"{parts.live}/{name}" for name in files if not before or _epoch_of(name) <= parts.since]
        paths = [self.folder.below(name) for name in (*parts.merged, *kept)]
        return self.session.read.schema(self.schema).parquet(*paths) if paths else empty(self.session, self.schema)

    def _merge(self, parts: Parts, merged: Callable[[DataFrame], DataFrame]) -> Parts:
        """Write what the epochs since the last merge have added as one, with older parts up to twice as large."""
        taken, left = [parts.live], list(parts.merged)
        size = self._bytes(parts.live)
        while left and self._bytes(left[-1]) <= 2 * size:
            taken.insert(0, left.pop())
            size += self._bytes(taken[0])
        last = self._last(parts)
        new, live = f"part-{last:012}", f"rows-{last + 1:012}"
        rows = self.session.read.schema(self.schema).parquet(*map(self.folder.below, taken))
        self._write(merged(rows), new, last)
        self._save(replace(parts, merged=(*left, new), live=live, old=tuple(taken)))
        for folder in parts.old:
            self.folder.delete(folder)
        return self._parts()

    def _write(self, rows: DataFrame, folder: str, epoch: int) -> None:
        with exact_times(rows.sparkSession):
            FileOutput(self.folder.sub(folder), Sink("parquet"), _OWNER).write(rows, epoch, again=True)

    def _last(self, parts: Parts) -> int:
        """The last epoch that added something."""
        before = max((int(name.split("-")[1]) for name in parts.merged), default=-1)
        return max(self._epochs(parts.live), default=before)

    def _epochs(self, folder: str) -> set[int]:
        return set(map(_epoch_of, self._files(folder)))

    def _files(self, folder: str) -> list[str]:
        return [f.name for f in self.folder.inside(folder) if f.name.startswith(f"{_OWNER}-")]

    def _bytes(self, folder: str) -> int:
        return sum(found.size for found in self.folder.inside(folder))

    def _parts(self) -> Parts:
        """What was written last."""
        names = self._lists()
        written = self.folder.read(names[-1]) if names else None
        if written is None:
            return Parts()
        try:
            found: dict[str, Any] = json.loads(written)
            lists: Any = {name: tuple(found.pop(name)) for name in ("merged", "old")}
            return Parts(**lists, **found)
        except (ValueError, TypeError, AttributeError) as error:
            raise damaged(f"{self.folder.below(names[-1])} cannot be read: {error}") from error

    def _save(self, parts: Parts) -> None:
        before, parts = self._lists(), replace(parts, number=parts.number + 1)
        self.folder.write(f"parts-{parts.number:012}.json", json.dumps(asdict(parts)))
        for name in before:
            self.folder.delete(name)

    def _lists(self) -> list[str]:
        return [f.name for f in self.folder.inside() if f.name.startswith("parts-") and f.name.endswith(".json")]


def _epoch_of(file: str) -> int:
    """The epoch that a file is of, by its name."""
    return int(file.split("-")[1])
