"""A folder on the server of a Spark Connect session, by Python functions that run there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from uuid import uuid4
from weakref import WeakSet

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from planner.errors import OptionError, summarize
from planner.runtime.sail import is_sail
from planner.runtime.state.paths import GLOB_PATHS
from planner.state.folder import Found
from planner.state.mounted import SCHEME, MountedFolder, operate, result_of
from planner.version import VERSION

_FIRST = (4, 3)
_ready: WeakSet[Any] = WeakSet()


class ServerFolder:
    """A ``Folder`` that is mounted on the server; each operation is a job of one task.

    Pickled for a function that runs on the server, it is the ``MountedFolder`` itself.
    """

    def __init__(self, session: SparkSession, folder: MountedFolder):
        self._session, self._folder = session, folder

    def __str__(self) -> str:
        return str(self._folder)

    def __reduce__(self) -> tuple[type[MountedFolder], tuple[Path]]:
        return MountedFolder, (self._folder.path,)

    @property
    def public(self) -> str:
        """The path as messages show it."""
        return self._folder.public

    @property
    def is_file(self) -> bool:
        """Whether a file is in its place."""
        return bool(self._operate("is_file"))

    def sub(self, name: str) -> ServerFolder:
        """Return a folder in it."""
        return ServerFolder(self._session, self._folder.sub(name))

    def below(self, name: str) -> str:
        """Return the full path of a name, as Spark reads it."""
        return self._folder.below(name)

    def read(self, name: str) -> str | None:
        """Read a text file; None if it does not exist.  Raises ``StateError`` if it cannot be read."""
        found = self._operate("read", name)
        return None if found is None else str(found)

    def create(self, name: str, text: str) -> None:
        """Write a new file atomically.  Raises ``StateError`` if the file exists or cannot be written."""
        self._operate("create", name, text)

    def delete(self, name: str) -> None:
        """Delete a file, or a folder with its contents; does nothing if it does not exist."""
        self._operate("delete", name)

    def rename(self, name: str, to: str) -> None:
        """Rename a file; the folder of the new name is created if need be."""
        self._operate("rename", name, to)

    def inside(self, name: str = "") -> list[Found]:
        """List the entries of a folder by name; empty if there is no such folder."""
        return list(self._operate("inside", name))

    def walk(self, name: str = "") -> list[Found]:
        """List all files below a folder, by their path from it."""
        return list(self._operate("walk", name))

    def _operate(self, operation: str, *names: str) -> Any:
        path = str(self._folder.path)
        return result_of(_call(self._session, lambda: operate(path, operation, names)))


def server_folder(session: SparkSession, path: str) -> ServerFolder:
    """Return a folder of the server.  Raises ``OptionError`` for a path on a file system that is not mounted there."""
    full = _full_path(session, path)
    if not full.startswith(SCHEME):
        raise OptionError(
            f"{full} is not on a file system that is mounted on the server of this Spark Connect session, and its "
            "Python functions see no other. Name a folder that the server and its executors have mounted"
        )
    return ServerFolder(session, MountedFolder(Path("/" + full.removeprefix(SCHEME).lstrip("/"))))


def server_refusal(session: SparkSession) -> str:
    """Return why the server of a Spark Connect session cannot run the epochs of a join; empty if it can.

    The first call for a session costs a small job.
    """
    if session in _ready:
        return ""
    if is_sail(session):
        return "Sail runs no functions of micro-batches"
    if tuple(map(int, re.findall(r"\d+", session.version)[:2])) < _FIRST:
        return "before Spark 4.3, a server of Spark Connect runs micro-batches in the user's session, not in a copy"
    found = _server_version(session)
    if found != VERSION:
        has = f"has Dovetail {found}" if found else "cannot import Dovetail"
        return f"the server's Python {has}; install Dovetail {VERSION}, the client's version, on the server"
    _ready.add(session)
    return ""


def _server_version(session: SparkSession) -> str:
    """Return the version of Dovetail that the server's Python imports; empty if it has none."""

    def version() -> str:
        from planner import version as found  # of the server: a name of this module would go there with its value

        return found.VERSION

    try:
        return _call(session, version)
    except PySparkException as error:
        if "ModuleNotFoundError" not in str(error):
            raise
        return ""


def _full_path(session: SparkSession, path: str) -> str:
    """Return a path with its file system, as Spark resolves it: Spark names it where it finds no file."""
    missing = f"_dovetail-{uuid4().hex}"
    try:
        _ = session.read.option(GLOB_PATHS, "false").text(f"{path.rstrip('/')}/{missing}").schema
    except PySparkException as error:
        found = (error.getMessageParameters() or {}).get("path", "")
        if found.endswith(f"/{missing}"):
            return found.removesuffix(f"/{missing}")
        raise OptionError(f"The folder {path} cannot be used: {summarize(error)}") from error
    raise OptionError(f"The folder {path} cannot be used: the server does not show where it is")


def _call(session: SparkSession, function: Any) -> str:
    """Call a function without arguments in a task on the server; it returns a text."""
    from pyspark.sql.connect import functions as F  # noqa: N812 - everybody's name for it

    called: Any = F.udf(function, "string", useArrow=False)
    (row,) = session.range(0, 1, 1, 1).select(called()).collect()
    return str(row[0])
