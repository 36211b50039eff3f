"""Plans queries over streams: on state modules, over bins, or on Spark's own stream-stream join."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from dovetail.optimizer.options import Options
from dovetail.optimizer.planning.parameters import bind_literals, make_given, name_parameters
from dovetail.optimizer.session.schema_validation import validate_schema
from dovetail.optimizer.streams.bins import plan_stream_bins
from dovetail.optimizer.streams.epochs import Planner, analyze_schemas
from dovetail.optimizer.streams.plan import StreamPlan
from dovetail.planner.catalog import Catalog
from dovetail.planner.errors import HintError, QueryError, Refused, is_user_error, summarize
from dovetail.planner.explain.records import Declined
from dovetail.planner.hints.blocks import DELTA_ORDER, hints_in
from dovetail.planner.sql.from_sql import from_sql
from dovetail.planner.state.spec import StreamJoin
from dovetail.planner.state.stream import Stream
from dovetail.rules.context import Context
from dovetail.rules.stream.relations import Find
from dovetail.rules.stream.stream_join import stream_join
from dovetail.rules.stream.temporal import temporal_stream_join, versioned_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RULE = "stream_join"
NO_LITERAL = "an argument cannot be written into the query as a literal"
_REQUESTED = "state_modules=False requests it"
_BINS = "bins=True requests it"
_EQUAL = "it joins two streams by equalities alone, which Spark does as well; state_modules=True uses state modules"


@dataclass(frozen=True)
class StreamQuery:
    """A query over streams, and how to run it.

    ``state_modules``: use them, or Spark's own join; None for the better one.  ``bins``: Spark's own join uses bins for
    each band; None for bands without which Spark could not run the join; False for no band.
    """

    text: str
    args: Any = None
    state_modules: bool | None = None
    bins: bool | None = None

    def refusal(self, join: StreamJoin, *, required: bool) -> str:
        """Why Spark's own join runs in the place of one that state modules could run; empty if they run it."""
        if self.state_modules is False:
            return _REQUESTED
        if self.state_modules or required:
            return ""
        is_equi_join = len(join.inputs) == 2 == len(join.sides) and not join.banded
        return _BINS if self.bins else _EQUAL if is_equi_join else ""


@dataclass(frozen=True)
class StreamPlanner:
    """Plans queries over the streams of a catalog; ``find`` returns the stream behind a name."""

    catalog: Catalog
    options: Options
    find: Find

    def plan(self, query: StreamQuery, stored_row_counts: tuple[int, ...] = ()) -> StreamPlan:
        """Plan a query.  Never raises for a query that Spark runs.

        ``stored_row_counts``: the rows of each input in the state, if there is one.  Raises ``HintError`` for a hint
        without effect if the options are strict about hints.
        """
        ctx = Context(self.catalog, self.options, self.options.force, rule=RULE)
        join, versioned, streams = None, None, _DeclaredStreams(self.catalog, self.find)
        declined: tuple[Declined, ...] = ()
        try:
            logical, _ = from_sql(query.text)
            if versioned := versioned_stream(logical, ctx, self.find):
                join = temporal_stream_join(query.text, logical, versioned, ctx, streams.find)
            else:
                join = stream_join(query.text, logical, ctx, streams.find, stored_row_counts)
        except Refused as no:
            declined = (Declined(RULE, no.reason, no.place, no.code), *ctx.declined)
        requires_state_modules = bool(streams.changelog or versioned)
        if join and (why := query.refusal(join, required=requires_state_modules)):
            join, declined = None, _refusal(why)
        self._warn_of_idle_hints(query.text, join, declined, ctx)
        binned = None
        if declined and query.bins is not False and not requires_state_modules:
            binned = plan_stream_bins(query.text, self.catalog, self.options, self.find, requested=query.bins)
        versions = versioned.name if versioned else ""
        warnings = tuple(ctx.warnings)
        return StreamPlan(query.text, join, declined, warnings, binned, streams.changelog, versions=versions)

    def _warn_of_idle_hints(
        self, text: str, join: StreamJoin | None, declined: Sequence[Declined], ctx: Context
    ) -> None:
        """Warn of hints on the order of lookups that have no effect; raise ``HintError`` if the options are strict."""
        if declined or (join and not join.delta):
            why = "this join has two, which look up one another"
            why = f"Spark's own join runs: {declined[0].reason}" if declined else why
            for hint in (h for h in hints_in(text) if h.name == DELTA_ORDER):
                ctx.warn(f"{hint.text}: it orders the lookups of a join of three streams or more; {why}", hint.place)
        if ctx.warnings and self.options.strict_hints:
            first, *more = ctx.warnings
            raise HintError("; ".join([first.reason, *map(str, more)]), first.place)


class _DeclaredStreams:
    """The streams of a session with what is declared of them; ``changelog``: the name of one whose rows are changes."""

    def __init__(self, catalog: Catalog, find: Find):
        self._catalog, self._find = catalog, find
        self.changelog = ""

    def find(self, name: tuple[str, ...]) -> Stream | None:
        """Return the stream behind a name, if any.  Raises ``Refused`` for a view over a changelog."""
        stream, change = self._find(name), self._catalog.declaration(name).changelog
        if stream is None:
            return None
        if change:
            self.changelog = self.changelog or ".".join(name)
            return replace(stream, change=change.change)
        if read := next((r for r in stream.reads if self._catalog.declaration(r).changelog), None):
            self.changelog, view = ".".join(read), ".".join(name)
            raise Refused(f"{view} is a view over it; write its query out, or declare {view} as a changelog")
        return stream


def _refusal(reason: str) -> tuple[Declined, ...]:
    """Return a reason without a place as the only one."""
    return (Declined(RULE, reason),)


def plan_on_session(opt: Planner, query: StreamQuery, stored_row_counts: tuple[int, ...] = ()) -> StreamPlan:
    """Plan a query on the session of an optimizer, with its arguments written into its text."""
    if not isinstance(query.text, str):
        raise QueryError(f"The query is {query.text!r}, which is not a string; pass the SELECT statement as a string")
    try:
        numbered, arguments = name_parameters(query.text, query.args)
        bound = _bind(opt.session, numbered, arguments) if arguments else numbered
        if bound is None:
            return StreamPlan(query.text, declined=_refusal(NO_LITERAL))
        plan = _plan_validated(opt, replace(query, text=bound, args=None), stored_row_counts)
        return plan.with_arguments(make_given(numbered, arguments)) if arguments else plan
    except Exception as error:
        if opt.options.strict or is_user_error(error):
            raise
        return StreamPlan(query.text, declined=_refusal(f"its planning failed: {summarize(error)}"))


def _bind(session: SparkSession, numbered: str, arguments: Any) -> str | None:
    """Write arguments into a query as literals; None if Spark then gives it another schema."""
    from dovetail.executor.session.requests import analyze

    bound = bind_literals(numbered, arguments)
    plain, given = bound and analyze(session, bound), analyze(session, numbered, arguments)
    if not plain or isinstance(plain, str) or isinstance(given, str) or plain[1] != given[1]:
        return None
    return bound


def _plan_validated(opt: Planner, query: StreamQuery, stored_row_counts: tuple[int, ...]) -> StreamPlan:
    """Plan a query without arguments, and validate the schemas of its plan on the session."""
    from dovetail.executor.catalog.spark_catalog import SparkCatalog
    from dovetail.executor.session.batch import classic
    from dovetail.executor.state.server_folder import server_refusal
    from dovetail.executor.state.streams import stream_of

    catalog = SparkCatalog(opt.session, declared=opt.declarations.of_streams())
    find = cache(partial(stream_of, opt.session, declared=tuple(opt.declarations.changelogs().tables)))
    planner = StreamPlanner(catalog, opt.options, find)
    without_modules = partial(planner.plan, replace(query, state_modules=False))
    plan = planner.plan(query, stored_row_counts)
    on_server = not classic(opt.session) and (plan.join or plan.bins)
    if on_server and (refused := server_refusal(opt.session)):
        plan = without_modules()
        also = "; nor can it run over bins, whose SQL Dovetail stores in the checkpoint" if plan.bins else ""
        plan = replace(plan, declined=_refusal(f"{refused}{also}"))
    schemas = analyze_schemas(opt.session, plan.join) if plan.join else None
    if isinstance(schemas, str):
        plan = replace(without_modules(), declined=_refusal(schemas))
    elif schemas:
        plan = replace(plan, schemas=schemas)
    if plan.bins:
        binned = validate_schema(plan.bins, catalog)
        plan = replace(plan, bins=replace(binned, session=opt.session) if binned.rewritten else None)
    return plan
