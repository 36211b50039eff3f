"""The steps of a refresh of materialized views: one refresh at a time, on files of one moment, to all sinks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Protocol

from dovetail.executor.state.spark_logs import read_progress
from dovetail.executor.state.store import Store
from dovetail.planner.errors import StateError, add_note

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from dovetail.executor.state.stored_rows import StoredRows

_LOCKS: dict[str, Lock] = {}  # by the folder of a view
_REFRESHING: dict[str, int] = {}  # the thread that holds the lock


class Refreshed(Protocol):
    """A materialized view that is refreshed."""

    @property
    def name(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def rows(self) -> StoredRows: ...
    @property
    def has_begun_to_write(self) -> bool: ...
    def write_to_sink(self) -> None: ...
    def end(self, epoch: int) -> None: ...


@contextmanager
def refresh_lock(session: SparkSession, state: str) -> Iterator[None]:
    """Hold the lock of a refresh, by the folder of the view, however that is spelled.

    Raises ``StateError`` if this thread holds it, as when the function of a sink refreshes its own view.
    """
    from dovetail.executor.state.files import HadoopFolder

    folder = HadoopFolder(session, state)
    if _REFRESHING.get(str(folder)) == get_ident():
        raise StateError(
            f"A refresh of {folder.public} is running in this thread, and a second one would wait for its end. Call "
            "refresh() after the function of the sink has returned"
        )
    with _LOCKS.setdefault(str(folder), Lock()):
        _REFRESHING[str(folder)] = get_ident()
        try:
            yield
        finally:
            del _REFRESHING[str(folder)]


def check_checkpoint(store: Store, views: Iterable[Refreshed]) -> None:
    """Raise ``StateError`` if views have rows, and the checkpoint that these came from was deleted.

    A new checkpoint would begin with the first row of each stream, and add all rows a second time.
    """
    view = next((view for view in views if view.rows.refreshed), None)
    if view and not store.checkpoint.inside("commits"):
        raise StateError(
            f"The checkpoint {store.checkpoint} is missing or has lost its commits, and {view.name} has rows that "
            f"came from it. Restore it, {view.state} and the sinks from copies of one moment, or start again with all "
            "of them empty"
        )


def check_epochs(store: Store, views: Iterable[Refreshed]) -> None:
    """Raise ``StateError`` if a view or the checkpoint was restored from a copy of another moment."""
    progress = read_progress(store.checkpoint)
    for view in views:
        view.rows.check_epoch(view.name, progress)


def await_end(query: StreamingQuery, store: Store, name: str) -> None:
    """Wait for the end of a refresh.

    Raises the error that ended it, and ``StateError`` if it was stopped in an epoch, which Spark does not report.
    """
    query.awaitTermination()
    if store.has_unfinished_epoch():
        raise StateError(
            f"The query that refreshes {name} was stopped before its end, so the view is unchanged. Refresh it again, "
            "which resumes there. Check whether something stops the queries of this session, or runs on a copy of "
            f"{store.checkpoint} at the same time"
        )


def write_sinks(views: Sequence[Refreshed]) -> None:
    """Write the result of a refresh to the sinks of views; with several views, an error names the view."""
    for view in views:
        try:
            view.write_to_sink()
        except Exception as error:
            if len(views) > 1:
                add_note(
                    error,
                    f"{view.name} could not write to its sink; opt.materialize_all without this view refreshes the "
                    "others",
                )
            raise


def finish_interrupted(views: Sequence[Refreshed], store: Store) -> None:
    """Finish a refresh that was interrupted while it wrote to its sinks, before newer rows are read.

    A sink that knows the number of the refresh can skip it: the number always comes with the same rows.
    """
    unfinished = [view for view in views if not view.rows.ended]
    if any(view.has_begun_to_write for view in unfinished):
        write_sinks(unfinished)
        end_refresh(unfinished, store)


def end_refresh(views: Iterable[Refreshed], store: Store) -> None:
    """End a refresh of views: they show the rows up to the last epoch from here on."""
    epoch = read_progress(store.checkpoint).ended
    for view in views:
        view.end(epoch)
