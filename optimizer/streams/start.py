"""Starts joins of streams: on state modules, over bins, or as Spark runs them; and logs why."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dovetail.optimizer.streams.bins import pinned_statement
from dovetail.optimizer.streams.epochs import Planner, make_epochs, make_request
from dovetail.optimizer.streams.plan import OVER_BINS, StreamPlan
from dovetail.optimizer.streams.queries import StreamQuery, plan_on_session
from dovetail.planner.errors import OptionError, QueryError, StateError
from dovetail.planner.state.fingerprint import Given
from dovetail.planner.state.sink import Destination
from dovetail.planner.state.spec import StreamJoin

if TYPE_CHECKING:
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


@dataclass(frozen=True)
class StreamStart:
    """The start of a query over streams: on state modules, over bins, or as written; with the reason in the log.

    ``ttl``: the seconds after which state modules may forget a row.  ``view``: the query of the materialized view that
    reads these rows.
    """

    opt: Planner
    query: StreamQuery
    to: Destination
    ttl: float | None = None
    view: Given | None = None

    def start(self) -> StreamingQuery:
        """Start the query.

        Raises ``StateError`` for a checkpoint whose state belongs to another query or is damaged; ``OptionError`` for a
        ``ttl`` without effect; ``QueryError`` if it reads no stream, or has a join that would fail in the first
        micro-batch.
        """
        if not str(self.to.checkpoint or "").strip():
            raise OptionError("checkpoint is empty; name a folder in which Spark records the progress of the query")
        if self.ttl is not None and not self.ttl > 0:
            raise OptionError(f"state_ttl is {self.ttl!r}; give seconds, more than 0")
        plan = plan_on_session(self.opt, self.query, self._stored_row_counts())
        if self.view and self.view.arguments:
            plan = plan.with_arguments(self.view)
        for warning in plan.warnings:
            _LOG.warning("%s", warning)
        started: StreamingQuery | str = plan.reason
        if plan.join and self.to.mode != "append":
            started = f"the output mode is {self.to.mode}"
        elif plan.join:
            started = self._start_on_state_modules(plan, plan.join)
        return self._start_on_spark(plan, started) if isinstance(started, str) else started

    def _start_on_spark(self, plan: StreamPlan, reason: str) -> StreamingQuery:
        """Start a query on Spark's own operators: over bins, or as written.  ``reason``: why, if it joins streams."""
        from dovetail.executor.session.batch import run
        from dovetail.executor.state.sink_places import check_no_other_log, check_not_hidden
        from dovetail.executor.state.stream_reader import start_query

        session, checkpoint = self.opt.session, self.to.checkpoint
        if reason and plan.requires_state_modules:
            raise QueryError(plan.describe_refusal(reason))
        if plan.join:  # not in this mode, into this sink, or on this checkpoint
            own = plan_on_session(self.opt, replace(self.query, state_modules=False))
            bins = own.bins or self.query.bins is False
            if not bins and (refusal := _join_refusal(self.opt, own.text)):
                raise QueryError(f"{reason}, and Spark cannot run this join of streams: {refusal}; {_SINKS}")
        else:
            own = plan
        if self.ttl is not None:
            raise OptionError(f"state_ttl is for joins on state modules; {reason or 'this query joins no two streams'}")
        if reason:
            self._log(reason, declined=bool(plan.join) and not reason.endswith(_BEGUN))
        self._check_not_state_modules(reason)
        check_not_hidden(session, self.to.sink, str(checkpoint))
        check_no_other_log(session, self.to.sink, str(checkpoint))
        found = pinned_statement(session, own.bins, own.text, own.given, checkpoint)
        if found is None:
            return self._start_as_written()
        _LOG.info("%s: %s", OVER_BINS, reason)
        return start_query(run(session, found), self.to)

    def _log(self, reason: str, *, declined: bool) -> None:
        """Log why Spark's own join runs.  ``declined``: the user's mode or sink rules out state modules."""
        from dovetail.executor.session.batch import classic

        remedy = f". {_TAKEN if classic(self.opt.session) else _TAKEN_ON_CONNECT}" if declined else ""
        level = logging.WARNING if declined else logging.INFO
        _LOG.log(level, "Spark's own stream-stream join runs: %s%s", reason, remedy)

    def _start_on_state_modules(self, plan: StreamPlan, join: StreamJoin) -> StreamingQuery | str:
        """Start a join on state modules; or return why these cannot run it with this sink, or on this checkpoint."""
        from dovetail.executor.state.epochs import start_epochs
        from dovetail.executor.state.files import open_folder
        from dovetail.executor.state.memory_sink import MemoryOutput
        from dovetail.executor.state.server_folder import FolderRefused
        from dovetail.executor.state.sink_places import check_apart
        from dovetail.executor.state.sinks import check_schema, output
        from dovetail.executor.state.store import Store

        assert plan.schemas is not None
        to, session, checkpoint, sink = self.to, self.opt.session, self.to.checkpoint, self.to.sink
        self._check_ttl(join)
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
                f"A query with the sink memory cannot resume from {checkpoint}: its rows were in the memory of the "
                "process that started it. Give it a new checkpoint, or a sink of files"
            )
        check_schema(session, sink, plan.schemas.returned)
        out = output(session, sink, to.name, store.open(join))
        if isinstance(out, str):  # another query has written there meanwhile
            return out
        for line in join.delta.lines if join.delta else ():
            _LOG.info("%s", line)
        request = make_request(self.opt, join, plan.schemas, out)
        epochs = make_epochs(session, join, plan.schemas.inputs, store, (request,))
        epochs.ttl, epochs.for_view = self.ttl, self.view is not None
        return start_epochs(session, epochs, checkpoint, to.trigger, to.name)

    def _check_ttl(self, join: StreamJoin) -> None:
        """Raise ``OptionError`` for a time to live with which a join would lose rows."""
        if self.ttl is None:
            return
        if join.as_of:
            raise OptionError(
                "state_ttl would lose versions that are still valid, and rows that wait for theirs. Leave it out"
            )
        if join.kind != "inner":
            raise OptionError(
                f"state_ttl would lose rows of this {join.kind} join; it is for inner joins. Leave it out, or "
                "write an inner join"
            )
        if join.changes:
            raise OptionError(
                "state_ttl would lose rows that a later change takes away; it is for streams of new rows. Leave it out"
            )

    def _start_as_written(self) -> StreamingQuery:
        """Start a query on Spark's own operators, planned like any other."""
        from dovetail.executor.state.stream_reader import start_query
        from dovetail.executor.state.streams import check_joins

        plan = self.opt.plan(self.query.text, self.query.args)
        for warning in plan.warnings:
            _LOG.warning("%s", warning)
        frame = plan.dataframe()
        if not frame.isStreaming:
            raise QueryError("no relation of this query is a stream; run it with opt.sql")
        check_joins(frame, str(self.to.checkpoint))
        return start_query(frame, self.to)

    def _stored_row_counts(self) -> tuple[int, ...]:
        """Return the number of rows of each input in the state of the checkpoint; empty if no state is readable."""
        from dovetail.executor.state.files import find_folder
        from dovetail.executor.state.store import Store

        folder = find_folder(self.opt.session, str(self.to.checkpoint))
        if folder is None:
            return ()
        store = Store(folder)
        with suppress(StateError):
            if epochs := store.epochs():
                return tuple(state.rows for state in store.manifest(epochs[-1]).inputs)
        return ()

    def _check_not_state_modules(self, reason: str) -> None:
        """Raise ``StateError`` for the checkpoint of a join on state modules, or Spark's error for the query."""
        from dovetail.executor.session.batch import run
        from dovetail.executor.state.files import open_folder
        from dovetail.executor.state.server_folder import FolderRefused, exists_on_server
        from dovetail.executor.state.store import FOLDER, Store

        session, checkpoint = self.opt.session, self.to.checkpoint
        try:
            store = Store(open_folder(session, str(checkpoint)))
        except FolderRefused as no:  # the state of another query could not be read
            if exists_on_server(session, f"{str(checkpoint).rstrip('/')}/{FOLDER}"):
                raise StateError(
                    f"The checkpoint {checkpoint} has a folder {FOLDER}, which cannot be read: {no}. Start the query "
                    "when it can, or give it another checkpoint and another sink"
                ) from no
            return
        if store.query() is not None:
            run(session, self.query.text, self.query.args)  # a table may be missing
            why = f" ({reason})" if reason else ""
            belongs = "belongs to a join on state modules, and this query does not run on them"
            raise StateError(f"The checkpoint {checkpoint} {belongs}{why}. Give this query another checkpoint")


def _join_refusal(opt: Planner, text: str) -> str:
    """Return why Spark cannot plan a join of streams; empty if it can, or if the query has another error."""
    from dovetail.executor.session.requests import analyze
    from dovetail.executor.state.streams import join_refusal

    found = analyze(opt.session, text)
    return "" if isinstance(found, str) else join_refusal(found[0])
