"""What to say of a state that is damaged, or is of something else than the query that finds it."""

from __future__ import annotations

from collections.abc import Iterable

from planner.errors import StateError

ANEW = "give this query a checkpoint of its own"


def damaged(what: str) -> StateError:
    """An error that says what is wrong with the files of a state, and what its user can do."""
    return StateError(f"{what}; restore the folder from a copy, or begin again with an empty one and an empty sink")


def hold_settings(where: str, was: Iterable[tuple[str, str]], now: Iterable[tuple[str, str]], anew: str) -> None:
    """Raise ``StateError`` where settings are not as they were for the state in ``where``; ``anew``: another remedy."""
    old = dict(was)
    if changed := [f"{name} was {old.get(name)} and is {value}" for name, value in now if old.get(name) != value]:
        said = ", ".join(changed)
        raise StateError(f"the state in {where} is of other settings: {said}; set them as they were, or {anew}")
