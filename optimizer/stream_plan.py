"""Plans joins of streams: on state modules, or on Spark's own stream-stream join with the reason."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from dovetail.optimizer.parameters import bind_literals, make_given, name_parameters
from dovetail.optimizer.plan import Plan
from dovetail.optimizer.schema_validation import validate_schema
from dovetail.optimizer.stream_bins import plan_stream_bins
from dovetail.optimizer.stream_epochs import (
    Planner,
    Schemas,
    analyze_schemas,
    declared_changelogs,
    declared_changes_and_versions,
)
from dovetail.planner.catalog import Catalog
from dovetail.planner.errors import (
    HintError,
    OptionError,
    QueryError,
    Refused,
    is_user_error,
    one_of,
    summarize,
)
from dovetail.planner.explain.explanation import Explanation
from dovetail.planner.explain.html.page import can_render, render_fragment, render_page
from dovetail.planner.explain.printer import show_tree, show_warnings
from dovetail.planner.explain.records import Declined, PlanWarning
from dovetail.planner.hints.blocks import DELTA_ORDER, hints_in
from dovetail.planner.physical.half_join import epoch_of
from dovetail.planner.sql.from_sql import from_sql
from dovetail.planner.state.fingerprint import Given
from dovetail.planner.state.spec import StreamJoin
from dovetail.planner.state.stream import Stream
from dovetail.rules.context import Context
from dovetail.rules.stream.relations import Find
from dovetail.rules.stream.stream_join import stream_join
from dovetail.rules.stream.temporal import temporal_stream_join, versioned_stream

RULE = "stream_join"
NO_LITERAL = "an argument cannot be written into the query as a literal"
OVER_BINS = "Spark's own stream-stream join runs over bins"
_REQUESTED = "state_modules=False requests it"
_BINS = "bins=True requests it"
_EQUAL = "it joins two streams by equalities alone, which Spark does as well; state_modules=True uses state modules"


StreamMode = Literal["plan", "html"]
STREAM_MODES: tuple[StreamMode, ...] = get_args(StreamMode)


@dataclass(frozen=True)
class StreamPlan:
    """The plan of a query over streams: a ``join`` on state modules, or the reasons why they do not run it.

    ``declined``: these reasons, the first of which decides.  A query that joins no streams has neither.  ``bins``:
    the plan with bins that Spark's own join runs over; None if the query runs as written.  ``warnings``: hints on
    the order of lookups that have no effect.  ``changelog`` names an input whose rows are changes, which Spark
    cannot join; empty if all rows are inserts.  ``versions`` names an input that is joined by version, which Spark
    cannot do either.  ``schemas``: the schemas of the join, as Spark analyzed them.  ``given``: the query with its
    arguments, if it has any; ``text`` has their values.
    """

    text: str
    join: StreamJoin | None = None
    declined: tuple[Declined, ...] = ()
    warnings: tuple[PlanWarning, ...] = ()
    bins: Plan | None = None
    changelog: str = ""
    schemas: Schemas | None = None
    versions: str = ""
    given: Given | None = None

    @property
    def reason(self) -> str:
        """Why Spark's own join runs; empty if it does not."""
        return self.declined[0].reason if self.declined else ""

    @property
    def requires_state_modules(self) -> bool:
        """Whether Spark cannot run the query at all: it joins changes or versions."""
        return bool(self.changelog or self.versions)

    def explain(self, mode: StreamMode = "plan") -> str:
        """Describe the plan of an epoch, or why there is none, as ``plan`` or ``html``.

        Raises ``OptionError`` for another mode, and ``EnvironmentProblem`` for ``html`` without Jinja.
        """
        match mode:
            case "plan":
                return self._describe()
            case "html":
                return render_page(self.explanation())
        raise OptionError(f"explain has no mode {mode!r} for streams; {one_of(STREAM_MODES, str(mode))}")

    def explanation(self) -> Explanation:
        """The parts of an explanation, from which pages are made."""
        if self.bins and not self.join:
            binned = self.bins.explanation()
            declined = (*self.declined, *binned.declined)
            return replace(binned, declined=declined, notes=(f"{OVER_BINS}: {self.reason}.",))
        epoch = epoch_of(self.join) if self.join else None
        notes = () if self.join else (self._describe().partition("\n")[0],)
        return Explanation(
            self.text,
            self.text,
            rewritten=False,
            after=epoch,
            declined=self.declined,
            warnings=self.warnings,
            notes=notes,
        )

    def _repr_html_(self) -> str | None:
        """Show the plan in a notebook; as text if Jinja is not installed."""
        return render_fragment(self.explanation()) if can_render() else None

    def _describe(self) -> str:
        if self.join:
            description = show_tree(epoch_of(self.join))
        elif self.bins and self.bins.physical:
            description = f"{OVER_BINS}: {self.reason}\n{show_tree(self.bins.physical)}"
        elif self.reason and self.requires_state_modules:
            description = self.describe_refusal(self.reason)
        elif self.reason:
            description = f"Spark's own stream-stream join runs: {self.reason}"
        else:
            description = "no two streams are joined; no state is held"
        return f"{description}\n{show_warnings(self.warnings)}" if self.warnings else description

    def describe_refusal(self, reason: str) -> str:
        """Describe why a join with a changelog, or with versions, cannot run."""
        if self.versions:
            return f"{self.versions} is a stream of versions, and only state modules join these: {reason}"
        is_above = any(d.code == "clause_above_join" for d in self.declined[:1])
        above = "; opt.materialize does" if is_above else ""
        joins = "is a changelog, and only state modules join changes"
        return f"{self.changelog} {joins}, which do not take this: {reason}{above}"


def plan_stream(
    text: str,
    catalog: Catalog,
    options: Any,
    find: Find,
    *,
    state_modules: bool | None = None,
    bins: bool | None = None,
    stored_row_counts: tuple[int, ...] = (),
) -> StreamPlan:
    """Plan a query over streams; ``find`` returns the stream behind a name.  Never raises for a query that Spark runs.

    ``state_modules``: use them, or Spark's own join; None for the better one.  ``bins``: Spark's own join uses bins for
    each band; None for bands without which Spark could not run the join; False for no band.  ``stored_row_counts``: the
    rows of each input in the state, if there is one.  Raises ``HintError`` for a hint without effect if the options are
    strict about hints.
    """
    ctx = Context(catalog, options, options.force, rule=RULE)
    join, versioned, streams = None, None, _DeclaredStreams(catalog, find)
    declined: tuple[Declined, ...] = ()
    try:
        logical, _ = from_sql(text)
        if versioned := versioned_stream(logical, ctx, find):
            join = temporal_stream_join(text, logical, versioned, ctx, streams.find)
        else:
            join = stream_join(text, logical, ctx, streams.find, stored_row_counts)
    except Refused as no:
        declined = (Declined(RULE, no.reason, no.place, no.code), *ctx.declined)
    requires_state_modules = bool(streams.changelog or versioned)
    prefers_spark = state_modules is None and not requires_state_modules
    if join and (state_modules is False or (prefers_spark and (bins or _is_equi_join(join)))):
        join, declined = None, _refusal(_REQUESTED if state_modules is False else _BINS if bins else _EQUAL)
    reason = declined[0].reason if declined else ""
    if reason or (join and not join.delta):
        why = f"Spark's own join runs: {reason}" if reason else "this join has two, which look up one another"
        for hint in (h for h in hints_in(text) if h.name == DELTA_ORDER):
            ctx.warn(f"{hint.text}: it orders the lookups of a join of three streams or more; {why}", hint.place)
    warnings = tuple(ctx.warnings)
    if warnings and options.strict_hints:
        first, *more = warnings
        raise HintError("; ".join([first.reason, *map(str, more)]), first.place)
    without_bins = join or not reason or bins is False or requires_state_modules
    binned = None if without_bins else plan_stream_bins(text, catalog, options, find, requested=bins)
    versions = versioned.name if versioned else ""
    return StreamPlan(text, join, declined, warnings, binned, streams.changelog, versions=versions)


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


def _is_equi_join(join: StreamJoin) -> bool:
    """Whether a join has two streams and equalities alone."""
    return len(join.inputs) == 2 == len(join.sides) and not join.banded


def plan_on_session(
    opt: Planner,
    text: str,
    args: Any,
    state_modules: bool | None = None,
    bins: bool | None = None,
    stored_row_counts: tuple[int, ...] = (),
) -> StreamPlan:
    """Plan a query on the session of an optimizer, with its arguments written into its text."""
    from functools import cache, partial

    from dovetail.executor.catalog.spark_catalog import SparkCatalog
    from dovetail.executor.session.batch import analyze, classic
    from dovetail.executor.state.server_folder import server_refusal
    from dovetail.executor.state.streams import stream_of

    if not isinstance(text, str):
        raise QueryError(f"The query is {text!r}, which is not a string; pass the SELECT statement as a string")
    try:
        numbered, arguments = name_parameters(text, args)
        given_text = numbered
        if arguments:
            bound = bind_literals(numbered, arguments)
            plain, given = bound and analyze(opt.session, bound), analyze(opt.session, numbered, arguments)
            if not plain or isinstance(plain, str) or isinstance(given, str) or plain[1] != given[1]:
                return StreamPlan(text, declined=_refusal(NO_LITERAL))
            numbered = str(bound)
        catalog = SparkCatalog(
            opt.session,
            None,
            opt.declarations.keys,
            declared_changes_and_versions(opt),
            None,
            opt.declarations.identities,
        )
        find = cache(partial(stream_of, opt.session, declared=tuple(declared_changelogs(opt))))
        planned = partial(plan_stream, numbered, catalog, opt.options, find, bins=bins)
        plan = planned(state_modules=state_modules, stored_row_counts=stored_row_counts)
        on_server = not classic(opt.session) and (plan.join or plan.bins)
        if on_server and (refused := server_refusal(opt.session)):
            plan = planned(state_modules=False)
            also = "; nor can it run over bins, whose SQL Dovetail stores in the checkpoint" if plan.bins else ""
            plan = replace(plan, declined=_refusal(f"{refused}{also}"))
        schemas = analyze_schemas(opt.session, plan.join) if plan.join else None
        if isinstance(schemas, str):
            plan = replace(planned(state_modules=False), declined=_refusal(schemas))
        elif schemas:
            plan = replace(plan, schemas=schemas)
        if plan.bins:
            binned = validate_schema(plan.bins, catalog)
            plan = replace(plan, bins=replace(binned, session=opt.session) if binned.rewritten else None)
        return with_arguments(plan, make_given(given_text, arguments)) if arguments else plan
    except Exception as error:
        if opt.options.strict or is_user_error(error):
            raise
        return StreamPlan(text, declined=_refusal(f"its planning failed: {summarize(error)}"))


def with_arguments(plan: StreamPlan, given: Given) -> StreamPlan:
    """Add the arguments of a query to its plan, whose reason then shows none of their values."""
    join = plan.join and replace(plan.join, given=given)
    declined = tuple(d._replace(reason=given.masked(d.reason)) for d in plan.declined)
    return replace(plan, given=given, declined=declined, join=join)
