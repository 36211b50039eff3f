"""Installs an optimizer on each session that this process makes, for programs that make their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dovetail.executor.session.installation import on_new_sessions
from dovetail.optimizer.api import Optimizer
from dovetail.optimizer.session.options import options_of_session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession


def install_on_new_sessions(*, frames: bool = False, options: Mapping[str, str] | None = None) -> Callable[[], None]:
    """Let ``SparkSession.builder.getOrCreate`` return sessions whose ``sql`` plans each statement.

    ``frames``: actions of DataFrames plan as well, as in ``Optimizer.install``.  Each session has an optimizer of its
    own, with the options of its settings ``spark.dovetail.…``; a wrong one raises ``OptionError`` in ``getOrCreate``.
    ``options``, by name, win over the settings.
    A session of ``newSession()`` has no optimizer.  Returns a function that undoes this for sessions made later.
    """

    def prepare(session: SparkSession) -> None:
        Optimizer.install(session, options_of_session(session, options), frames=frames)

    return on_new_sessions(prepare)
