"""A folder on any file system that Spark reads, by Hadoop's own interface: the only place here that asks the JVM.

What is written appears whole or not at all: it is written beside its place and then given its name.
"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from planner.errors import StateError
from planner.state.folder import Found


class HadoopFolder:
    """A ``Folder`` on a file system of Hadoop's."""

    def __init__(self, session: SparkSession, path: str):
        self._session = session
        self._jvm: Any = session._jvm
        # Py4J looks for a class named in steps at each step, in all of Spark's archives; by its full name, once.
        self._path_of: Any = getattr(self._jvm, "org.apache.hadoop.fs.Path")
        conf = session._jsparkSession.sessionState().newHadoopConf()
        root = self._path_of(path)
        self._fs = root.getFileSystem(conf)
        self._root = root.makeQualified(self._fs.getUri(), self._fs.getWorkingDirectory())

    def __str__(self) -> str:
        return str(self._root.toString())

    def sub(self, name: str) -> HadoopFolder:
        """A folder in it."""
        return HadoopFolder(self._session, self.below(name))

    def below(self, name: str) -> str:
        """The full path of a name, as Spark reads it."""
        return f"{self}/{name}"

    def read(self, name: str) -> str | None:
        """The text of a file; None where there is none.  Raises ``StateError`` where it cannot be read."""
        path = self._at(name)
        try:
            if not self._fs.exists(path):
                return None
            stream = self._fs.open(path)
            try:
                return str(getattr(self._jvm, "org.apache.commons.io.IOUtils").toString(stream, "UTF-8"))
            finally:
                stream.close()
        except Py4JJavaError as error:
            raise StateError(f"{self.below(name)} cannot be read: {_said(error)}") from error

    def write(self, name: str, text: str) -> None:
        """Write a file whole; one that is there already is replaced.  Raises ``StateError`` where it cannot be."""
        beside = self._at(f"{name}.new")
        try:
            stream = self._fs.create(beside, True)
            try:
                stream.write(text.encode())
            finally:
                stream.close()
        except Py4JJavaError as error:
            raise StateError(f"{self.below(name)} cannot be written: {_said(error)}") from error
        self.delete(name)
        self._rename(beside, self._at(name))

    def delete(self, name: str) -> None:
        """Remove a file, or a folder with all in it; nothing happens where there is none."""
        self._fs.delete(self._at(name), True)

    def rename(self, name: str, to: str) -> None:
        """Give a file another name, in a folder that is made if need be."""
        target = self._at(to)
        self._fs.mkdirs(target.getParent())
        self._rename(self._at(name), target)

    def inside(self, name: str = "") -> list[Found]:
        """What is in a folder, sorted by name; nothing where there is no such folder."""
        path = self._at(name)
        if not self._fs.exists(path):
            return []
        found = [Found(s.getPath().getName(), s.isDirectory(), s.getLen()) for s in self._fs.listStatus(path)]
        return sorted(found, key=lambda f: f.name)

    def walk(self, name: str = "") -> list[Found]:
        """All files below a folder, by their path from it."""
        files = []
        for found in self.inside(name):
            inner = [Found(f"{found.name}/{f.name}", False, f.size) for f in self.walk(_join(name, found.name))]
            files += inner if found.folder else [found]
        return files if name or self._fs.exists(self._root) else []

    def _rename(self, path: Any, target: Any) -> None:
        if not self._fs.rename(path, target):
            raise StateError(f"{path.toString()} could not be renamed to {target.toString()}")

    def _at(self, name: str) -> Any:
        return self._path_of(self._root, name) if name else self._root


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _said(error: Py4JJavaError) -> str:
    thrown = error.java_exception
    return f"{thrown.getClass().getSimpleName()}: {thrown.getMessage()}"
