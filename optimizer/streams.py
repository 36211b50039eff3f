"""Starts joins of streams: on state modules, over bins, or as Spark runs them; and logs why."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dovetail.optimizer.stream_bins import pinned_statement
from dovetail.optimizer.stream_epochs import Planner, Schemas, make_epochs
from dovetail.optimizer.stream_plan import OVER_BINS, plan_on_session, with_arguments
from dovetail.planner.errors import OptionError, QueryError, StateError
from dovetail.planner.state.fingerprint import Given
from dovetail.planner.state.sink import Destination
from dovetail.planner.state.spec import StreamJoin

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql.streaming.query import StreamingQuery


_LOG = logging.getLogger("dovetail.stream")
_BEGUN = "was begun by Spark's own join"
_TAKEN = (
    "State modules write, in append mode: Sink with csv, json, orc, parquet or text and a path; memory with a name; "
    "console; noop; an existing table of such files without partitions and buckets; a function"
)
_TAKEN_ON_CONNECT = (
    "On Spark Connect, state modules write, in append mode: Sink with csv, json, orc, parquet or text and a path; "
    "console; noop; a function"
)
_SINKS = "give it files (Sink), a table of files that is there, or a function"


def start(
    opt: Planner,
    text: str,
    args: Any,
    to: Destination,
    *,
    ttl: float | None = None,
    state_modules: bool | None = None,
    bins: bool | None = None,
    view: Given | None = None,
) -> StreamingQuery:
    """Start a query over streams: a join on state modules or over bins, with the reason in the log, or as written.

    ``view``: the query of the materialized view that reads these rows.

    Raises ``StateError`` for a checkpoint whose state belongs to another query or is damaged; ``OptionError`` for a
    ``ttl`` without effect; ``QueryError`` if it reads no stream, or has a join that would fail in the first
    micro-batch.
    """
    from dovetail.executor.session.batch import classic
    from dovetail.executor.state.sink_places import check_no_other_log, check_not_hidden

    checkpoint = to.checkpoint
    if not str(checkpoint or "").strip():
        raise OptionError("checkpoint is empty; name a folder in which Spark records the progress of the query")
    if ttl is not None and not ttl > 0:
        raise OptionError(f"state_ttl is {ttl!r}; give seconds, more than 0")
    plan = plan_on_session(opt, text, args, state_modules, bins, _stored_row_counts(opt, checkpoint))
    if view and view.arguments:
        plan = with_arguments(plan, view)
    for warning in plan.warnings:
        _LOG.warning("%s", warning)
    started: StreamingQuery | str = plan.reason
    if plan.join and to.mode != "append":
        started = f"the output mode is {to.mode}"
    elif plan.join and plan.schemas:
        started = _start(opt, plan.join, plan.schemas, to, ttl, for_view=view is not None)
    if not isinstance(started, str):
        return started
    if started and plan.requires_state_modules:
        raise QueryError(plan.describe_refusal(started))
    declined = bool(plan.join) and not started.endswith(_BEGUN)
    if plan.join:  # not in this mode, into this sink, or on this checkpoint
        plan = plan_on_session(opt, text, args, state_modules=False, bins=bins)
        if not plan.bins and bins is not False and (refusal := _join_refusal(opt, plan.text)):
            raise QueryError(f"{started}, and Spark cannot run this join of streams: {refusal}; {_SINKS}")
    if ttl is not None:
        raise OptionError(f"state_ttl is for joins on state modules; {started or 'this query joins no two streams'}")
    if started:
        # state modules could have run the join: the user's mode, sink or checkpoint rules them out
        level = logging.WARNING if declined else logging.INFO
        _LOG.log(
            level,
            "Spark's own stream-stream join runs: %s%s",
            started,
            f". {_TAKEN if classic(opt.session) else _TAKEN_ON_CONNECT}" if declined else "",
        )
    _check_not_state_modules(opt, text, args, checkpoint, started)
    check_not_hidden(opt.session, to.sink, str(checkpoint))
    check_no_other_log(opt.session, to.sink, str(checkpoint))
    found = pinned_statement(opt.session, plan.bins, plan.text, plan.given, checkpoint)
    if found is None:
        return _start_as_written(opt, text, args, to)
    from dovetail.executor.session.batch import run
    from dovetail.executor.state.stream_reader import start_query

    _LOG.info("%s: %s", OVER_BINS, started)
    return start_query(run(opt.session, found), to)


def _join_refusal(opt: Planner, text: str) -> str:
    """Return why Spark cannot plan a join of streams; empty if it can, or if the query has another error."""
    from dovetail.executor.session.batch import analyze
    from dovetail.executor.state.streams import join_refusal

    found = analyze(opt.session, text)
    return "" if isinstance(found, str) else join_refusal(found[0])


def _start_as_written(opt: Planner, text: str, args: Any, to: Destination) -> StreamingQuery:
    """Start a query on Spark's own operators, planned like any other."""
    from dovetail.executor.state.stream_reader import start_query
    from dovetail.executor.state.streams import check_joins

    plan = opt.plan(text, args)
    for warning in plan.warnings:
        _LOG.warning("%s", warning)
    frame = plan.dataframe()
    if not frame.isStreaming:
        raise QueryError("no relation of this query is a stream; run it with opt.sql")
    check_joins(frame, str(to.checkpoint))
    return start_query(frame, to)


def _stored_row_counts(opt: Planner, checkpoint: str | Path) -> tuple[int, ...]:
    """Return the number of rows of each input in the state of a checkpoint; empty if there is no readable state."""
    from dovetail.executor.state.files import find_folder
    from dovetail.executor.state.store import Store

    folder = find_folder(opt.session, str(checkpoint))
    if folder is None:
        return ()
    store = Store(folder)
    with suppress(StateError):
        if epochs := store.epochs():
            return tuple(state.rows for state in store.manifest(epochs[-1]).inputs)
    return ()


def _check_not_state_modules(opt: Planner, text: str, args: Any, checkpoint: str | Path, reason: str) -> None:
    """Raise ``StateError`` for the checkpoint of another query; or Spark's error for a query that it cannot analyze."""
    from dovetail.executor.session.batch import run
    from dovetail.executor.state.files import open_folder
    from dovetail.executor.state.server_folder import FolderRefused, exists_on_server
    from dovetail.executor.state.store import FOLDER, Store

    try:
        store = Store(open_folder(opt.session, str(checkpoint)))
    except FolderRefused as no:  # the state of another query could not be read
        if exists_on_server(opt.session, f"{str(checkpoint).rstrip('/')}/{FOLDER}"):
            raise StateError(
                f"The checkpoint {checkpoint} has a folder {FOLDER}, which cannot be read: {no}. Start the query when "
                "it can, or give it another checkpoint and another sink"
            ) from no
        return
    if store.query() is not None:
        run(opt.session, text, args)  # a table may be missing
        why = f" ({reason})" if reason else ""
        belongs = "belongs to a join on state modules, and this query does not run on them"
        raise StateError(f"The checkpoint {checkpoint} {belongs}{why}. Give this query another checkpoint")


def _start(
    opt: Planner, join: StreamJoin, schemas: Schemas, to: Destination, ttl: float | None, *, for_view: bool
) -> StreamingQuery | str:
    from dovetail.executor.state.epochs import start_epochs
    from dovetail.executor.state.files import open_folder
    from dovetail.executor.state.memory_sink import MemoryOutput
    from dovetail.executor.state.server_folder import FolderRefused
    from dovetail.executor.state.sink_places import check_apart
    from dovetail.executor.state.sinks import check_schema, output
    from dovetail.executor.state.store import Store

    session, checkpoint, sink = opt.session, to.checkpoint, to.sink
    if ttl is not None and join.as_of:
        raise OptionError(
            "state_ttl would lose versions that are still valid, and rows that wait for theirs. Leave it out"
        )
    if ttl is not None and join.kind != "inner":
        raise OptionError(
            f"state_ttl would lose rows of this {join.kind} join; it is for inner joins. Leave it out, or "
            "write an inner join"
        )
    if ttl is not None and join.changes:
        raise OptionError(
            "state_ttl would lose rows that a later change takes away; it is for streams of new rows. Leave it out"
        )
    try:
        store = Store(open_folder(session, str(checkpoint)))
    except FolderRefused as no:
        return str(no)
    if store.begun_by_spark():
        return f"{checkpoint} {_BEGUN}"
    check_apart(session, sink, str(checkpoint))
    out = output(session, sink, to.name, "")
    if isinstance(out, str):
        return out
    if isinstance(out, MemoryOutput) and store.checkpoint.inside("offsets"):
        raise OptionError(
            f"A query with the sink memory cannot resume from {checkpoint}: its rows were in the memory of the process "
            "that started it. Give it a new checkpoint, or a sink of files"
        )
    check_schema(session, sink, schemas.returned)
    out = output(session, sink, to.name, store.open(join))
    if isinstance(out, str):  # another query has written there meanwhile
        return out
    for line in join.delta.lines if join.delta else ():
        _LOG.info("%s", line)
    epochs = make_epochs(opt, join, schemas, store, out, ttl, for_view=for_view)
    return start_epochs(session, epochs, checkpoint, to.trigger, to.name)
