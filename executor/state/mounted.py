"""Folders on a file system that is mounted on this machine, and their operations as JSON, for a client elsewhere.

A server of Spark Connect hands out no file system.  Its Python processes see the folders that are mounted there, and a
client calls ``operate`` in one of them.
"""

from __future__ import annotations

import json
import platform
from dataclasses import astuple
from pathlib import Path
from typing import Any

from dovetail.executor.state.folder import Found, LocalFolder
from dovetail.planner.errors import StateError

SCHEME = "file:"


class MountedFolder(LocalFolder):
    """A ``LocalFolder`` in which Spark writes: it shows full paths as Spark does, and no checksums of Hadoop's."""

    def __str__(self) -> str:
        return f"{SCHEME}{self.path}"

    @property
    def public(self) -> str:
        return str(self)

    def sub(self, name: str) -> MountedFolder:
        return MountedFolder(self.path / name)

    def below(self, name: str) -> str:
        return f"{self}/{name}"

    def inside(self, name: str = "") -> list[Found]:
        return [found for found in super().inside(name) if not is_checksum(found.name)]

    def walk(self, name: str = "") -> list[Found]:
        return [found for found in super().walk(name) if not is_checksum(found.name.rpartition("/")[2])]


def is_checksum(name: str) -> bool:
    """Whether a file holds the checksum of another one, which Hadoop writes next to local files."""
    return name.startswith(".") and name.endswith(".crc")


def operate(path: str, operation: str, names: tuple[str, ...]) -> str:
    """Run an operation of a folder on this machine; return its result, or the text of its ``StateError``, as JSON."""
    folder = MountedFolder(Path(path))
    try:
        member: Any = getattr(folder, operation)
        result: Any = member(*names) if callable(member) else member
    except StateError as error:
        return json.dumps({"error": str(error)})
    except OSError as error:
        return json.dumps({"error": f"{folder} cannot be used on the server {platform.node()}: {error}"})
    return json.dumps({"result": [astuple(found) for found in result] if isinstance(result, list) else result})


def result_of(answer: str) -> Any:
    """Read what ``operate`` has returned: entries are ``Found``.  Raises ``StateError``."""
    found = json.loads(answer)
    if "error" in found:
        raise StateError(found["error"])
    result = found["result"]
    return [Found(*entry) for entry in result] if isinstance(result, list) else result
