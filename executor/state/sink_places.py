"""Checks the folder of a sink: it must not overlap the state, and no log of another writer may hide its files."""

from __future__ import annotations

import re

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dovetail.executor.session.batch import classic
from dovetail.executor.session.tables import FILE_FORMATS, find_table
from dovetail.executor.state.files import find_folder, open_folder
from dovetail.executor.state.folder import Folder
from dovetail.planner.errors import OptionError, StateError
from dovetail.planner.state.sink import Sink, Target

_LOG = "_spark_metadata"
_WITH_SCHEMA = frozenset({"parquet", "orc", "avro"})
_OURS = re.compile(r"[0-9a-f]{8}-\d{12}-part-.*")


def folder_of_sink(session: SparkSession, target: Target) -> Folder | None:
    """Return the folder that a sink writes to; None for a sink without one, or without one that can be used."""
    if isinstance(target, Sink):
        return None if target.path is None else find_folder(session, str(target.path))
    table = find_table(session, target) if isinstance(target, str) and classic(session) else None
    return open_folder(session, table.folder) if table and table.folder else None


def has_log(folder: Folder) -> bool:
    """Whether Spark's own sink wrote to a folder: its log makes readers skip all other files."""
    return any(found.name == _LOG for found in folder.inside())


def check_apart(session: SparkSession, target: Target, state: str) -> None:
    """Raise ``OptionError`` if a sink lies in a folder of state, or the reverse, or if one of them is a file.

    A reader of the sink would take rows of the state for rows of the result, and the state clears its folder.
    """
    folder, other = folder_of_sink(session, target), open_folder(session, state)
    for found in (other, folder):
        if found is not None and found.is_file:
            what = "state" if found is other else "sink"
            raise OptionError(
                f"{found.public} is a file, and the {what} needs a folder. Name another path, or remove it"
            )
    if folder is None:
        return
    if any(_nested(*paths) for paths in ((str(folder), str(other)), (folder.without_links, other.without_links))):
        raise OptionError(
            f"Of the sink {folder.public} and the state {other.public}, one lies in the other, so that readers of the "
            "sink would find files of the state. Give the sink a folder next to the state"
        )


def _nested(*paths: str) -> bool:
    """Whether one of two paths lies in the other, or they are equal."""
    outer, inner = sorted((path.rstrip("/") + "/" for path in paths), key=len)
    return inner.startswith(outer)


def check_no_earlier(session: SparkSession, target: Target, names: Folder, view: str, files: str) -> None:
    """Raise ``StateError`` if a sink has files of a removed view: a new view in its place writes all rows again.

    ``names`` is a folder that records the names of the ``files`` of views; ``view`` is the name of a view with the
    identifier of its folder.
    """
    folder = folder_of_sink(session, target)
    if folder is None:
        return
    place = view.rpartition("-")[0]
    known = [
        m for f in names.inside() if (m := re.fullmatch(rf"({re.escape(place)}-[0-9a-f]{{8}})-([0-9a-f]{{8}})", f.name))
    ]
    earlier = {match[2] for match in known if match[1] != view}
    found = folder.walk() if earlier else ()
    if left := next((f.name for f in found if f.name.rpartition("/")[2].partition("-")[0] in earlier), None):
        raise StateError(
            f"{folder.public} has files of a view {place} that was removed from its state, such as {left}. The view is "
            "built again from the state and would write all of its rows a second time. Empty this sink, or give another"
        )
    if not any(match[1] == view and match[2] == files for match in known):
        names.create(f"{view}-{files}", "")


def check_not_hidden(session: SparkSession, target: Target, checkpoint: str) -> None:
    """Raise ``OptionError`` if Spark's own sink would hide files: its log makes readers skip all others.

    A checkpoint that has begun may have files of its own there, which Spark wrote before it could log them.
    """
    folder = folder_of_sink(session, target)
    if folder is None or not _has_files(session, target) or has_log(folder):
        return
    if any(_OURS.fullmatch(found.name) for found in folder.inside()):
        raise OptionError(
            f"{folder.public} has files of a join on state modules. Spark's own sink, which writes this query, would "
            "hide them from readers. Give the query another folder"
        )
    progress = find_folder(session, checkpoint)
    begun = progress is None or progress.inside("offsets")
    if not begun and (found := _data_file(folder)) and _has_rows(session, target):
        raise OptionError(
            f"{folder.public} has files already, such as {found}. Spark's own sink, which writes this query, would "
            "hide them from readers. Give the query an empty folder or table"
        )


def _has_files(session: SparkSession, target: Target) -> bool:
    """Whether Spark's own sink writes plain files for a target, with a log."""
    if isinstance(target, str):
        table = find_table(session, target)
        return table is not None and table.provider in FILE_FORMATS
    return isinstance(target, Sink) and target.format.lower() in FILE_FORMATS


def _has_rows(session: SparkSession, target: Target) -> bool:
    """Whether readers see a row in a table or folder of files; True also if Spark cannot read it."""
    try:
        if isinstance(target, str):
            session.catalog.refreshTable(target)  # the session may have listed its files earlier
            return not session.table(target).isEmpty()
        assert isinstance(target, Sink)
        # a line of text is a row, or the header of some: so that no schema is inferred from all of the files
        format_ = target.format if target.format.lower() in _WITH_SCHEMA else "text"
        return not session.read.format(format_).load(str(target.path)).isEmpty()
    except (PySparkException, Py4JJavaError):
        return True


def _data_file(folder: Folder, name: str = "") -> str:
    """The path of a file that readers see; empty if there is none."""
    for found in folder.inside(name):
        path = f"{name}/{found.name}" if name else found.name
        if found.name.startswith((".", "_")):
            continue
        if not found.folder:
            return path
        if inner := _data_file(folder, path):
            return inner
    return ""


def check_no_other_log(session: SparkSession, target: Target, checkpoint: str) -> None:
    """Raise ``OptionError`` for a new checkpoint onto a folder with a log of Spark's own sink.

    Spark would find its first micro-batches in the log of the other query, and skip their rows.
    """
    folder = folder_of_sink(session, target)
    progress = find_folder(session, checkpoint)
    if folder is None or progress is None or progress.inside("offsets"):
        return
    if has_log(folder):
        raise OptionError(
            f"{folder.public} was written by another query, with Spark's own sink, whose log would make Spark skip the "
            "first rows of this one, since its checkpoint is new. Give the query another folder"
        )
