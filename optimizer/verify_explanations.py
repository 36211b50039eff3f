"""What explains a difference between a statement and its rewriting, by questions to Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dovetail.optimizer.plan import Plan
from dovetail.optimizer.verification import Verification
from dovetail.optimizer.verify_differences import explain_floats
from dovetail.optimizer.verify_sample import Sample
from dovetail.planner.bind.names import Resolver
from dovetail.planner.errors import Unsupported
from dovetail.planner.expr import Scalar
from dovetail.planner.expr.functions import VOLATILE
from dovetail.planner.expr.tokens import called
from dovetail.planner.logical import Cte, Project
from dovetail.planner.logical.nearest_join import NearestJoin
from dovetail.planner.sql.lookup_views import query_of
from dovetail.planner.sql.to_sql import to_sql
from dovetail.rules.query.lost_order import lost_orders, with_kept_orders

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dovetail.executor.catalog.spark_catalog import SparkCatalog

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
