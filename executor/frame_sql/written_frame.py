"""A DataFrame that was written as a statement, and the proof that both are the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dovetail.executor.session.named_frames import NamedFrames


@dataclass(frozen=True)
class WrittenFrame:
    """A statement over views of a DataFrame's relations.

    ``find_difference``: returns how the statement differs from the DataFrame, empty if it does not.  It takes longer
    than planning, so only rewritten statements are compared; the views have to be there.
    """

    statement: NamedFrames
    find_difference: Callable[[], str]
