"""What the state needs of a folder; and a folder of this machine, to look at a state without Spark."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from planner.errors import StateError


@dataclass(frozen=True)
class Found:
    """Something in a folder: its path below it, whether it is a folder itself, its size in bytes."""

    name: str
    folder: bool
    size: int


class Folder(Protocol):
    """A folder, which need not exist; names in it may have slashes.

    What is written appears whole or not at all.
    """

    def sub(self, name: str) -> Folder:
        """A folder in it."""
        ...

    def below(self, name: str) -> str:
        """The full path of a name, as Spark reads it."""
        ...

    def read(self, name: str) -> str | None:
        """The text of a file; None where there is none.  Raises ``StateError`` where it cannot be read."""
        ...

    def write(self, name: str, text: str) -> None:
        """Write a file whole; one that is there already is replaced."""
        ...

    def delete(self, name: str) -> None:
        """Remove a file, or a folder with all in it; nothing happens where there is none."""
        ...

    def rename(self, name: str, to: str) -> None:
        """Give a file another name, in a folder that is made if need be."""
        ...

    def inside(self, name: str = "") -> list[Found]:
        """What is in a folder, sorted by name; nothing where there is no such folder."""
        ...

    def walk(self, name: str = "") -> list[Found]:
        """All files below a folder, by their path from it."""
        ...


class LocalFolder:
    """A ``Folder`` of this machine."""

    def __init__(self, path: Path):
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def sub(self, name: str) -> LocalFolder:
        """A folder in it."""
        return LocalFolder(self.path / name)

    def below(self, name: str) -> str:
        """The full path of a name."""
        return str(self.path / name)

    def read(self, name: str) -> str | None:
        """The text of a file; None where there is none.  Raises ``StateError`` where it cannot be read."""
        try:
            return (self.path / name).read_text()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeError) as error:
            raise StateError(f"{self.below(name)} cannot be read: {error}") from error

    def write(self, name: str, text: str) -> None:
        """Write a file whole; one that is there already is replaced."""
        beside = self.path / f"{name}.new"
        beside.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text)
        beside.replace(self.path / name)

    def delete(self, name: str) -> None:
        """Remove a file, or a folder with all in it; nothing happens where there is none."""
        path = self.path / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def rename(self, name: str, to: str) -> None:
        """Give a file another name, in a folder that is made if need be."""
        target = self.path / to
        target.parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).replace(target)

    def inside(self, name: str = "") -> list[Found]:
        """What is in a folder, sorted by name; nothing where there is no such folder."""
        path = self.path / name
        if not path.is_dir():
            return []
        with os.scandir(path) as found:
            return sorted((Found(f.name, f.is_dir(), f.stat().st_size) for f in found), key=lambda f: f.name)

    def walk(self, name: str = "") -> list[Found]:
        """All files below a folder, by their path from it."""
        root = self.path / name
        files = sorted(p for p in root.rglob("*") if p.is_file())
        return [Found(p.relative_to(root).as_posix(), False, p.stat().st_size) for p in files]
