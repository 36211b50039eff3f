"""Errors for a state that is damaged, or that belongs to another query, with what to do."""

from __future__ import annotations

from collections.abc import Iterable

from dovetail.planner.errors import StateError
from dovetail.planner.version import VERSION

NEW_CHECKPOINT = "give this query a checkpoint of its own"


RESTORE = "restore the whole checkpoint and the sink from copies of one moment, or start again with both empty"


def damaged(what: str, remedy: str = RESTORE) -> StateError:
    """Return the error for damaged files of a state, with what to do."""
    return StateError(f"{what}; {remedy}")


def two_runs(checkpoint: str) -> str:
    """Describe what to do about two runs on a checkpoint."""
    return (
        f"runs on the checkpoint {checkpoint}, so this run ends: two would write over each other's state. Stop one of "
        "them, or give one query another checkpoint and another sink"
    )


def rebuild_remedy(view: str) -> str:
    """Return the remedy for a damaged folder of one view among several: their shared state has all rows."""
    return f"remove {view} and what it wrote to its sink, and the view is built again from the state"


def other_format(what: str, found: object, current: int, remedy: str) -> StateError:
    """Return the error for a state that another version of Dovetail wrote; ``remedy``: what to do."""
    return StateError(
        f"{what} has format {found}, and this version of Dovetail, {VERSION}, reads and writes format {current}; "
        f"install the version that wrote it, or {remedy}"
    )


def check_settings(where: str, was: Iterable[tuple[str, str]], now: Iterable[tuple[str, str]], remedy: str) -> None:
    """Raise ``StateError`` if settings differ from those of the state in ``where``; ``remedy``: another way out.

    A setting that is not among them is off.
    """
    old, new = dict(was), dict(now)
    pairs = {name: (old.get(name, "false"), new.get(name, "false")) for name in {**new, **old}}
    if changed := [f"{name} was {before} and is {after}" for name, (before, after) in pairs.items() if before != after]:
        settings_text = ", ".join(changed)
        raise StateError(
            f"the state in {where} was written under other settings: {settings_text}; restore them, or {remedy}"
        )
