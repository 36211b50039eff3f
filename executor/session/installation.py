"""Installs optimizers on a session: ``session.sql`` then plans with the one that was installed last."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_KEPT = "_dovetail_sql"  # the attribute of a session that holds its InstalledSql
PLANNED = "_dovetail_planned"  # the attribute of a DataFrame that was planned as SQL
_LOCK = Lock()


class RunsSql(Protocol):
    """What can be installed."""

    def sql(self, text: str, /, args: Any = None, **frames: Any) -> DataFrame:
        """Run a statement."""


class InstalledSql:
    """The ``sql`` of a session on which optimizers are installed; ``uninstalled`` is what the session had before."""

    def __init__(self, uninstalled: Callable[..., DataFrame]) -> None:
        self.uninstalled = uninstalled
        self.optimizers: tuple[RunsSql, ...] = ()

    def __call__(self, sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:  # noqa: N803  # Spark's name
        """Run a statement, as ``SparkSession.sql``."""
        optimizers = self.optimizers
        if not optimizers:
            return self.uninstalled(sqlQuery, args=args, **kwargs)
        frame = optimizers[-1].sql(sqlQuery, args=args, **kwargs)
        setattr(frame, PLANNED, True)
        return frame


def install(session: SparkSession, optimizer: RunsSql) -> None:
    """Let ``session.sql`` plan with an optimizer until ``uninstall``, in all threads."""
    with _LOCK:
        installed = vars(session).get(_KEPT)
        if installed is None or "sql" not in vars(session):  # else ours is there, or a wrapper of others calls it
            installed = InstalledSql(session.sql)
            setattr(session, _KEPT, installed)
            session.sql = installed  # type: ignore[method-assign]
        installed.optimizers = (*installed.optimizers, optimizer)


def uninstall(session: SparkSession, optimizer: RunsSql) -> None:
    """Undo the last ``install`` of an optimizer; nothing happens if it is not installed."""
    with _LOCK:
        installed = vars(session).get(_KEPT)
        if installed is None:
            return
        places = [n for n, other in enumerate(installed.optimizers) if other is optimizer]
        for place in places[-1:]:
            installed.optimizers = (*installed.optimizers[:place], *installed.optimizers[place + 1 :])
        called_directly = vars(session).get("sql") is installed  # else by a wrapper of others
        if not installed.optimizers and called_directly:
            delattr(session, _KEPT)
            del session.sql
            before: Any = installed.uninstalled
            if session.sql != before:  # a wrapper of others
                session.sql = before  # type: ignore[method-assign]


def on_new_sessions(prepare: Callable[[SparkSession], object]) -> Callable[[], None]:
    """Let ``SparkSession.builder.getOrCreate`` prepare each session on which no optimizer is installed.

    Returns a function that undoes this.
    """
    from pyspark.sql import SparkSession

    builders: Any = SparkSession.Builder
    before = builders.getOrCreate
    preparing = Lock()

    @wraps(before)
    def get_or_create(builder: Any) -> SparkSession:
        session: SparkSession = before(builder)
        with preparing:  # two threads may get one session
            if not is_installed(session):
                prepare(session)
        return session

    def undo() -> None:
        if builders.getOrCreate is get_or_create:
            builders.getOrCreate = before

    builders.getOrCreate = get_or_create
    return undo


def is_installed(session: SparkSession) -> bool:
    """Whether an optimizer plans the statements of a session."""
    installed = vars(session).get(_KEPT)
    return installed is not None and bool(installed.optimizers)


def uninstalled_sql(session: SparkSession) -> Callable[..., DataFrame]:
    """Return the ``sql`` of a session for statements of Dovetail's own, which are not planned again."""
    installed = vars(session).get(_KEPT)
    return session.sql if installed is None else installed.uninstalled
