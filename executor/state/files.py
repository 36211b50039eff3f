"""A folder on any file system that Spark reads, by Hadoop's interface in the JVM.

Writes are atomic: a file is written under a temporary name and then renamed.  No file is ever replaced.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from py4j.java_gateway import is_instance_of  # type: ignore[import-untyped]
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dovetail.executor.session.batch import classic
from dovetail.executor.state.folder import Folder, Found, exists, unfinished_name
from dovetail.executor.state.mounted import is_checksum
from dovetail.executor.state.server_folder import FolderRefused, server_folder
from dovetail.planner.errors import OptionError, StateError, summarize

_NOT_FOUND = "java.io.FileNotFoundException"


def open_folder(session: SparkSession, path: str) -> Folder:
    """Return a folder of a session; on Spark Connect it is one of the server's.

    Raises ``OptionError`` for a folder that cannot be used, which on Spark Connect is ``FolderRefused``.
    """
    return HadoopFolder(session, path) if classic(session) else server_folder(session, path)


def find_folder(session: SparkSession, path: str) -> Folder | None:
    """Return a folder of a session; None on Spark Connect where functions on the server cannot use it."""
    if classic(session):
        return HadoopFolder(session, path)
    try:
        return server_folder(session, path)
    except FolderRefused:
        return None


class HadoopFolder(Folder):
    """A ``Folder`` on a file system of Hadoop's."""

    def __init__(self, session: SparkSession, path: str):
        self._session = session
        self._jvm: Any = session._jvm
        # Py4J looks for a class named in steps at each step, in all of Spark's archives; by its full name, once.
        self._path_of: Any = getattr(self._jvm, "org.apache.hadoop.fs.Path")
        conf = session._jsparkSession.sessionState().newHadoopConf()
        try:
            root = self._path_of(path)
            self._fs = single_files(session, root.getFileSystem(conf))
            self._root = self._fs.makeQualified(root)
        except (Py4JJavaError, PySparkException) as error:
            raise OptionError(
                f"The folder {_public(path)} cannot be used: {describe_error(error, path)}; name a folder on a file "
                "system that this session reads, and add the file system's JAR and settings if they are missing"
            ) from error

    def __str__(self) -> str:
        return str(self._root.toString())

    @property
    def public(self) -> str:
        return _public(str(self))

    @property
    def is_file(self) -> bool:
        return bool(self._fs.exists(self._root) and self._fs.getFileStatus(self._root).isFile())

    @property
    def without_links(self) -> str:
        """The full path; on this machine without symbolic links."""
        scheme, _, path = str(self).partition(":")
        return os.path.realpath("/" + path.lstrip("/")) if scheme == "file" else str(self)

    def sub(self, name: str) -> HadoopFolder:
        return HadoopFolder(self._session, self.below(name))

    def below(self, name: str) -> str:
        return f"{self}/{name}"

    def read(self, name: str) -> str | None:
        path = self._at(name)
        try:
            if not self._fs.exists(path):
                return None
            try:
                stream = self._fs.open(path)
            except Py4JJavaError:
                if not self._fs.exists(path):  # another refresh has removed it meanwhile
                    return None
                raise
            try:
                return str(getattr(self._jvm, "org.apache.commons.io.IOUtils").toString(stream, "UTF-8"))
            finally:
                stream.close()
        except Py4JJavaError as error:
            raise StateError(f"{_public(self.below(name))} cannot be read: {describe_error(error)}") from error

    def create(self, name: str, text: str) -> None:
        unfinished = self._at(unfinished_name(name))
        try:
            stream = self._fs.create(unfinished, True)
            try:
                stream.write(text.encode())
            finally:
                stream.close()
        except Py4JJavaError as error:
            raise StateError(f"{_public(self.below(name))} cannot be written: {describe_error(error)}") from error
        self._rename(unfinished, self._at(name))

    def delete(self, name: str) -> None:
        self._fs.delete(self._at(name), True)

    def delete_empty(self) -> None:
        with suppress(Py4JJavaError):
            self._fs.delete(self._at(""), False)

    def rename(self, name: str, to: str) -> None:
        target = self._at(to)
        self._fs.mkdirs(target.getParent())
        self._rename(self._at(name), target)

    def inside(self, name: str = "") -> list[Found]:
        try:
            listed = self._fs.listStatus(self._at(name))
        except Py4JJavaError as error:
            if self._is_missing(error):
                return []
            raise
        found = [Found(s.getPath().getName(), s.isDirectory(), s.getLen()) for s in listed]
        return sorted((f for f in found if not is_checksum(f.name)), key=lambda f: f.name)

    def walk(self, name: str = "") -> list[Found]:
        files = []
        for found in self.inside(name):
            if found.folder:
                inner = self.walk(_join(name, found.name))
                files += [Found(f"{found.name}/{f.name}", False, f.size) for f in inner]
            else:
                files.append(found)
        return files

    def _rename(self, path: Any, target: Any) -> None:
        if self._fs.exists(target):  # the local file system would replace it, others refuse without a reason
            raise exists(_public(str(target.toString())))
        failed = " could not be renamed to ".join(_public(str(p.toString())) for p in (path, target))
        try:
            renamed = self._fs.rename(path, target)
        except Py4JJavaError as error:
            if self._is_missing(error):  # another start has renamed it
                raise exists(_public(str(target.toString()))) from error
            raise StateError(f"{failed}: {describe_error(error)}") from error
        if not renamed:
            raise StateError(failed)

    def _is_missing(self, error: Py4JJavaError) -> bool:
        """Whether a file or folder does not exist."""
        return bool(is_instance_of(self._session.sparkContext._gateway, error.java_exception, _NOT_FOUND))

    def _at(self, name: str) -> Any:
        return self._path_of(self._root, name) if name else self._root


def single_files(session: SparkSession, files: Any) -> Any:
    """Return a Hadoop file system that writes no files of its own.

    The one for local files stores a checksum of each file in a second one, ``.NAME.crc``, and renames one after the
    other: a crash between them leaves a file that can no longer be read if its name was used before.
    """
    checksums = is_instance_of(session.sparkContext._gateway, files, "org.apache.hadoop.fs.ChecksumFileSystem")
    return files.getRawFileSystem() if checksums else files


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _public(path: str) -> str:
    """Remove from a path what may be a key: all before the ``@`` of its server, and behind a ``?``."""
    scheme, colon, rest = path.partition("://")
    if not colon:
        return path
    server, slash, name = rest.partition("/")
    return f"{scheme}://{server.rpartition('@')[2]}{slash}{name.partition('?')[0]}"


def describe_error(error: Py4JJavaError | PySparkException, path: str = "") -> str:
    """Describe an error in one line, without keys that may be in ``path``."""
    if isinstance(error, PySparkException):
        text = summarize(error)
    else:
        thrown = error.java_exception
        text = f"{thrown.getClass().getSimpleName()}: {thrown.getMessage()}"
    return text.replace(path, _public(path)) if path else text
