"""SQL text -> Plan, against any catalog; no Spark needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

from optimizer.checks import agreement, reads_back
from optimizer.driver import STAGES, Stage, drive
from optimizer.lookups import Mention, all_planned, mentioned, not_planned, only_lookups, speaks_of_time, strictly
from optimizer.options import Options
from optimizer.plan import Declined, Plan
from planner.catalog import Catalog
from planner.catalog.settings import check_meaning
from planner.errors import OptionError, QueryError, RuleError, Unsupported, one_of
from planner.physical.base import Physical
from planner.sql.from_sql import from_sql
from planner.sql.lookup_columns import narrowed
from planner.sql.lookup_views import with_views, without_rows
from planner.sql.names import Resolver
from planner.sql.to_sql import for_spark, to_sql
from rules.rule import Rule


def plan_sql(
    text: str,
    catalog: Catalog,
    options: Options | None = None,
    *,
    stop_after: Stage = "lower",
    differs: Callable[[Plan], str | None] = lambda plan: None,
) -> Plan:
    """Plan a statement.

    ``stop_after``: the last stage to run (parse, normalize, recognize, lower).  ``differs``: in what the columns of a
    plan with lookups differ from those of its statement, where a session can tell.

    Whatever goes wrong, the result is a plan that runs the user's text as written, with the reason in ``declined``;
    with ``Options(strict=True)`` a rule's fault is raised as ``RuleError``.  A statement that Spark could not run
    either has an ``error``.  Raises ``OptionError`` for a stage that does not exist.
    """
    if stop_after not in STAGES:
        raise OptionError(f"there is no stage {stop_after!r}; {one_of(STAGES, str(stop_after))}")
    options = options or Options()
    plan = _over_streams(text, catalog, options, stop_after)
    try:
        mentions = mentioned(plan, catalog)
    except QueryError as error:
        return replace(plan, rewriting=None, error=error)
    whole = not mentions or all_planned(plan, mentions)
    reason = differs(plan) if whole and plan.rewritten and speaks_of_time(plan) else None
    if reason or not whole:
        plainer = _over_streams(text, catalog, only_lookups(options), stop_after)
        plan = _by_fewer_rules(plan, reason, mentions, plainer)
    return strictly(plan, options)


def plan_over_bins(text: str, catalog: Catalog, options: Options) -> Plan:
    """The plan of a statement over several streams, by the rules that may touch one.

    Spark's state of these streams depends on the plan: it holds only where that is kept beside the checkpoint.
    """
    return _planned(text, catalog, options, "lower", streams=1)


def _by_fewer_rules(plan: Plan, reason: str | None, mentions: list[Mention], plainer: Plan) -> Plan:
    """The plan by the rules for lookups alone, where what the others made of a statement cannot run.

    Spark cannot run the statement as written, so that it is an error where this plan does not look up all, either.
    """
    if mentions and not plainer.error and not all_planned(plainer, mentions):
        return replace(plan, rewriting=None, error=not_planned(plan, mentions))
    said = [Declined("schema check", f"{reason}; planned by the rules for lookups alone")] if reason else []
    return replace(plainer, declined=tuple(dict.fromkeys((*plan.declined, *said, *plainer.declined))))


def _over_streams(text: str, catalog: Catalog, options: Options, stop_after: Stage) -> Plan:
    """The plan by the rules that may touch a stream, where the statement reads one."""
    plan = _planned(text, catalog, options, stop_after)
    streams = _streams(plan, catalog)
    if not streams:
        return plan
    held = {why: Declined(r.name, why) for r in reversed(_fired(plan)) if (why := r.refused(streams))}
    on_streams = _planned(text, catalog, options, stop_after, streams)
    return replace(on_streams, declined=tuple(dict.fromkeys((*on_streams.declined, *held.values()))))


def _streams(plan: Plan, catalog: Catalog) -> int:
    """How many streams a rewritten statement reads: asked last, since most statements read none."""
    if plan.rewriting is None or plan.logical is None:
        return 0
    if not speaks_of_time(plan):
        return catalog.streams(query_of(plan))
    names = Resolver(catalog, {})
    return catalog.streams(
        without_rows(plan.logical, names.lookup, lambda name: catalog.declaration(name).versions is not None)
    )


def query_of(plan: Plan) -> str:
    """The query of a statement as written, without what stands before it."""
    return plan.text[len(plan.prefix) :].rstrip().rstrip(";")


def _fired(plan: Plan) -> list[Rule]:
    return list(dict.fromkeys(step.rule for step in plan.trace.steps))


def _planned(text: str, catalog: Catalog, options: Options, stop_after: Stage, streams: int = 0) -> Plan:
    start = perf_counter()
    timings: dict[str, float] = {}
    try:
        check_meaning(text, catalog.settings)
        logical, notes = from_sql(text, catalog.settings)
    except Unsupported as no:
        timings["parse"] = timings["total"] = perf_counter() - start
        return Plan(text, None, (Declined("from_sql", no.reason, no.place),), timings=timings)
    except Exception as error:  # our bug; whatever it is, it must not cost the user the query
        if options.strict:
            raise
        timings["parse"] = timings["total"] = perf_counter() - start
        reason = f"the reader failed, the query runs as written: {type(error).__name__}: {error}"
        return Plan(text, None, (Declined("from_sql", reason),), timings=timings)
    timings["parse"] = perf_counter() - start
    declined = [Declined("from_sql", n.reason, n.place) for n in notes]
    try:
        outcome = drive(logical, catalog, options, stop_after, streams)
    except QueryError as error:
        timings["total"] = perf_counter() - start
        return Plan(text, None, tuple(declined), logical=logical, optimized=logical, timings=timings, error=error)
    except RuleError as error:
        if options.strict:
            raise
        timings["total"] = perf_counter() - start
        declined.append(Declined("driver", f"a rule broke a promise, the query runs as written: {error}"))
        return Plan(text, None, tuple(declined), logical=logical, optimized=logical, timings=timings)
    timings["rules"] = perf_counter() - start - timings["parse"]
    declined += [Declined(r.rule, r.reason, r.place) for r in outcome.trace.refusals]
    rewriting = None
    physical: Physical | None = outcome.physical
    if physical is not None and any(n.rewritten for n in physical.walk()):
        physical = narrowed(with_views(physical), text)  # type: ignore[assignment]
        try:
            rewriting = for_spark(to_sql(physical))
            if not reads_back(logical, text):
                rewriting = None
                declined.append(Declined("from_sql", "the plan does not print back to the words it was read from"))
            elif found := agreement(logical, text, catalog.settings):
                declined.append(Declined("second_reading", found.reason))
                rewriting = None if found.differs else rewriting
        except Unsupported as no:
            declined.append(Declined("to_sql", no.reason, no.place))
    timings["total"] = perf_counter() - start
    return Plan(
        text,
        rewriting,
        tuple(declined),
        outcome.trace,
        outcome.logical,
        outcome.optimized,
        physical,
        outcome.choices,
        stopped=stop_after != STAGES[-1],
        timings=timings,
    )
