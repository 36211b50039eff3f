"""A folder on the server of a Spark Connect session, by Python functions that run there."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any
from uuid import uuid4
from weakref import WeakSet

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType

from dovetail.executor.session.sail import is_sail
from dovetail.executor.state.folder import Folder, Found
from dovetail.executor.state.mounted import SCHEME, MountedFolder, operate, result_of
from dovetail.executor.state.paths import PATTERNS
from dovetail.planner.errors import OptionError
from dovetail.planner.version import VERSION

_FIRST = (4, 3)
_SCHEME = re.compile(r"[^/:]+:")  # as Hadoop reads it: all before a colon that comes before any slash
_ready: WeakSet[Any] = WeakSet()


class ServerFolder(Folder):
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
        return self._folder.public

    @property
    def is_file(self) -> bool:
        return bool(self._operate("is_file"))

    @property
    def without_links(self) -> str:
        """The full path without symbolic links of the server."""
        return str(self._operate("without_links"))

    def sub(self, name: str) -> ServerFolder:
        return ServerFolder(self._session, self._folder.sub(name))

    def below(self, name: str) -> str:
        return self._folder.below(name)

    def read(self, name: str) -> str | None:
        found = self._operate("read", name)
        return None if found is None else str(found)

    def create(self, name: str, text: str) -> None:
        self._operate("create", name, text)

    def delete(self, name: str) -> None:
        self._operate("delete", name)

    def delete_empty(self) -> None:
        self._operate("delete_empty")

    def rename(self, name: str, to: str) -> None:
        self._operate("rename", name, to)

    def inside(self, name: str = "") -> list[Found]:
        return list(self._operate("inside", name))

    def walk(self, name: str = "") -> list[Found]:
        return list(self._operate("walk", name))

    def _operate(self, operation: str, *names: str) -> Any:
        path = str(self._folder.path)
        return result_of(_call(self._session, lambda: operate(path, operation, names)))


class FolderRefused(OptionError):
    """A folder that functions on a server of Spark Connect cannot use, with the reason."""


def server_folder(session: SparkSession, path: str) -> ServerFolder:
    """Return a folder of the server.  Raises ``FolderRefused``."""
    if why := server_refusal(session):
        raise FolderRefused(why)
    if PATTERNS & set(path):
        raise FolderRefused(
            f"The path {path} has one of ? * [ ] {{ }} \\, which Spark Connect reads as patterns; rename the folder"
        )
    full = _full_path(session, path)
    if full is None:
        raise FolderRefused(
            f"{path} is no local or mounted path of the server, and on Spark Connect state modules open files with "
            "Python; give a path that the driver and all executors have mounted"
        )
    return ServerFolder(session, MountedFolder(Path(full)))


def server_refusal(session: SparkSession) -> str:
    """Return why the server of a Spark Connect session cannot run the epochs of a join; empty if it can.

    The first call for a session costs a small job.
    """
    if session in _ready:
        return ""
    if is_sail(session):
        return "Sail has no foreachBatch, which state modules need; use a server of Spark 4.3"
    if tuple(map(int, re.findall(r"\d+", session.version)[:2])) < _FIRST:
        return f"the server runs Spark {session.version}; state modules on Spark Connect need Spark 4.3"
    try:
        found = _call(session, _version)
    except PySparkException as error:  # no Python there, another version, or no Dovetail
        return _import_refusal(str(error))
    if found != VERSION:
        return f"the server has Dovetail {found}; install {VERSION}, the client's version, on driver and executors"
    _ready.add(session)
    return ""


def _version() -> str:
    """Return the version of Dovetail where the function runs."""
    from dovetail.planner import version

    return version.VERSION


def _import_refusal(error: str) -> str:
    """Return why a server's Python could not call a function of Dovetail, by the text of its error."""
    if "ModuleNotFoundError" in error:
        return (
            f"the server's Python cannot import Dovetail or what it needs; install Dovetail {VERSION} with its "
            "dependencies on the driver and all executors"
        )
    lines = [line.strip() for line in error.splitlines() if "Error" in line or "MISMATCH" in line]
    why = lines[-1] if lines else error.strip().partition("\n")[0]
    return f"the server's Python cannot run functions of this client; both need one minor version of Python: {why}"


def exists_on_server(session: SparkSession, path: str) -> bool:
    """Whether Spark finds a file or folder, on any file system and without functions on the server."""
    if is_sail(session):  # which has no streams
        return False
    try:
        _ = session.read.text(path).schema
    except PySparkException as error:
        if "PATH_NOT_FOUND" in str(error) or PATTERNS & set(path):
            return False
        raise
    return True


def _full_path(session: SparkSession, path: str) -> str | None:
    """Return the absolute path of a folder on mounted file systems; None for one on another file system."""
    if named := _SCHEME.match(path):
        full = path[named.end() :] if named[0] == SCHEME else ""
        full = re.sub("^//[^/]*", "", full)
    else:
        start = _working_folder(session)
        full = posixpath.join(start, path) if start else ""
    return "/" + posixpath.normpath(full).lstrip("/") if full.startswith("/") else None


def _working_folder(session: SparkSession) -> str:
    """Return the folder that relative paths start from; empty if the server's own file system is another one.

    Spark shows it where it finds no file of a name.
    """
    missing = f"_dovetail-{uuid4().hex}"
    try:
        _ = session.read.text(missing).schema
    except PySparkException as error:
        found = (error.getMessageParameters() or {}).get("path", "")
        if found.startswith(SCHEME) and found.endswith(f"/{missing}"):
            return found.removeprefix(SCHEME).removesuffix(missing)
    return ""


def _call(session: SparkSession, function: Any) -> str:
    """Call a function without arguments in a task on the server; it returns a text."""
    from pyspark.sql.connect import functions as F  # noqa: N812 - everybody's name for it

    called: Any = F.udf(function, StringType(), useArrow=False)  # a type in words needs an active session
    (row,) = session.range(0, 1, 1, 1).select(called()).collect()
    return str(row[0])
