"""Verification: runs the original statement and its rewriting; Spark compares their rows as multisets."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

from dovetail.optimizer.planning.plan import Plan
from dovetail.optimizer.planning.validation import schema_difference
from dovetail.optimizer.row_differences import RowDifference, explain_floats, pair_rows
from dovetail.optimizer.verification import Verification
from dovetail.optimizer.verify.sample import Sample, sampled
from dovetail.planner.bind.names import Resolver
from dovetail.planner.catalog.declared import LookupTable
from dovetail.planner.errors import OptionError, QueryError, Unsupported
from dovetail.planner.explain.measured import MeasuredRuns
from dovetail.planner.expr import Scalar, quote
from dovetail.planner.expr.functions import VOLATILE
from dovetail.planner.expr.tokens import called
from dovetail.planner.logical import Cte, Project, Scan
from dovetail.planner.logical.nearest_join import NearestJoin
from dovetail.planner.logical.nearest_syntax import AsofJoin
from dovetail.planner.physical.lookup_join import LookupJoin
from dovetail.planner.sql.lookup_views import lookups_of, query_of, with_tables
from dovetail.planner.sql.reader import not_a_query
from dovetail.planner.sql.to_sql import for_spark, to_sql
from dovetail.rules.query.lost_order import lost_orders, with_kept_orders

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dovetail.executor.catalog.spark_catalog import SparkCatalog

_LONGEST = 315_360_000  # seconds
_READ = 200  # rows that differ, among which the first are shown beside their counterparts


@dataclass(frozen=True)
class Checks:
    """How to verify: the time limit in seconds, the part or the number of rows to sample, whether to measure.

    ``progress`` is called with a text before each step.  Raises ``OptionError`` for values that no run can have.
    """

    timeout: float | None = None
    sample: float | None = None
    limit: int | None = None
    measure: bool = False
    progress: Callable[[str], object] = lambda text: None

    def __post_init__(self) -> None:
        if self.timeout is not None and not 0 < self.timeout <= _LONGEST:
            raise OptionError(
                f"timeout={self.timeout:g} is no time limit; give seconds above 0, up to {_LONGEST:,} (ten years), or "
                "leave it out for no limit"
            )
        if self.sample is not None and not 0 < self.sample <= 1:
            raise OptionError(
                f"sample={self.sample} is no part of the rows; give a number above 0, up to 1, such as 0.01"
            )
        if self.limit is not None and self.limit < 1:
            raise OptionError(f"limit={self.limit} leaves no row; give the number of rows that are to be read")
        if self.sample is not None and self.limit is not None:
            raise OptionError("sample and limit both say how many rows are read; give one of them")


def verify(session: SparkSession, plan: Plan, checks: Checks | None = None) -> Verification:
    """Run the original and the rewriting of ``plan``, and compare columns and values; few rows come to the driver.

    A query without a rewriting is analyzed but not run.  A nondeterministic query may differ from itself.  Raises what
    Spark raises, and ``QueryError`` if there is nothing to compare with or to sample.
    """
    from dovetail.executor.session.batch import run
    from dovetail.executor.session.time_limit import TimeIsUp, time_limit

    checks = checks or Checks()
    if not plan.rewritten:
        if not not_a_query(plan.text) and not plan.required:
            _ = run(session, plan.text, plan.given).schema  # analysis raises Spark's own error
        return Verification(True, 0, 0, 0, False)
    try:
        with time_limit(session, checks.timeout):
            if plan.required:
                return _verify_lookups(session, plan, checks)
            return _verify_rewriting(session, plan, checks)
    except TimeIsUp:
        stopped = f"stopped after {checks.timeout:g} s; give a longer timeout, or a sample of the rows"
        return Verification(False, 0, 0, 0, True, stopped=stopped)


def _verify_rewriting(session: SparkSession, plan: Plan, checks: Checks) -> Verification:
    """Only the query of an INSERT or CREATE is compared: nothing is written."""
    from dovetail.executor.session.batch import run

    is_sampled = checks.sample is not None or checks.limit is not None
    with sampled(session, plan, checks.sample, checks.limit) if is_sampled else nullcontext() as sample:
        if sample is None:
            texts = plan.query, plan.rewritten_query
        else:
            assert plan.physical is not None
            trees = sample.substitute(query_of(plan.logical)), sample.substitute(query_of(plan.physical))  # type: ignore[arg-type]
            texts = to_sql(trees[0]), for_spark(to_sql(trees[1]))
        original = run(session, texts[0], plan.arguments if sample else plan.given)
        rewriting = run(session, texts[1], plan.arguments)
        found = _compare(original, rewriting, checks)
        if not found.same and not found.schema:
            found = explain_difference(session, plan, found, rewriting, sample)
        return replace(found, sample=sample.shown if sample else "")


def _compare(original: DataFrame, rewriting: DataFrame, checks: Checks) -> Verification:
    from dovetail.executor.catalog.measured_run import measure
    from dovetail.executor.session.compare import compare, differences, digest

    if difference := schema_difference(original.schema, rewriting.schema):
        return Verification(False, 0, 0, 0, True, difference)
    digests, seconds = [], []
    for frame, way in ((original, "as written"), (rewriting, "rewritten")):
        checks.progress(f"running the statement {way}")
        start = perf_counter()
        digests.append(digest(frame))
        seconds.append(perf_counter() - start)
    if digests[0] is not None and digests[0] == digests[1]:
        rows, missing, extra = digests[0][0], 0, 0
    else:
        checks.progress("comparing the rows one by one")
        rows, missing, extra = compare(original, rewriting)
    same = not missing and not extra
    pairs: tuple[RowDifference, ...] = ()
    if not same:
        one_sided = differences(original, rewriting, _READ)
        pairs = pair_rows(*([d.row for d in one_sided if (d.more > 0) is written] for written in (True, False)))
    if checks.measure:
        checks.progress("measuring both ways")
    return Verification(
        same,
        rows,
        missing,
        extra,
        True,
        runs=MeasuredRuns(measure(original), measure(rewriting)) if checks.measure else None,
        columns=tuple(original.columns),
        differences=pairs,
        seconds=(seconds[0], seconds[1]) if digests[0] is not None else None,
    )


def _verify_lookups(session: SparkSession, plan: Plan, checks: Checks) -> Verification:
    """Compare a plan with lookups with the same joins over complete scans of the tables.

    Raises ``QueryError`` for a table that cannot be scanned, and for tables with versions, which Spark cannot join.
    """
    from dovetail.executor.lookup.views import run_with_lookups, whole_tables
    from dovetail.executor.session.batch import run

    assert plan.logical is not None
    assert plan.physical is not None
    joins = lookups_of(plan.physical)
    names = {j.spec.table for j in joins}
    if unread := sorted(n for n in names if not plan.sources[n].can_scan_split):
        raise QueryError(
            f"{unread[0]} can only be fetched by key, because its source has no scan_split, and verify compares with a "
            "scan. Give the source scan_split, or verify with a MemorySource of the same rows"
        )
    if any(isinstance(n, AsofJoin) for n in plan.logical.walk()):
        raise QueryError(
            "Spark 4.3 runs ASOF JOIN as written only where spark.sql.join.asofJoin.enabled is true; set it, and "
            "verify has rows to compare with"
        )
    if any(n.required and not isinstance(n, LookupJoin) for n in plan.physical.walk()):
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
        looked_up = run_with_lookups(session, query_of(plan.physical), plan.lookups, plan.arguments)
        return _compare(original, looked_up, checks)


_LOST = (
    "as written, Spark returns {:,} other rows: it loses the ORDER BY of a subquery with LIMIT, whose column is not in "
    "the SELECT list; with that column in the list it returns the rows of the rewriting (docs/where-spark-is-wrong.md)"
)


def explain_difference(
    session: SparkSession, plan: Plan, found: Verification, rewriting: DataFrame, sample: Sample | None
) -> Verification:
    """Add what may explain a difference; the rows are the same if Spark's own answer is wrong."""
    from dovetail.executor.catalog.spark_catalog import SparkCatalog

    catalog = SparkCatalog(session, plan.arguments)
    if wrong := _rows_in_order(session, plan, rewriting, sample, catalog):
        return replace(found, same=True, rows=wrong, missing=0, extra=0, explanations=(_LOST.format(found.missing),))
    floats = frozenset(n for n, f in enumerate(rewriting.schema) if f.dataType.typeName() in ("float", "double"))
    volatile = sorted(called(plan.text) & VOLATILE)
    explanations = [
        *explain_floats(found.differences, floats),
        *(f"{name.lower()}() may have another value each time" for name in volatile),
        *_tied(session, plan, catalog),
    ]
    return replace(found, explanations=tuple(explanations))


def _rows_in_order(
    session: SparkSession, plan: Plan, rewriting: DataFrame, sample: Sample | None, catalog: SparkCatalog
) -> int:
    """The number of rows, if the rewriting returns those of the statement with the order that Spark loses; else 0."""
    from dovetail.executor.session.batch import run
    from dovetail.executor.session.compare import compare

    query = query_of(plan.logical)  # type: ignore[arg-type]
    lost = lost_orders(query, Resolver(catalog, {}))  # type: ignore[arg-type]
    kept = with_kept_orders(query, lost) if lost else None  # type: ignore[arg-type]
    if kept is None:
        return 0
    text = to_sql(sample.substitute(kept) if sample else kept)
    rows, missing, extra = compare(run(session, text, plan.arguments), rewriting)
    return 0 if missing or extra else rows


def _tied(session: SparkSession, plan: Plan, catalog: SparkCatalog) -> list[str]:
    """Where nearest rows tie: any of them is right."""
    from dovetail.executor.session.batch import run

    found = []
    definitions = {n.key: n for n in plan.optimized.walk() if isinstance(n, Cte)} if plan.optimized else {}
    for join in plan.optimized.walk() if plan.optimized else ():
        if not isinstance(join, NearestJoin):
            continue
        near = join.nearest
        values = [*(key.right for key in near.keys), near.times[1], *(tie.text for tie in near.ties)]
        items = tuple(Scalar(f"{value} AS c{number}") for number, value in enumerate(values))
        try:
            query = Resolver(catalog, definitions).standalone_query(Project(join.right, items))
        except Unsupported:
            continue
        text = f"SELECT count(*) FROM (SELECT * FROM (\n{query}\n) GROUP BY ALL HAVING count(*) > 1)"
        if times := run(session, text, plan.arguments).collect()[0][0]:
            found.append(f"{times:,} values of {near.times[1]} are in several rows, any of which may be the nearest")
    return found
