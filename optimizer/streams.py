"""Joins of streams: which of them run on state modules, and how and why the others are left to Spark."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from optimizer.checked import checked
from optimizer.parameters import bound, named
from optimizer.plan import Plan, Warned
from optimizer.stream_bins import over_bins, statement
from optimizer.stream_epochs import Planner, Schemas, changes_and_versions, epochs_of, schemas_of
from planner.catalog import Catalog
from planner.errors import HintError, OptionError, QueryError, StateError, Unsupported, brief, is_users
from planner.explain.printer import show_tree, show_warnings
from planner.hints.blocks import DELTA_ORDER, hints_in
from planner.physical.half_join import epoch_of
from planner.sql.from_sql import from_sql
from planner.sql.names import Unresolved
from planner.state.sink import Mode, Target, check_partitions
from planner.state.spec import StreamJoin
from planner.state.stream import Stream
from rules.context import Context
from rules.stream.relations import Find
from rules.stream.stream_blocks import NotTaken
from rules.stream.stream_join import stream_join
from rules.stream.temporal import temporal_stream_join, versioned_stream

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql.streaming.query import StreamingQuery


_LOG = logging.getLogger("dovetail")
_SINKS = "give it files (Sink), a table of files that is there, or a function"
_ASKED = "state_modules=False asks for it"
NO_LITERAL = "an argument cannot be written into the query as a literal"
_BINS = "bins=True asks for it"
_OVER_BINS = "Spark's own stream-stream join runs over bins"
_EQUAL = "two streams meet by equalities alone, which it does as well; state_modules=True takes state modules"


@dataclass(frozen=True)
class StreamPlan:
    """How a query over streams runs: as ``join`` on state modules; or as Spark runs it, for the ``reason``.

    Neither is there for a query that joins no streams.  ``bins``: the plan with bins that Spark's own join runs over;
    None where it runs as written.  ``warnings``: hints on the order of lookups that do nothing.  ``changelog`` is a
    stream of it whose rows are changes, which Spark joins none of; nothing where all rows are new.  ``versions`` is one
    whose versions it asks for, which Spark cannot, either.  ``schemas``: what Spark said of the join when it was
    planned.
    """

    text: str
    join: StreamJoin | None = None
    reason: str = ""
    warnings: tuple[Warned, ...] = ()
    bins: Plan | None = None
    changelog: str = ""
    schemas: Schemas | None = None
    versions: str = ""

    @property
    def only_here(self) -> bool:
        """Whether Spark could not run the query, so that there is nothing to leave it to."""
        return bool(self.changelog or self.versions)

    def explain(self) -> str:
        """The plan of an epoch, or why there is none."""
        if self.join:
            said = show_tree(epoch_of(self.join))
        elif self.bins and self.bins.physical:
            said = f"{_OVER_BINS}: {self.reason}\n{show_tree(self.bins.physical)}"
        elif self.reason and self.only_here:
            said = self.refused(self.reason)
        elif self.reason:
            said = f"Spark's own stream-stream join runs: {self.reason}"
        else:
            said = "no two streams are joined; no state is held"
        return f"{said}\n{show_warnings(self.warnings)}" if self.warnings else said

    def refused(self, reason: str) -> str:
        """Why a join with a changelog, or with versions, cannot run."""
        if self.versions:
            return f"{self.versions} is a stream of versions, and only state modules join these: {reason}"
        above = "; opt.keep does" if "stands above the join" in reason else ""
        joins = "is a changelog, and only state modules join changes"
        return f"{self.changelog} {joins}, which do not take this: {reason}{above}"


def plan_stream(
    text: str,
    catalog: Catalog,
    options: Any,
    find: Find,
    *,
    asked: bool | None = None,
    bins: bool | None = None,
    kept: tuple[int, ...] = (),
) -> StreamPlan:
    """Look at a query; ``find`` tells which tables are streams.  Never raises for what Spark would run.

    ``asked`` for state modules, or for Spark's own join; None for what is better.  ``bins``: Spark's own join has them
    for each band; None for where it could not run without; False for nowhere.  ``kept``: the rows of each input that a
    state has, if there is one.  Raises ``HintError`` where the user wants no hint without effect.
    """
    ctx = Context(catalog, options, options.force, rule="stream_join")
    join, reason, changelog, versioned = None, "", "", None

    def declared(name: tuple[str, ...]) -> Stream | None:
        nonlocal changelog
        stream, change = find(name), catalog.declaration(name).changelog
        if stream is None:
            return None
        if change:
            changelog = changelog or ".".join(name)
            return replace(stream, change=change.change)
        if read := next((r for r in stream.reads if catalog.declaration(r).changelog), None):
            changelog, said = ".".join(read), ".".join(name)
            raise NotTaken(f"{said} is a view over it; write its query out, or declare {said} as a changelog")
        return stream

    try:
        logical, _ = from_sql(text)
        if versioned := versioned_stream(logical, ctx, find):
            join = temporal_stream_join(text, logical, versioned, ctx, declared)
        else:
            join = stream_join(text, logical, ctx, declared, kept)
    except (NotTaken, Unresolved) as no:
        reason = str(no)
    except Unsupported as no:
        reason = no.reason
    only_here = bool(changelog or versioned)
    if join and (asked is False or (asked is None and not only_here and (bins or _by_equalities(join)))):
        join, reason = None, _ASKED if asked is False else _BINS if bins else _EQUAL
    if reason or (join and not join.delta):
        for hint in hints_in(text):
            if hint.name == DELTA_ORDER:
                why = f"Spark's own join runs: {reason}" if reason else "this join has two, which look up one another"
                ctx.warn(f"{hint.text}: it orders the lookups of a join of three streams or more; {why}", hint.place)
    warnings = tuple(Warned(w.rule, w.reason, w.place) for w in ctx.warnings)
    if warnings and options.strict_hints:
        first, *more = warnings
        raise HintError("; ".join([first.reason, *map(str, more)]), first.place)
    own = join or not reason or bins is False or only_here
    over = None if own else over_bins(text, catalog, options, find, asked=bins)
    versions = versioned.name if versioned else ""
    return StreamPlan(text, join, reason, warnings, over, changelog, versions=versions)


def _by_equalities(join: StreamJoin) -> bool:
    """Whether a join is of two streams that meet by equalities alone."""
    return len(join.inputs) == 2 == len(join.sides) and not join.banded


def look(
    opt: Planner,
    text: str,
    args: Any,
    asked: bool | None = None,
    bins: bool | None = None,
    kept: tuple[int, ...] = (),
) -> StreamPlan:
    """The plan of a query on the session of an optimizer, with its arguments written into its text."""
    from functools import cache, partial

    from planner.runtime.batch import analysed, classic
    from planner.runtime.catalog import SparkCatalog
    from planner.runtime.state.streams import stream_of

    if not isinstance(text, str):
        raise QueryError(f"a query is wanted, as text, and not {text!r}")
    if not classic(opt.session):
        return StreamPlan(text, reason="state modules need a classic session, not Spark Connect")
    try:
        numbered, arguments = named(text, args)
        if arguments:
            said = bound(numbered, arguments)
            plain, given = said and analysed(opt.session, said), analysed(opt.session, numbered, arguments)
            if not plain or isinstance(plain, str) or isinstance(given, str) or plain[1] != given[1]:
                return StreamPlan(text, reason=NO_LITERAL)
            numbered = str(said)
        catalog = SparkCatalog(opt.session, None, opt.keys, changes_and_versions(opt), None, opt.meanings)
        find = cache(partial(stream_of, opt.session))
        planned = partial(plan_stream, numbered, catalog, opt.options, find, bins=bins)
        plan = planned(asked=asked, kept=kept)
        told = schemas_of(opt.session, plan.join) if plan.join else None
        if isinstance(told, str):
            plan = replace(planned(asked=False), reason=told)
        elif told:
            plan = replace(plan, schemas=told)
        if plan.bins:
            over = checked(plan.bins, catalog, None)
            plan = replace(plan, bins=replace(over, session=opt.session) if over.rewritten else None)
        return plan
    except Exception as error:
        if opt.options.strict or is_users(error):
            raise
        return StreamPlan(text, reason=f"its planning failed: {brief(error)}")


def start(
    opt: Planner,
    text: str,
    args: Any,
    *,
    checkpoint: str | Path,
    sink: Target,
    trigger: str | None,
    mode: Mode,
    name: str | None,
    ttl: float | None,
    asked: bool | None,
    bins: bool | None,
    of_a_view: bool = False,
) -> StreamingQuery | None:
    """Start a join of streams on state modules, or as Spark's own over bins, with the reason in the log.

    None where the query runs as Spark has it.  ``of_a_view``: its rows are those of a kept view.

    Raises ``StateError`` for a checkpoint whose state is of another query, or damaged; ``OptionError`` for a ``ttl``
    that does nothing.
    """
    if ttl is not None and not ttl > 0:
        raise OptionError(f"state_ttl is {ttl!r}; give seconds, more than 0")
    plan = look(opt, text, args, asked, bins, _kept(opt, checkpoint))
    for warning in plan.warnings:
        _LOG.warning("%s", warning)
    started: StreamingQuery | str = plan.reason
    if plan.join and mode != "append":
        started = f"the output mode is {mode}"
    elif plan.join and plan.schemas:
        started = _start(opt, plan.join, plan.schemas, checkpoint, sink, trigger, name, ttl, of_a_view=of_a_view)
    if not isinstance(started, str):
        return started
    if started and plan.only_here:
        raise QueryError(plan.refused(started))
    if plan.join:  # not by this mode, into this sink, or on this checkpoint
        keys, plan = plan.join.keys, look(opt, text, args, asked=False, bins=bins)
        if not keys and not plan.bins and bins is not False:
            raise QueryError(f"{started}, and without an equality Spark joins no streams; {_SINKS}")
    if ttl is not None:
        raise OptionError(f"state_ttl is for joins on state modules; {started or 'this query joins no two streams'}")
    if started:
        _LOG.info("Spark's own stream-stream join runs: %s", started)
    _check_not_ours(opt, checkpoint, started)
    found = statement(opt.session, plan.bins, plan.text, checkpoint)
    if found is None:
        return None
    from planner.runtime.batch import run
    from planner.runtime.stream import start as start_own

    _LOG.info("%s: %s", _OVER_BINS, started)
    return start_own(run(opt.session, found), sink, checkpoint, trigger, mode, name)


def start_planned(
    opt: Planner,
    text: str,
    args: Any,
    *,
    checkpoint: str | Path,
    sink: Target,
    trigger: str | None,
    mode: Mode,
    name: str | None,
) -> StreamingQuery:
    """Start a query as Spark has it, planned like any other.  Raises ``QueryError`` where it reads no stream."""
    from planner.runtime.stream import start as start_own

    plan = opt.plan(text, args)
    for warning in plan.warnings:
        _LOG.warning("%s", warning)
    frame = plan.dataframe()
    if not frame.isStreaming:
        raise QueryError("no relation of this query is a stream; run it with opt.sql")
    return start_own(frame, sink, checkpoint, trigger, mode, name)


def _kept(opt: Planner, checkpoint: str | Path) -> tuple[int, ...]:
    """The rows of each input that a state beside a checkpoint has; nothing where there is none that can be read."""
    from planner.runtime.batch import classic
    from planner.runtime.state.files import HadoopFolder
    from planner.state.store import Store

    if not classic(opt.session):
        return ()
    store = Store(HadoopFolder(opt.session, str(checkpoint)))
    with suppress(StateError):
        if epochs := store.epochs():
            return tuple(state.rows for state in store.manifest(epochs[-1]).inputs)
    return ()


def _check_not_ours(opt: Planner, checkpoint: str | Path, reason: str) -> None:
    from planner.runtime.batch import classic
    from planner.runtime.state.files import HadoopFolder
    from planner.state.store import Store

    if classic(opt.session) and Store(HadoopFolder(opt.session, str(checkpoint))).query() is not None:
        why = f": {reason}" if reason else ""
        said = f"holds the state of a join on state modules, which this query is not{why}; give it another checkpoint"
        raise StateError(f"{checkpoint} {said}")


def _start(
    opt: Planner,
    join: StreamJoin,
    known: Schemas,
    checkpoint: str | Path,
    sink: Target,
    trigger: str | None,
    name: str | None,
    ttl: float | None,
    *,
    of_a_view: bool,
) -> StreamingQuery | str:
    from planner.runtime.state.epochs import start_epochs
    from planner.runtime.state.files import HadoopFolder
    from planner.runtime.state.sinks import check_table, output
    from planner.state.store import Store

    session = opt.session
    sensitive = session.conf.get("spark.sql.caseSensitive") == "true"
    check_partitions(sink, known.returned.names, case_sensitive=sensitive)
    if ttl is not None and join.as_of:
        raise OptionError("state_ttl would lose versions that are still valid, and rows that wait for theirs")
    if ttl is not None and join.kind != "inner":
        raise OptionError(f"state_ttl would lose rows of this {join.kind} join; it is for inner joins")
    if ttl is not None and join.changes:
        raise OptionError("state_ttl would lose rows that a later change takes away; it is for streams of new rows")
    store = Store(HadoopFolder(session, str(checkpoint)))
    if store.begun_by_spark():
        return f"{checkpoint} was begun by Spark's own join"
    to = output(session, sink, name, "")
    if isinstance(to, str):
        return to
    check_table(session, sink, known.returned)
    to = output(session, sink, name, store.open(join))
    assert not isinstance(to, str)
    for line in join.delta.lines if join.delta else ():
        _LOG.info("%s", line)
    epochs = epochs_of(opt, join, known, store, to, ttl, of_a_view=of_a_view)
    return start_epochs(session, epochs, checkpoint, trigger, name)
