"""Pins the statement that a checkpoint of Spark's own join started with: the newest CHECKPOINT/dovetail/bins.….json.

Spark stores the bin of a row in the key of its state, so that other bins would not find the stored rows.  The first
statement therefore runs again unchanged, even if a later version or another hint would plan the query differently.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from dovetail.executor.state.folder import Folder
from dovetail.executor.state.revisions import newest, remove_older, write_revision
from dovetail.executor.state.store import FOLDER
from dovetail.planner.errors import StateError
from dovetail.planner.expr import Scalar
from dovetail.planner.state.fingerprint import Given, describe_arguments, fingerprint, new_salt
from dovetail.planner.state.refusals import NEW_CHECKPOINT, check_settings, damaged, other_format

FORMAT = 2
_FILE = "bins"


@dataclass(frozen=True)
class Pinned:
    """A statement to pin: ``sql`` runs for the user's ``text``, with its arguments as literals, under ``settings``.

    ``given`` is the text with its arguments, if it has any.
    """

    text: str
    settings: tuple[tuple[str, str], ...]
    sql: str
    given: Given | None = None

    @property
    def shown(self) -> str:
        """The query to show to a reader, without the values of its arguments."""
        return self.given.text if self.given else self.text


@dataclass(frozen=True)
class Written:
    """A stored statement: its ``sql``, and the fingerprints that identify its query."""

    sql: str
    shown: str
    settings: tuple[tuple[str, str], ...]
    salt: str
    fingerprint: str
    arguments: dict[str, str]


def read_pinned(checkpoint: Folder) -> Written | None:
    """Read the statement that a checkpoint resumes with; None if none was stored, or if Spark has not started with it.

    Raises ``StateError`` for a file that cannot be read.
    """
    folder = checkpoint.sub(FOLDER)
    name = newest(folder, _FILE)
    text = folder.read(name)
    if text is None or not checkpoint.inside("state"):
        return None
    where = folder.below(name)
    try:
        found = json.loads(text)
        format_ = int(found.pop("format"))
        if format_ != FORMAT:
            raise other_format(f"the plan in {where}", format_, FORMAT, NEW_CHECKPOINT)
        return Written(**{**found, "settings": tuple(map(tuple, found["settings"]))})
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(f"{where} cannot be read: {error}") from error


def write_pinned(checkpoint: Folder, pinned: Pinned) -> None:
    """Store a statement before Spark starts with it.

    It contains the values of the arguments, which Spark needs to resume.
    """
    salt = new_salt()
    document = {
        "format": FORMAT,
        "shown": pinned.shown,
        "settings": pinned.settings,
        "sql": pinned.sql,
        "salt": salt,
        "fingerprint": fingerprint(salt, pinned.text),
        **(describe_arguments(pinned.given, salt) or {"arguments": {}}),
    }
    folder = checkpoint.sub(FOLDER)
    write_revision(folder, _FILE, json.dumps(document, indent=1, ensure_ascii=False))
    remove_older(folder, _FILE)


def check_pinned(old: Written, new: Pinned, checkpoint: Folder) -> None:
    """Raise ``StateError`` unless a query is the one that a checkpoint started with; its plan may differ."""
    if old.fingerprint != fingerprint(old.salt, new.text):
        stored = {"salt": old.salt, "arguments": old.arguments}
        other = new.given.other(stored) if new.given and old.shown == new.shown else []
        difference = f"another value of {', '.join(other)}" if other else f"another query: {Scalar(old.shown).shown}"
        raise StateError(f"the state in {checkpoint} belongs to {difference}; {NEW_CHECKPOINT}")
    check_settings(str(checkpoint), old.settings, new.settings, NEW_CHECKPOINT)
