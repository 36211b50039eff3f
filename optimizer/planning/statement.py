"""Plans SQL text against any catalog; needs no Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

from dovetail.optimizer.options import Options
from dovetail.optimizer.planning.driver import STAGES, Driver, Outcome, Stage
from dovetail.optimizer.planning.lookups import (
    LookupReference,
    find_lookup_references,
    has_all_lookups,
    make_unplanned_error,
    restrict_to_lookup_rules,
)
from dovetail.optimizer.planning.plan import Plan
from dovetail.optimizer.planning.switches import find_switch
from dovetail.optimizer.planning.unexplained_joins import explain_disabled_rules, explain_joins
from dovetail.optimizer.planning.validation import compare_readings, field_named_by_rewriting, has_same_tokens
from dovetail.planner.bind.names import Resolver
from dovetail.planner.catalog import Catalog, Settings
from dovetail.planner.catalog.settings import check_settings
from dovetail.planner.errors import HintError, OptionError, QueryError, RuleError, Unsupported, one_of
from dovetail.planner.explain.records import Declined, PlanWarning
from dovetail.planner.logical import Logical, Statement
from dovetail.planner.physical.base import Physical
from dovetail.planner.rendered import MARKS, find_generated_names
from dovetail.planner.sql.from_sql import from_sql
from dovetail.planner.sql.lookup_views import narrowed, with_views, without_rows
from dovetail.planner.sql.to_sql import for_spark, to_sql
from dovetail.planner.tree import unwrap
from dovetail.rules.query.lost_order import lost_orders
from dovetail.rules.rule import Rule

_VIEW = (
    "a view keeps its text, since its tables may be made anew with columns of other types; opt.sql rewrites each query "
    "that reads it"
)

_KEPT = "the rewriting picks the right row"
_LOST = "select {keys} in a subquery with the LIMIT, and the value from that, or use max_by or min_by"


def plan_sql(
    text: str,
    catalog: Catalog,
    options: Options | None = None,
    *,
    stop_after: Stage = "lower",
    find_difference: Callable[[Plan], str | None] = lambda plan: None,
) -> Plan:
    """Plan a statement.

    ``stop_after``: the last stage to run (parse, normalize, recognize, lower).  ``find_difference``: returns the
    difference between the schemas of a plan with lookups and of its statement, if a session can find one.

    If planning fails, the plan runs the original text, with the reason in ``declined``; ``Options(strict=True)`` raises
    the fault of a rule as ``RuleError`` instead.  A statement that Spark cannot run either gets an ``error``.  Raises
    ``OptionError`` for a stage that does not exist.
    """
    if stop_after not in STAGES:
        raise OptionError(f"there is no stage {stop_after!r}; {one_of(STAGES, str(stop_after))}")
    options = options or Options()
    if switch := find_switch(text, options):
        return Plan(text, None, (switch,), stopped=True, options=options)
    plan = _plan_with_stream_rules(text, catalog, options, stop_after)
    try:
        references = find_lookup_references(plan, catalog)
    except QueryError as error:
        return replace(plan, rewriting=None, error=error)
    complete = not references or has_all_lookups(plan, references)
    reason = find_difference(plan) if complete and plan.rewritten and plan.required else None
    if reason or not complete:
        fallback = _plan_with_stream_rules(text, catalog, restrict_to_lookup_rules(options), stop_after)
        plan = _fall_back_to_lookup_rules(plan, reason, references, fallback)
    warn_of_lost_orders(plan, catalog)
    return apply_strict_hints(_with_reason(replace(plan, options=options), options), options)


def apply_strict_hints(plan: Plan, options: Options) -> Plan:
    """Turn the warnings of a plan into its error if ``strict_hints`` is set."""
    if not options.strict_hints or plan.error or plan.stopped or not plan.warnings:
        return plan
    first, *more = plan.warnings
    reason = "; ".join([first.reason, *map(str, more)])
    return replace(plan, error=HintError(reason, first.place))


def warn_of_lost_orders(plan: Plan, catalog: Catalog) -> None:
    """Add a warning for each subquery of which Spark loses the order as it is written, instead of earlier ones."""
    if plan.logical is None or plan.error:
        return
    plan.trace.warnings = tuple(w for w in plan.trace.warnings if w.rule != "spark")
    for one in lost_orders(plan.logical, Resolver(catalog, {})):
        kept = plan.rewritten and plan.physical is not None and one.limit not in map(unwrap, plan.physical.walk())
        keys = ", ".join(key.shown for key in one.sort.keys)
        reason = (
            f"as written, Spark loses {one.sort.shown} of this subquery, since {keys} is not in its SELECT list, and "
            f"may pick another row; {_KEPT if kept else _LOST.format(keys=keys)}"
        )
        plan.trace.warnings = (*plan.trace.warnings, PlanWarning("spark", reason, one.sort.keys[0].place))


def _with_reason(plan: Plan, options: Options) -> Plan:
    """A plan with the reason why its joins are left to Spark, where no rule has given one, and with disabled rules."""
    if plan.rewritten or plan.stopped or plan.error or plan.logical is None:
        return plan
    reason = explain_disabled_rules(plan.logical, options.disabled_rules)
    if reason:
        return replace(plan, declined=(*plan.declined, reason))
    reason = None if plan.declined else explain_joins(plan.logical)
    return replace(plan, declined=(reason,)) if reason else plan


def plan_over_bins(text: str, catalog: Catalog, options: Options) -> Plan:
    """Plan a statement over several streams with the rules that are safe for one stream.

    Spark's state depends on this plan, so the plan must be stored next to the checkpoint.
    """
    return _plan_once(text, catalog, options, "lower", streams=1)


def _fall_back_to_lookup_rules(
    plan: Plan, reason: str | None, references: list[LookupReference], fallback: Plan
) -> Plan:
    """Replace a plan that cannot run with the plan by the lookup rules alone.

    Spark cannot run the original statement, so it is an error if this plan lacks a lookup, too.
    """
    if references and not fallback.error and not has_all_lookups(fallback, references):
        return replace(plan, rewriting=None, error=make_unplanned_error(plan, references))
    failed = [Declined("schema check", f"{reason}; planned by the rules for lookups alone")] if reason else []
    return replace(fallback, declined=tuple(dict.fromkeys((*plan.declined, *failed, *fallback.declined))))


def _plan_with_stream_rules(text: str, catalog: Catalog, options: Options, stop_after: Stage) -> Plan:
    """Plan a statement; if it reads streams, with only the rules that are safe for streams."""
    plan = _plan_once(text, catalog, options, stop_after)
    streams = _count_streams(plan, catalog)
    if not streams:
        return plan
    skipped = {why: Declined(r.name, why) for r in reversed(_fired_rules(plan)) if (why := r.refused(streams))}
    on_streams = _plan_once(text, catalog, options, stop_after, streams)
    return replace(on_streams, declined=tuple(dict.fromkeys((*on_streams.declined, *skipped.values()))))


def _count_streams(plan: Plan, catalog: Catalog) -> int:
    """Count the streams that a rewritten statement reads.  Runs last, because most statements read none."""
    if plan.rewriting is None or plan.logical is None:
        return 0
    if not plan.required:
        return catalog.streams(plan.query, plan.named_query)
    names = Resolver(catalog, {})
    return catalog.streams(
        without_rows(plan.logical, names.lookup, lambda name: catalog.declaration(name).versions is not None)
    )


def _fired_rules(plan: Plan) -> list[Rule]:
    return list(dict.fromkeys(step.rule for step in plan.trace.steps))


def _plan_once(text: str, catalog: Catalog, options: Options, stop_after: Stage, streams: int = 0) -> Plan:
    start = perf_counter()
    timings: dict[str, float] = {}
    try:
        check_settings(text, catalog.settings)
        logical, notes = from_sql(text, catalog.settings)
    except Unsupported as no:
        timings["parse"] = timings["total"] = perf_counter() - start
        return Plan(text, None, (Declined("from_sql", no.reason, no.place),), timings=timings)
    except Exception as error:  # a fault of ours must not fail the user's query
        if options.strict:
            raise
        timings["parse"] = timings["total"] = perf_counter() - start
        reason = f"the reader failed, the query runs as written: {type(error).__name__}: {error}"
        return Plan(text, None, (Declined("from_sql", reason),), timings=timings)
    timings["parse"] = perf_counter() - start
    declined = [Declined("from_sql", n.reason, n.place) for n in notes]
    try:
        outcome = Driver(catalog, options, streams).drive(logical, stop_after, text)
    except QueryError as error:
        timings["total"] = perf_counter() - start
        return Plan(text, None, tuple(declined), logical=logical, optimized=logical, timings=timings, error=error)
    except RuleError as error:
        if options.strict:
            raise
        timings["total"] = perf_counter() - start
        declined.append(Declined("driver", f"an internal check failed, so the query runs as written: {error}"))
        return Plan(text, None, tuple(declined), logical=logical, optimized=logical, timings=timings)
    timings["rules"] = perf_counter() - start - timings["parse"]
    declined += outcome.trace.declined
    physical, rewriting, why_not = _print(outcome, logical, text, catalog.settings)
    declined += why_not
    timings["total"] = perf_counter() - start
    return Plan(
        text,
        rewriting,
        tuple(declined),
        outcome.trace,
        outcome.logical,
        outcome.optimized,
        physical,
        outcome.decisions,
        stopped=stop_after != STAGES[-1],
        timings=timings,
    )


def _print(
    outcome: Outcome, logical: Logical, text: str, settings: Settings
) -> tuple[Physical | None, str | None, list[Declined]]:
    """The plan of a rewriting, its SQL, None if the statement runs as written, and the reasons for that."""
    physical: Physical | None = outcome.physical
    if physical is None or not any(n.rewritten for n in physical.walk()):
        return physical, None, []
    required = any(n.required for n in physical.walk())
    rewriting = None
    declined: list[Declined] = []
    try:
        if required:
            physical = narrowed(with_views(physical), text)  # type: ignore[assignment]
        rewriting = for_spark(to_sql(physical, outcome.reserved_names))
        if refusal := _check(rewriting, logical, text):
            rewriting = None
            declined.append(refusal)
        elif found := compare_readings(logical, text, settings):
            declined.append(Declined("second_reading", found.reason))
            rewriting = None if found.differs else rewriting
    except Unsupported as no:
        declined.append(Declined("to_sql", no.reason, no.place))
    is_view = isinstance(logical, Statement) and logical.is_view
    if rewriting is not None and is_view and not required:
        return physical, None, [*declined, Declined("views", _VIEW)]
    return physical, rewriting, declined


def _check(rewriting: str, logical: Logical, text: str) -> Declined | None:
    """Why a rewriting may mean something else than its statement; None if nothing is found."""
    if taken := next((n for n in sorted(find_generated_names(text)) if n.startswith(MARKS)), None):
        return Declined("to_sql", f"{taken} is a name that rewritings use; choose another one")
    if name := field_named_by_rewriting(rewriting):
        return Declined("to_sql", f"a struct would name a field {name}; give that field a name with AS")
    if not has_same_tokens(logical, text):
        return Declined("from_sql", "the plan does not print back to the tokens of the statement")
    return None
