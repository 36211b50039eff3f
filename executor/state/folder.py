"""The folder interface of the state, and local folders, to inspect a state without Spark."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from dovetail.planner.errors import StateError

UNFINISHED = ".new"
"""The suffix of a file until it is complete; files that a crash leaves under such names are never read."""


@dataclass(frozen=True)
class Found:
    """An entry of a folder: its path below the folder, whether it is a folder itself, its size in bytes."""

    name: str
    folder: bool
    size: int


class Folder(Protocol):
    """A folder, which need not exist; names in it may have slashes.

    Writes are atomic, and no file is ever replaced: its successor has another name.
    """

    @property
    def public(self) -> str:
        """The path as messages show it, without keys that may be in it."""
        ...

    @property
    def is_file(self) -> bool:
        """Whether a file is in its place."""
        ...

    @property
    def without_links(self) -> str:
        """The full path; of a local folder without symbolic links."""
        ...

    def sub(self, name: str) -> Folder:
        """Return a folder in it."""
        ...

    def below(self, name: str) -> str:
        """Return the full path of a name, as Spark reads it."""
        ...

    def read(self, name: str) -> str | None:
        """Read a text file; None if it does not exist.  Raises ``StateError`` if it cannot be read."""
        ...

    def create(self, name: str, text: str) -> None:
        """Write a new file atomically.  Raises ``StateError`` if the file exists or cannot be written."""
        ...

    def delete(self, name: str) -> None:
        """Delete a file, or a folder with its contents; does nothing if it does not exist."""
        ...

    def delete_empty(self) -> None:
        """Delete the folder if it exists and nothing is in it."""
        ...

    def rename(self, name: str, to: str) -> None:
        """Rename a file; the folder of the new name is created if need be."""
        ...

    def inside(self, name: str = "") -> list[Found]:
        """List the entries of a folder by name; empty if there is no such folder."""
        ...

    def walk(self, name: str = "") -> list[Found]:
        """List all files below a folder, by their path from it."""
        ...


def unfinished_name(name: str) -> str:
    """The name of a file until it is complete; no other writer of the file has the same one."""
    return f"{name}.{uuid4().hex[:8]}{UNFINISHED}"


def exists(path: str) -> StateError:
    """Return the error for a file that exists already."""
    return StateError(f"{path} exists already, so another query writes here at the same time; stop one of them")


class LocalFolder(Folder):
    """A ``Folder`` on this machine."""

    def __init__(self, path: Path):
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    @property
    def public(self) -> str:
        return str(self.path)

    @property
    def is_file(self) -> bool:
        return self.path.is_file()

    @property
    def without_links(self) -> str:
        """The full path without symbolic links."""
        return os.path.realpath(self.path)

    def sub(self, name: str) -> LocalFolder:
        return LocalFolder(self.path / name)

    def below(self, name: str) -> str:
        return str(self.path / name)

    def read(self, name: str) -> str | None:
        try:
            return (self.path / name).read_bytes().decode()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeError) as error:
            raise StateError(f"{self.below(name)} cannot be read: {error}") from error

    def create(self, name: str, text: str) -> None:
        if (self.path / name).exists():
            raise exists(self.below(name))
        unfinished = self.path / unfinished_name(name)
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_bytes(text.encode())
        unfinished.rename(self.path / name)

    def delete(self, name: str) -> None:
        path = self.path / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def delete_empty(self) -> None:
        with suppress(OSError):
            self.path.rmdir()

    def rename(self, name: str, to: str) -> None:
        target = self.path / to
        target.parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).replace(target)

    def inside(self, name: str = "") -> list[Found]:
        path = self.path / name
        try:
            names = sorted(entry.name for entry in path.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [found for entry in names if (found := _found(path, entry))]

    def walk(self, name: str = "") -> list[Found]:
        root = self.path / name
        paths = sorted(Path(folder) / file for folder, _, files in os.walk(root) for file in files)
        return [found for path in paths if (found := _found(root, path.relative_to(root).as_posix()))]


def _found(root: Path, name: str) -> Found | None:
    """Return an entry of a listed folder; None if another process has deleted it since."""
    try:
        status = (root / name).stat()
    except FileNotFoundError:
        return None
    return Found(name, stat.S_ISDIR(status.st_mode), status.st_size)
