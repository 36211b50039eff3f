"""Verification: runs the original statement and its rewriting; Spark compares their rows as multisets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.lookups import is_rewriting_required
from optimizer.plan import Plan
from optimizer.validation import schema_difference
from optimizer.verification import Verification
from planner.catalog.declared import LookupTable
from planner.errors import QueryError
from planner.explain.measured import MeasuredRuns
from planner.expr import quote
from planner.logical import Scan
from planner.physical.fetched_view import FetchedView
from planner.sql.lookup_views import lookups_of, query_of, with_tables
from planner.sql.reader import not_a_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def verify(session: SparkSession, plan: Plan, *, measure: bool = False) -> Verification:
    """Run the original and the rewriting of ``plan``, and compare columns and values; collects no row to the driver.

    ``measure``: run each way once more, and measure it.  A query without a rewriting is analyzed but not run.  A
    nondeterministic query may differ from itself.  Raises what Spark raises.
    """
    from planner.runtime.batch import run

    if not plan.rewritten:
        if not not_a_query(plan.text) and not is_rewriting_required(plan):
            _ = run(session, plan.text, plan.given).schema  # analysis raises Spark's own error
        return Verification(True, 0, 0, 0, False)
    if is_rewriting_required(plan):
        return _verify_lookups(session, plan, measure=measure)
    # only the query of an INSERT or CREATE is compared: nothing is written
    original, rewriting = run(session, plan.query, plan.given), run(session, plan.rewritten_query, plan.arguments)
    return _compare(original, rewriting, measured=measure)


def _compare(original: DataFrame, rewriting: DataFrame, *, measured: bool) -> Verification:
    from planner.runtime.compare import compare
    from planner.runtime.measured_run import measure

    if difference := schema_difference(original.schema, rewriting.schema):
        return Verification(False, 0, 0, 0, True, difference)
    rows, missing, extra = compare(original, rewriting)
    runs = MeasuredRuns(measure(original), measure(rewriting)) if measured else None
    return Verification(not missing and not extra, rows, missing, extra, True, runs=runs)


def _verify_lookups(session: SparkSession, plan: Plan, *, measure: bool) -> Verification:
    """Compare a plan with lookups with the same joins over complete scans of the tables.

    Raises ``QueryError`` for a table that cannot be scanned, and for tables with versions, which Spark cannot join.
    """
    from planner.runtime.batch import run
    from planner.runtime.lookup.views import run_with_lookups, whole_tables

    assert plan.logical is not None
    assert plan.physical is not None
    joins = lookups_of(plan.physical)
    names = {j.spec.table for j in joins}
    if unread := sorted(n for n in names if not plan.sources[n].can_scan_split):
        raise QueryError(
            f"{unread[0]} can only be fetched by key, because its source has no scan_split, and verify compares with a "
            "scan. Give the source scan_split, or verify with a MemorySource of the same rows"
        )
    if any(n.required and not isinstance(n, FetchedView) for n in plan.physical.walk()):
        raise QueryError(
            "Spark cannot run a join with versions as written, so verify has no rows to compare with. Compare the "
            "result with rows that you know"
        )
    with whole_tables(session, {n: plan.sources[n] for n in names}) as tables:

        def lookup(scan: Scan) -> LookupTable | None:
            name = ".".join(map(quote, scan.name)).lower()
            found = next((n for n in names if n.lower() == name), None)
            return LookupTable(found, ()) if found and scan.as_of else None

        original = run(session, with_tables(plan.logical, tables, lookup), plan.arguments)
        looked_up = run_with_lookups(session, query_of(plan.physical), plan.sources, plan.arguments, plan.fetched)
        return _compare(original, looked_up, measured=measure)
