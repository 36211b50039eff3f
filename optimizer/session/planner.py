"""Plans statements on a Spark session: caches plans, validates rewritings, falls back to the original text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from dovetail.optimizer.options import Options
from dovetail.optimizer.planning.driver import Stage
from dovetail.optimizer.planning.lookups import (
    has_possible_lookup,
    make_missing_time_error,
)
from dovetail.optimizer.planning.parameters import name_parameters
from dovetail.optimizer.planning.plan import Plan
from dovetail.optimizer.planning.statement import apply_strict_hints, plan_sql, warn_of_lost_orders
from dovetail.optimizer.planning.switches import find_switch
from dovetail.optimizer.session.plan_cache import PlanCache, is_worth_caching
from dovetail.optimizer.session.schema_validation import schema_difference_without_rows, validate_schema
from dovetail.optimizer.session.snapshot import Snapshot, take_snapshot
from dovetail.optimizer.statements.outcomes import Statements
from dovetail.optimizer.statements.single_table import find_single_table
from dovetail.planner.catalog import Numbers
from dovetail.planner.deadline import PLANNING, PlanningTimeout
from dovetail.planner.errors import QueryError, Refused, Unsupported, a, is_user_error, summarize
from dovetail.planner.explain.records import Declined
from dovetail.planner.sql.lookup_views import lookups_of
from dovetail.planner.sql.reader import not_a_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dovetail.executor.catalog.measurement_cache import MeasurementCache
    from dovetail.executor.catalog.spark_catalog import SparkCatalog
    from dovetail.executor.dataframes.statement import FramePart
    from dovetail.executor.session.settings import SessionSettings
    from dovetail.optimizer.session.declarations import Declarations


_SCALE = 1  # of all limits: tests on a busy machine plan to the end
_COLD = 6  # times planning_seconds until an optimizer has rewritten a statement: Python and the JVM load their code
_UNLIMITED = 86_400.0  # with strict, the speed of a machine decides nothing
_FRAME = "SELECT * FROM {frame}"  # the text of a DataFrame that cannot be written as SQL


@dataclass(frozen=True)
class _Request:
    """A statement to plan.  ``over_views``: its DataFrames are temporary views, so that its plan is not cached."""

    text: str
    args: Any = None
    stop_after: Stage = "lower"
    runs_later: bool = False
    over_views: bool = False


class SessionPlanner:
    """Plans statements on a session, with the user's options and declarations."""

    def __init__(self, session: SparkSession, options: Options, declarations: Declarations) -> None:
        self.session = session
        self.options = options
        self.declarations = declarations
        self._measured: MeasurementCache[tuple[Numbers, ...]] | None = None
        self._plans = PlanCache()
        self.statements = Statements(session, options)
        self._is_warm = False

    def plan(self, text: str, args: Any, stop_after: Stage, frames: Mapping[str, Any] | None = None) -> Plan:
        """Plan a statement that may run later: ``Plan.dataframe`` plans it again if anything changes until then."""
        args = dict(args) if isinstance(args, dict) else list(args) if isinstance(args, list) else args
        if frames:
            return self.statements.decide(self._plan_over_frames(text, args, frames, stop_after, runs_later=True))
        return self.statements.decide(
            self._guard(text, args, lambda known: self._plan(_Request(text, args, stop_after, runs_later=True), known))
        )

    def plan_to_run(
        self, text: str, args: Any, frames: Mapping[str, Any] | None = None, *, required: bool = False
    ) -> Plan:
        """Plan a statement that runs right away; ``required``: Spark may be unable to run it as written."""
        if not (frames or required) and (plain := self._plan_single_table(text, args)):
            return self.statements.decide(plain)
        plan = (
            self._plan_over_frames(text, args, frames, "lower", runs_later=False)
            if frames
            else self.plan_part(text, args)
        )
        return self.statements.decide(plan, required=required)

    def _plan_single_table(self, text: str, args: Any) -> Plan | None:
        """The plan of a statement over one table or none, which runs as written; None if it has to be planned."""
        from dovetail.executor.catalog.views import may_be_view
        from dovetail.executor.session.batch import classic

        start = perf_counter()
        table = None if self.declarations.tables or not classic(self.session) else find_single_table(text)
        if table is None or (table and may_be_view(self.session, table)):
            return None
        timings = {"total": perf_counter() - start}
        return Plan(text, None, (), stopped=True, timings=timings, arguments=args, given=args, session=self.session)

    def plan_part(self, text: str, args: Any = None) -> Plan:
        """Plan a statement of Dovetail's own, such as that of an epoch, which runs right away; it is not logged."""
        return self._guard(text, args, lambda known: self._plan(_Request(text, args), known))

    def plan_frame(self, frame: DataFrame, stop_after: Stage = "lower") -> Plan:
        """Plan a DataFrame.  A plan that is not rewritten runs as the DataFrame itself."""
        from dovetail.executor.dataframes.statement import FramePart

        if not hasattr(frame, "sparkSession"):
            raise TypeError(f"A DataFrame is needed, not {a(type(frame).__name__)}; opt.sql() and opt.plan() take SQL")

        def plan_statement(known: SessionSettings) -> Plan:
            part = FramePart(self.session, frame)
            first = plan = self._plan_part_of_frame(part, stop_after, known)
            while plan.logical is None:
                try:
                    below = part.below()
                except Refused as refused:
                    return first if plan is first else self._as_written(_FRAME, refused.reason)
                if below is None:
                    break
                part, plan = below, self._plan_part_of_frame(below, stop_after, known)
            if plan is first and not plan.rewritten:
                return first
            if not plan.rewritten:  # the last part that was written has the reason that decides
                return replace(first, declined=(*(plan.declined if plan.logical else ()), *first.declined))
            declined = plan.declined if plan is first else (*first.declined, *plan.declined)
            return replace(
                plan, declined=declined, frame=None, original=frame, current=lambda _: self.plan_frame(frame)
            )

        plan = self.statements.decide(self._guard(_FRAME, None, plan_statement))
        return plan if plan.rewritten else replace(plan, frame=frame, current=None, around=None)

    def _plan_part_of_frame(self, part: FramePart, stop_after: Stage, known: SessionSettings) -> Plan:
        """Plan the part of a DataFrame that is written as a statement; a plan without trees: it cannot be written."""
        found: Plan | None = None
        try:
            for written in part.ways():
                named = written.statement
                with named.views():
                    plan = self._plan(_Request(named.text, None, stop_after, over_views=True), known)
                    reason = written.find_difference() if plan.rewritten else plan.rejection
                plan = replace(plan, named=named, frame=None, above=part.put_above if part.above else None)
                if plan.rewritten and not reason:
                    return plan
                if reason:
                    plan = self._as_written(_FRAME, f"the DataFrame is not what its SQL would be: {reason}")
                found = found or plan
        except Refused as refused:
            found = found or self._as_written(_FRAME, refused.reason)
        assert found is not None
        return found

    def _as_written(self, text: str, reason: str) -> Plan:
        return Plan(text, None, (Declined("dataframe", reason),), stopped=True, session=self.session)

    def _plan_over_frames(
        self, text: str, args: Any, frames: Mapping[str, Any], stop_after: Stage, *, runs_later: bool
    ) -> Plan:
        """Plan a statement that names DataFrames and values in braces."""
        from dovetail.executor.session.named_frames import NamedFrames, name_frames

        def plan_over_views(known: SessionSettings) -> Plan:
            named = name_frames(self.session, text, frames)
            with named.views():
                plan = self._plan(_Request(named.text, args, stop_after, runs_later, over_views=True), known)
            current = None
            if runs_later and plan.rewritten:  # the views are gone by then
                current = partial(self._plan_frames_again, text=text, frames=frames)
            return replace(plan, named=named, frame=None, current=current)

        plan = self._guard(text, args, plan_over_views)
        return plan if plan.named else replace(plan, named=NamedFrames(text, frames, text, {}))

    def _plan_frames_again(self, plan: Plan, text: str, frames: Mapping[str, Any]) -> Plan:
        return self._plan_over_frames(text, plan.given, frames, "lower", runs_later=False)

    def _guard(self, text: str, args: Any, planning: Callable[[SessionSettings], Plan]) -> Plan:
        """Plan unless a switch is off, and catch any fault of the planning.

        The plan then runs the original text, with the switch or the fault in ``declined``.
        """
        from dovetail.executor.session.planning_jobs import planning_jobs
        from dovetail.executor.session.settings import SessionSettings
        from dovetail.executor.session.without_stderr import without_stderr

        start = perf_counter()
        given = {"arguments": args, "given": args, "session": self.session, "options": self.options}
        seconds = self.options.planning_seconds * _SCALE * (1 if self._is_warm else _COLD)
        seconds = _UNLIMITED if self.options.strict else seconds
        try:
            known = SessionSettings(self.session)
            if switch := find_switch(text, self.options, known):
                return Plan(text, None, (switch,), stopped=True, timings={"total": 0.0}, **given)
            with without_stderr(), planning_jobs(self.session, seconds):
                plan = planning(known)
            self._is_warm |= plan.rewritten
            _ = plan.warnings  # computed here, where a fault is caught
            return plan
        except (Exception, PlanningTimeout) as error:
            late = perf_counter() - start >= seconds  # Spark Connect raises an error of its own for a canceled call
            timed_out = isinstance(error, PlanningTimeout) or (late and not is_user_error(error))
            self._is_warm |= timed_out
            if not timed_out and (self.options.strict or is_user_error(error)):
                raise
            if has_possible_lookup(text, self.declarations.tables):
                raise QueryError(
                    f"The statement has a lookup, and its planning failed: {summarize(error)}. Spark cannot run a "
                    "lookup as written. Please report this with the statement"
                ) from error
            reason = f"planning failed, so the statement runs as written: {summarize(error)}"
            if timed_out:
                limit = f"{PLANNING * seconds:g} s"
                reason = f"planning took longer than {limit}, so the statement runs as written (planning_seconds)"
            declined = (Declined("planning time" if timed_out else "planning", reason),)
            timings = {"total": perf_counter() - start}
            return Plan(text, None, declined, stopped=True, timings=timings, **given)

    def _plan(self, request: _Request, known: SessionSettings) -> Plan:
        """Take a plan from the cache, or make one.

        A plan that runs right away has its DataFrame if Spark analyzed the statement during planning.  A plan that runs
        later has the error of Spark's analysis.
        """
        start = perf_counter()
        numbered, arguments = name_parameters(request.text, request.args)
        catalog = self.make_catalog(arguments, known)
        plan, snapshot = self._find_or_make(replace(request, text=numbered), catalog, is_named=numbered != request.text)
        if request.runs_later and not plan.rewritten and not plan.stopped:
            plan = replace(plan, rejection=_rejection(numbered, catalog))
        plan = replace(
            plan,
            text=request.text,
            given=request.args,
            arguments=arguments if plan.rewritten else request.args,
            session=self.session,
            timings={**plan.timings, "catalog": catalog.seconds, "total": perf_counter() - start},
            requests=catalog.requests,
        )
        if not request.runs_later or request.over_views:
            return plan
        current = partial(self._plan_current, snapshot=snapshot) if plan.rewritten else None
        return replace(plan, frame=None, current=current)

    def _find_or_make(
        self, request: _Request, catalog: SparkCatalog, *, is_named: bool
    ) -> tuple[Plan, Snapshot | None]:
        """The cached plan of a statement, or a new one, with its snapshot; ``is_named``: its parameters got names."""
        text, runs_later, start = request.text, request.runs_later and not request.over_views, perf_counter()
        declared = self.declarations.copy()
        is_cacheable = not request.over_views and request.stop_after == "lower" and not self.declarations.tables
        if is_cacheable and (known := self._plans.find(text, self.options, catalog, declared, runs_later=runs_later)):
            plan, snapshot = known
            return replace(plan, timings={}), snapshot
        plan, taken = self._make_plan(text, request.stop_after, catalog), None
        should_cache = (
            is_cacheable
            and (plan.rewritten or not is_named)
            and is_worth_caching(plan, perf_counter() - start)
            and (self._plans.note_planned(text, self.options) or (runs_later and plan.rewritten))
        )
        if should_cache or (runs_later and plan.rewritten):
            taken = take_snapshot(plan, catalog, declared)
        if should_cache:
            self._plans.add(text, self.options, plan, taken)
            if not plan.rewritten and isinstance(found := catalog.analyze(text), tuple):
                plan = replace(plan, frame=found[0])
        return plan, taken

    def _plan_current(self, plan: Plan, snapshot: Snapshot | None) -> Plan:
        """Return the plan if its snapshot is unchanged, else plan the statement again; the result runs right away."""

        def plan_current(known: SessionSettings) -> Plan:
            if snapshot is not None:
                frame = snapshot.unchanged(self.make_catalog(plan.arguments, known), self.declarations.copy())
                if frame is not None:
                    return replace(plan, frame=frame if snapshot.runs else None)
            return self._plan(_Request(plan.text, plan.given), known)

        return self._guard(plan.text, plan.given, plan_current)

    def make_catalog(self, arguments: Any, known: SessionSettings | None = None) -> SparkCatalog:
        """Create a catalog of the session and its declarations, for one statement."""
        from dovetail.executor.catalog.measurement_cache import MeasurementCache
        from dovetail.executor.catalog.spark_catalog import SparkCatalog

        if self._measured is None:
            self._measured = MeasurementCache()
        limit = self.options.one_task_bytes
        return SparkCatalog(self.session, arguments, self.declarations, self._measured, limit, known)

    def _make_plan(self, text: str, stop_after: Stage, catalog: SparkCatalog) -> Plan:
        """Plan a statement against the catalog and validate the rewriting.  Raises the error of the plan."""
        find_difference = partial(schema_difference_without_rows, catalog=catalog)
        plan = plan_sql(text, catalog, self.options, stop_after=stop_after, find_difference=find_difference)
        sources = self.declarations.sources
        if plan.error:
            raise plan.error
        if plan.rewritten and plan.required:
            from dovetail.executor.lookup.metrics import LookupMetrics

            joins = lookups_of(plan.physical)
            metrics = {j.spec.table: LookupMetrics(self.session) for j in joins}
            plan = replace(plan, sources=dict(sources), fetched=metrics)
            if not joins and not plan.statement and isinstance(found := catalog.analyze(plan.named_query), tuple):
                plan = replace(plan, frame=found[0])
        elif sources and plan.logical and (error := make_missing_time_error(plan.logical, catalog)):
            raise error
        elif plan.rewritten:
            plan = validate_schema(plan, catalog)
            if not plan.rewritten:
                warn_of_lost_orders(plan, catalog)
            plan = apply_strict_hints(plan, self.options)
            if plan.error:
                raise plan.error
        return plan


def _rejection(text: str, catalog: SparkCatalog) -> str:
    """Return Spark's error for a query; empty if Spark can analyze it, and for a command, which analysis would run."""
    try:
        if not_a_query(text):
            return ""
    except Unsupported:  # a text without tokens
        return ""
    found = catalog.analyze(text)
    return found if isinstance(found, str) else ""
