"""A parsed and validated catalog file, with the lines of its keys, and the files that it extends."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dovetail.planner.catalog_file import toml
from dovetail.planner.catalog_file.keys import FILE
from dovetail.planner.catalog_file.kinds import At
from dovetail.planner.errors import CatalogError, one_of


@dataclass(frozen=True, eq=False)
class Document:
    """A file whose keys and values have been checked; ``label`` is what messages call it."""

    path: Path
    label: str
    text: str
    data: dict[str, Any]

    def error(self, at: At, message: str) -> CatalogError:
        """An error about a place in the file: its line if it can be found, the key, and what is wrong."""
        line = _line(self.text, at)
        where = self.label if line is None else f"{self.label}, line {line}"
        return CatalogError(f"{where}: {': '.join(filter(None, (_key(at), message)))}")


def read_documents(path: Path, label: str | None = None) -> tuple[Document, ...]:
    """A catalog file and those that it extends, each before the one that extends it.

    ``label`` is what messages call the file, its name unless given.  Raises ``CatalogError``, which names file, line
    and key.
    """
    found: list[Document] = []
    seen: list[Path] = []
    while True:
        document = _read(path, label or path.name)
        seen.append(path.resolve())
        found.insert(0, document)
        base = _extended(document)
        if base is None:
            return tuple(found)
        if base.resolve() in seen:
            chain = " > ".join(p.name for p in (*seen, base))
            raise CatalogError(f"{found[-1].label}: extends itself: {chain}; remove one `extends`")
        path, label = base, str(Path(label).parent / base.relative_to(path.parent)) if label else None


def _extended(document: Document) -> Path | None:
    """The file whose tables a file takes over; its name is relative to the file."""
    name = document.data.get("extends")
    if name is None:
        return None
    try:
        base = document.path.parent / (name if name.endswith(".toml") else f"{name}.toml")
        if base.is_file():
            return base
    except (OSError, ValueError):  # a name that no file can have
        pass
    others = [p.stem for p in document.path.parent.glob("*.toml") if p.name != document.path.name]
    raise document.error(("extends",), f"there is no catalog {name!r} next to this file; {one_of(others, name)}")


def _read(path: Path, label: str) -> Document:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError as error:
        raise CatalogError(f"{label}: there is no such file in {path.parent.name or path.parent}/") from error
    except OSError as error:
        raise CatalogError(f"{label}: cannot be read: {(error.strerror or str(error)).lower()}") from error
    except ValueError as error:
        raise CatalogError(f"{label}: cannot be read as text: {error}") from error
    try:
        data = _parsed(text)
    except (ValueError, RecursionError) as error:
        raise CatalogError(f"{label}: not TOML: {error}") from error
    document = Document(path, label, text, data)
    if found := FILE.problem(data, ()):
        raise document.error(found.at, found.message)
    return document


@cache
def _parsed(text: str) -> dict[str, Any]:
    document: dict[str, Any] = toml.loads(text)
    return document


def _key(at: At) -> str:
    """A place as messages name it: keys with dots between, and items of lists by their numbers from 1."""
    parts = []
    for part in at:
        if isinstance(part, int):
            parts.append(f"[{part + 1}]")
        else:
            name = part if re.fullmatch(r"[\w.\- ]+", part) and len(part) < 200 else repr(part)[:200]
            parts.append(f".{name}" if parts else name)
    return "".join(parts)


def _line(text: str, at: At) -> int | None:
    """Return the line in which a place of a valid TOML file begins; None if unknown."""
    while at and (isinstance(at[-1], int)):
        at = at[:-1]
    if not at:
        return None
    lines, last = text.splitlines(), str(at[-1])
    for number, line in enumerate(lines):
        if last not in line:
            continue
        for end in range(number + 1, min(number + 500, len(lines)) + 1):
            try:
                data = toml.loads("\n".join(lines[:end]))
            except (ValueError, RecursionError):
                continue
            if _reaches(data, at):
                return number + 1
            break
    return None


def _reaches(data: Any, at: At) -> bool:
    for part in at:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return False
    return True
