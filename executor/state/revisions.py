"""Revisions of files: a file is written once, and its successor is its next revision, with another name.

    bins.json    bins.1.json    bins.2.json        the newest counts

A revision is complete before the previous one is removed, so that a crash at any moment leaves a readable one.
"""

from __future__ import annotations

import re

from dovetail.executor.state.folder import Folder


def revisions(folder: Folder, stem: str) -> list[tuple[int, str]]:
    """The revisions of a file, by number and name, the oldest first."""
    pattern = re.compile(rf"{re.escape(stem)}(?:\.(\d+))?\.json")
    found = ((pattern.fullmatch(f.name), f.name) for f in folder.inside())
    return sorted((int(match[1] or 0), name) for match, name in found if match)


def newest(folder: Folder, stem: str) -> str:
    """The name of the newest revision of a file; that of the first one where there is none."""
    found = revisions(folder, stem)
    return found[-1][1] if found else f"{stem}.json"


def write_revision(folder: Folder, stem: str, text: str) -> None:
    """Write the next revision of a file."""
    found = revisions(folder, stem)
    folder.create(f"{stem}.{found[-1][0] + 1}.json" if found else f"{stem}.json", text)


def remove_older(folder: Folder, stem: str) -> None:
    """Remove all revisions of a file but the newest."""
    for _, name in revisions(folder, stem)[:-1]:
        folder.delete(name)
