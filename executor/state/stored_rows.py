"""The stored rows of a materialized view, joined rows or accumulators: files by epoch, merged when there are many.

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from dovetail.executor.state.files import HadoopFolder
from dovetail.executor.state.folder import UNFINISHED
from dovetail.executor.state.parts import OWNER, Parts, check_parts, read_parts, stored_files, write_parts
from dovetail.executor.state.paths import read_paths
from dovetail.executor.state.segments import empty_rows, exact_times
from dovetail.executor.state.sink_names import sink_name
from dovetail.executor.state.sinks import FileOutput
from dovetail.executor.state.spark_logs import Progress
from dovetail.planner.errors import StateError
from dovetail.planner.state.fingerprint import Given, describe_arguments, fingerprint, new_salt
from dovetail.planner.state.refusals import RESTORE, check_settings, damaged, other_format, rebuild_remedy
from dovetail.planner.state.sink import Sink

FORMAT = 2
FULL = 16  # epochs that are merged at once
_VIEW = "view.json"
_NEW_FOLDER = "give this view a folder of its own"
_DIFFERENCES = {
    "join": "another query, whose FROM or WHERE is written otherwise",
    "stored": "another query, which stores something else of its joined rows",
    "sink": "a view with another sink",
}
NOWHERE: Mapping[str, str] = MappingProxyType({})
_ENDED_ONCE = 2  # the number after the first refresh has begun and ended


class StoredRows:
    """The rows of one materialized view, of a ``schema``, in a folder."""

    def __init__(self, session: SparkSession, state: str, schema: StructType, *, shared: bool = False):
        """``shared``: several views share the state, which has all rows to build this one again."""
        self.session, self.schema, self.shared = session, schema, shared
        self.folder = HadoopFolder(session, state)
        self.restart_remedy = rebuild_remedy(str(self.folder)) if shared else _NEW_FOLDER
        self.remedy = self.restart_remedy if shared else RESTORE

    def open(self, identity: dict[str, Any], query: Given, sink: str, place: Mapping[str, str] = NOWHERE) -> str:
        """Start or reopen the folder of a query; return the prefix of its files in a sink.

        ``identity``: the ``join`` of the view, what is ``stored`` of its rows, the ``settings`` that its meaning
        depends on, by name, and the ``sink``.  All but the settings may contain secrets and are stored as hashes.
        ``sink`` describes the sink without its path, and ``place`` has the parts of its identity, by name.  Raises
        ``StateError`` for the folder of another view.
        """
        columns = self.schema.simpleString()
        written = self.folder.read(_VIEW)
        if written is None:
            if there := {found.name for found in self.folder.inside() if not found.name.endswith(UNFINISHED)}:
                others = "views on one state; refresh them by opt.materialize_all, or"
                raise StateError(
                    f"{self.folder} holds {others if 'views' in there else 'other files;'} {self.restart_remedy}"
                )
            name, salt = uuid4().hex[:8], new_salt()
            text: dict[str, Any] = {"format": FORMAT, "name": name, "query": query.text, "columns": columns}
            text |= {"to": sink, "settings": identity["settings"], "salt": salt, **describe_arguments(query, salt)}
            text |= {one: fingerprint(salt, identity[one]) for one in _DIFFERENCES}
            text["place"] = {one: fingerprint(salt, value) for one, value in place.items()}
            self.folder.create(_VIEW, json.dumps(text, indent=1, ensure_ascii=False))
            return sink_name(self.folder, name, unfinished=True)
        try:
            found = json.loads(written)
            version, name = found.pop("format"), str(found.pop("name"))
        except (ValueError, KeyError, AttributeError) as error:
            raise damaged(f"{self.folder.below(_VIEW)} cannot be read: {error}", self.remedy) from error
        if version != FORMAT:
            raise other_format(str(self.folder), version, FORMAT, self.restart_remedy)
        check_settings(
            str(self.folder), found.get("settings", {}).items(), identity["settings"].items(), self.restart_remedy
        )
        if other := self._other(found, identity, query, sink, place):
            raise StateError(f"{self.folder} belongs to {other}, or {self.restart_remedy}")
        return sink_name(self.folder, name, unfinished=not self._parts().ended)

    def _other(
        self, found: dict[str, Any], identity: dict[str, Any], query: Given, sink: str, place: Mapping[str, str]
    ) -> str:
        """Describe what the folder belongs to, if that is another view, and what resumes it; empty if it is not."""
        salt, was, now = str(found.get("salt")), *(" ".join(str(q).split()) for q in (found.get("query"), query.text))
        other = [one for one in _DIFFERENCES if found.get(one) != fingerprint(salt, identity[one])]
        columns, before = self.schema.simpleString(), found.get("columns")
        if other and other != ["sink"] and was == now and (values := query.other(found)):
            return f"another value of {', '.join(values)}, in {was}; give the value that it was created with"
        if columns != before and (not other or was == now):
            return f"rows with other columns: {before}; now: {columns}; restore the column types of its relations"
        if other == ["sink"]:
            was_in = found.get("place", {})
            differs = [one for one, value in place.items() if was_in.get(one) != fingerprint(salt, value)]
            how = f", with another {' and '.join(differs)}" if found.get("to") == sink and differs else ""
            return (
                f"{_DIFFERENCES['sink']}: {found.get('to')}; now: {sink}{how}; name the sink that it was created with"
            )
        if other and was == now:
            why = "whose relations had other columns or watermarks, or which another version of Dovetail has planned"
            return f"the same query, {why}: {was}; let the relations be as they were, names in the same case"
        return f"{_DIFFERENCES[other[0]]}: {was}; now: {now}; run the first query" if other else ""

    @property
    def refresh(self) -> int:
        """The number of the newest refresh; it stays if the refresh resumes, and the next one is larger."""
        return self._parts().number

    @property
    def first(self) -> bool:
        """Whether the newest refresh is the first, so that there is no earlier result."""
        return self.refresh <= _ENDED_ONCE

    @property
    def ended(self) -> bool:
        """Whether the newest refresh has ended."""
        return self._parts().ended

    @property
    def name(self) -> str:
        """The identifier of this folder, which a later one in its place does not have.  Raises ``StateError``."""
        written = self.folder.read(_VIEW)
        if written is None:
            path = self.folder.below(_VIEW)
            raise StateError(
                f"{path} is missing; call opt.materialize or opt.materialize_all again, which checks the folder"
            )
        try:
            return str(json.loads(written)["name"])
        except (ValueError, KeyError, TypeError) as error:
            raise damaged(f"{self.folder.below(_VIEW)} cannot be read: {error}", self.remedy) from error

    @property
    def refreshed(self) -> bool:
        """Whether a refresh that read at least one epoch has ended."""
        parts = self._parts()
        return parts.number >= _ENDED_ONCE and self._last(parts) >= 0

    def clear(self) -> None:
        """Remove the files of a first refresh that has not ended."""
        self.folder.delete(self._parts().live)

    def begin(self, merged: Callable[[DataFrame], DataFrame]) -> None:
        """Begin a refresh, or resume one that has not ended; ``merged`` adds up the rows of several epochs."""
        parts = self._whole()
        if not parts.ended:
            return
        if len(self._epochs(parts.live)) >= FULL:
            parts = self._merge(parts, merged)
        self._save(replace(parts, since=self._last(parts), ended=False), (*parts.merged, parts.live, *parts.results))

    @property
    def results(self) -> tuple[str, ...]:
        """The folders of the results that the sink has, as far as refreshes have ended; the newest last."""
        return self._parts().results

    def end(self, epoch: int, results: tuple[str, ...] = ()) -> None:
        """End a refresh after an epoch; ``results``: the folders of the results that are needed from here on."""
        parts = self._parts()
        self._save(replace(parts, ended=True, epoch=epoch), (*parts.merged, parts.live, *results))

    def check_epoch(self, name: str, progress: Progress) -> None:
        """Raise ``StateError`` if the view ``name`` and its checkpoint are not of one moment."""
        parts = self._parts()
        if not parts.is_at(progress):
            raise StateError(
                f"{name} has the rows up to epoch {parts.epoch}, and its checkpoint has come to epoch "
                f"{progress.ended}: one of them was restored from a copy of another moment; {self.remedy}"
            )

    def add(self, rows: DataFrame, epoch: int) -> None:
        """Write the rows of an epoch, and replace those of an earlier attempt."""
        self._write(rows, self._parts().live, epoch)

    def read(self, *, before: bool = False) -> DataFrame:
        """Read all rows; ``before``: those from before the newest refresh.

        Raises ``StateError`` if a file of a refresh that has ended is missing or has another size.
        """
        parts = self._whole()
        files = self._files(parts.live)
        in_epochs = [f"{parts.live}/{name}" for name in files if not before or _epoch_of(name) <= parts.since]
        return self._rows((*parts.merged, *in_epochs))

    def read_ended(self) -> DataFrame:
        """Read the rows of the refreshes that have ended, whatever another one adds meanwhile; raises as ``read``."""
        parts = self._whole()
        in_epochs = (path for path, _ in parts.files if path.startswith(f"{parts.live}/"))
        return self._rows((*parts.merged, *in_epochs))

    def _merge(self, parts: Parts, merged: Callable[[DataFrame], DataFrame]) -> Parts:
        """Merge the rows of the epochs since the last merge, with older parts up to twice as large."""
        taken, left = [parts.live], list(parts.merged)
        size = self._bytes(parts.live)
        while left and self._bytes(left[-1]) <= 2 * size:
            taken.insert(0, left.pop())
            size += self._bytes(taken[0])
        last = self._last(parts)
        new, live = f"part-{last:012}", f"rows-{last + 1:012}"
        rows = self._rows(taken)
        self._write(merged(rows), new, last)
        self._save(replace(parts, merged=(*left, new), live=live, old=tuple(taken)), (*left, new, *parts.results))
        for folder in parts.old:
            self.folder.delete(folder)
        return self._parts()

    def _rows(self, names: Sequence[str]) -> DataFrame:
        """Read files and folders of files."""
        if not names:
            return empty_rows(self.session, self.schema)
        return read_paths(lambda: self.session.read.schema(self.schema), map(self.folder.below, names))

    def _write(self, rows: DataFrame, folder: str, epoch: int) -> None:
        with exact_times(rows.sparkSession):
            FileOutput(self.folder.sub(folder), Sink("parquet"), OWNER).write(rows, epoch, again=True)

    def _last(self, parts: Parts) -> int:
        """Return the last epoch that added rows."""
        before = max((int(name.split("-")[1]) for name in parts.merged), default=-1)
        return max(self._epochs(parts.live), default=before)

    def _epochs(self, folder: str) -> set[int]:
        return set(map(_epoch_of, self._files(folder)))

    def _files(self, folder: str) -> list[str]:
        return [f.name for f in self.folder.inside(folder) if f.name.startswith(f"{OWNER}-")]

    def _bytes(self, folder: str) -> int:
        return sum(found.size for found in self.folder.inside(folder))

    def _parts(self) -> Parts:
        """Read the newest list of parts."""
        return read_parts(self.folder, self.remedy)

    def _whole(self) -> Parts:
        """Read the newest list of parts, and check that its files exist.  Raises ``StateError``."""
        parts = self._parts()
        check_parts(self.folder, parts, self.remedy)
        return parts

    def _save(self, parts: Parts, folders: tuple[str, ...]) -> None:
        """Write the list of parts, with all files of some folders."""
        write_parts(self.folder, replace(parts, files=stored_files(self.folder, folders)))


def _epoch_of(file: str) -> int:
    """Return the epoch of a file, by its name."""
    return int(file.split("-")[1])
