"""Which run of a query owns the state: the newest that has begun an epoch, in CHECKPOINT/dovetail/run.N.json.

Spark notices two runs on a checkpoint only where both write the log of one epoch.  Until then each would remove files
of the other, as remains of a crash.
"""

from __future__ import annotations

import json
import os
import platform
from datetime import datetime, timezone

from dovetail.executor.state.folder import Folder
from dovetail.executor.state.revisions import newest, revisions
from dovetail.planner.errors import StateError
from dovetail.planner.state.refusals import two_runs

STEM = "run"


def claim(folder: Folder) -> str:
    """Make this run the owner of a state; return its token for ``check_owner``.

    Raises ``StateError`` if another run does the same at this moment.
    """
    started = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    token = json.dumps({"host": platform.node(), "process": os.getpid(), "started": started})
    before = revisions(folder, STEM)
    name = f"{STEM}.{before[-1][0] + 1 if before else 1}.json"
    folder.create(name, token)
    for _, older in before:
        folder.delete(older)
    return name


def check_owner(folder: Folder, token: str, checkpoint: str) -> None:
    """Raise ``StateError`` if another run has become the owner since ``claim`` returned the token."""
    name = newest(folder, STEM)
    if name != token:
        raise StateError(f"{_describe(folder.read(name))} {two_runs(checkpoint)}")


def _describe(text: str | None) -> str:
    """Describe the run that owns a state, by the content of its file."""
    try:
        run = json.loads(text or "")
        return f"Another run of a query (process {run['process']} on {run['host']}, since {run['started']})"
    except (ValueError, KeyError, TypeError):
        return "Another run of a query"
