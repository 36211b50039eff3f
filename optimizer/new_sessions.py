"""Installs an optimizer on each session that this process makes, for programs that make their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.api import Optimizer
from planner.runtime.installation import on_new_sessions

if TYPE_CHECKING:
    from collections.abc import Callable


def install_on_new_sessions() -> Callable[[], None]:
    """Let ``SparkSession.builder.getOrCreate`` return sessions whose ``sql`` plans each statement.

    Each session has an optimizer of its own, with the options of its settings ``spark.dovetail.…``; a wrong one raises
    ``OptionError`` in ``getOrCreate``.  A session of ``newSession()`` has no optimizer.  Returns a function that undoes
    this for sessions that are made later.
    """
    return on_new_sessions(Optimizer.install)
