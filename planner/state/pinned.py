"""The statement that a checkpoint of Spark's own join was begun with: CHECKPOINT/dovetail/bins.json.

Spark keeps the bin of a row as part of the key of its state, so that other bins would find no row that is kept.  What
was planned once is therefore run again as it was, whatever a later version, or another hint, would make of the query.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from planner.errors import StateError
from planner.state.folder import Folder
from planner.state.refusals import ANEW, damaged, hold_settings
from planner.state.store import FOLDER

FORMAT = 1
_FILE = "bins.json"


@dataclass(frozen=True)
class Pinned:
    """``sql`` is what Spark runs for the user's ``text``, its arguments written into it, under ``settings``."""

    text: str
    settings: tuple[tuple[str, str], ...]
    sql: str


def read_pinned(checkpoint: Folder) -> Pinned | None:
    """The statement that a checkpoint goes on with; None where none was written, or Spark has not begun with it.

    Raises ``StateError`` for a file that cannot be read.
    """
    text = checkpoint.sub(FOLDER).read(_FILE)
    if text is None or not checkpoint.inside("state"):
        return None
    where = checkpoint.sub(FOLDER).below(_FILE)
    try:
        found = json.loads(text)
        format_ = int(found.pop("format"))
        if format_ != FORMAT:
            raise StateError(f"the plan in {where} has format {format_}; this version of Dovetail writes {FORMAT}")
        return Pinned(**{**found, "settings": tuple(map(tuple, found["settings"]))})
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(f"{where} cannot be read: {error}") from error


def write_pinned(checkpoint: Folder, pinned: Pinned) -> None:
    """Write a statement down before Spark begins with it."""
    said = json.dumps({"format": FORMAT, **asdict(pinned)}, indent=1, ensure_ascii=False)
    checkpoint.sub(FOLDER).write(_FILE, said)


def hold_against_pinned(old: Pinned, new: Pinned, checkpoint: Folder) -> None:
    """Raise ``StateError`` unless a query is the one that a checkpoint was begun with; its plan may be another."""
    if old.text != new.text:
        said = " ".join(old.text.split())
        raise StateError(f"the state in {checkpoint} is of another query: {said}; {ANEW}")
    hold_settings(str(checkpoint), old.settings, new.settings, ANEW)
