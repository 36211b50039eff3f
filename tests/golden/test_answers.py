"""Every golden plan that rewrites is also run: the same rows and the same schema as the statement as written."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dovetail.executor.connectors.memory import MemorySource
from dovetail.golden_plans.approval import approved_as_written
from dovetail.golden_plans.case import read_case
from dovetail.golden_plans.planned import catalog_of, plan_case
from dovetail.optimizer.planning.plan import Plan
from dovetail.planner.offline_catalog.catalog import CatalogFile
from dovetail.planner.sql.lookup_views import lookups_of
from dovetail.planner.sql.lookup_views import query_of as query_of_plan
from execution import DEFAULT, INTERPRETED, execution_of
from golden_sessions import ARGUMENTS, golden_sessions, plain_lookups, with_plain_lookups

SHIPPED = Path(__file__).parents[2] / "golden_plans" / "cases"
WITHOUT_ROWS = {"band/distance_empty"}
SPARK_REFUSES = {
    "expressions/refused_function_of_a_user",
    "lookup/time_travel",
    "lookup/versions_at_a_constant",
    "refused/ambiguous_column",
    "refused/ambiguous_column_in_where",
    "refused/asof_join",
    "refused/two_statements",
    "refused/unclosed_bracket",
    "refused/unclosed_string",
    "refused/unknown_column",
    "refused/unknown_in_a_case_sensitive_session",
    "refused/unknown_table",
    "refused/unknown_table_without_qualifier",
    "self/another_version",
    "self/one_version",
    "subqueries/exists_with_nested_correlation",
    "subqueries/lateral_at_random",
}
# Spark has no plan for versions to compare with: these are counted by hand; None where the answer hangs on the clock.
BY_HAND: dict[str, list[tuple[Any, ...]] | None] = {
    "lookup/versions": [(1, "9.500000"), (2, "9.100000"), (2, "9.200000")],
    "lookup/versions_left": [
        (1, None, None, None),
        (2, "USD", "2026-01-10 00:00:00", "0.9100"),
        (2, "USD", "2026-01-15 00:00:00", "0.9200"),
        (3, None, None, None),
        (5, None, None, None),
        (7, None, None, None),
    ],
    "lookup/versions_star": [
        (1, "9.50", "EUR", "2026-01-01 10:01:00", "EUR", "2026-01-01 00:00:00", "1.0000"),
        (2, "10.00", "USD", "2026-01-10 00:00:00", "USD", "2026-01-10 00:00:00", "0.9100"),
        (2, "10.00", "USD", "2026-01-20 00:00:00", "USD", "2026-01-15 00:00:00", "0.9200"),
    ],
    "lookup/versions_of_an_expression": [(2, "0.9000"), (2, "0.9200")],
    "lookup/versions_now": None,
    "lookup/versions_and_lookup": [
        (1, "DE", "1.0000"),
        (2, "DE", "0.9100"),
        (2, "DE", "0.9200"),
        (3, "DE", None),
        (5, None, None),
    ],
    "lookup/versions_as_of": [(1, "1.0000"), (2, "0.9100"), (2, "0.9200"), (3, None), (5, None), (7, None)],
    "lookup/versions_as_of_and_more": [(1, "1.0000")],
    "nearest/asof_elsewhere": [
        *((1, "1.00"), (2, "2.00"), (3, "1.00"), (4, "8.00")),
        *((5, None), (6, None), (7, None)),
    ],
    "nearest/nearest_by_elsewhere": [(1, 0), (1, 1), (3, None)],
    "streams/version_and_another_stream": [(1, "1.0000"), (2, "0.9100")],
    "streams/version_at_a_payment": [(1, "9.500000"), (2, "0.910000"), (5, "3.600000")],
    "streams/version_at_another_time": [(1, "1.0000")],
    "streams/version_at_no_watermark": [(1, "0.9100"), (2, "1.0000")],
    "streams/version_below_an_aggregate": [("EUR", "9.500000"), ("USD", "4.510000")],
    "streams/version_or_nothing": [
        (2, "USD", "1.00", "2026-01-01 12:00:10", None, None, None),
        (3, None, "2.00", "2026-01-01 12:00:11", None, None, None),
        (4, "USD", "3.00", None, None, None, None),
        (5, "USD", "4.00", "2026-01-01 12:00:03", "USD", "2026-01-01 00:00:00", "0.9000"),
    ],
    "streams/version_without_a_watermark": [(1, "0.1000"), (2, "0.2000"), (5, "0.2000")],
}
QUERIES = ("SELECT", "(SELECT", "WITH", "VALUES", "FROM", "TABLE")


CASES = [read_case(path) for path in sorted(SHIPPED.rglob("*.plan"))]
REWRITTEN = [c for c in CASES if c.approved and not approved_as_written(c)]
AS_WRITTEN = [
    pytest.param(c, id=c.name)
    for c in CASES
    if approved_as_written(c) and not c.values("error") and c.sql.startswith(QUERIES) and "INSERT" not in c.sql
]


@pytest.fixture(scope="module")
def session_for(spark: SparkSession) -> Any:
    """A session for each catalog file, with its settings, and its tables as views."""
    yield from golden_sessions(spark)


def looked_up(session: Any, catalog: CatalogFile, plan: Plan) -> Any:
    """The rows of a plan with lookups, fetched from memory."""
    from dovetail.executor.lookup.views import Lookups, run_with_lookups

    sources = {
        ".".join(t.name): MemorySource(session.sql(query).toArrow(), [k.columns for k in t.keys])
        for t, query in zip(catalog.lookups, plain_lookups(catalog).values(), strict=True)
    }
    assert plan.physical is not None
    return run_with_lookups(session, query_of_plan(plan.physical), Lookups(sources))


@pytest.mark.parametrize("execution", [DEFAULT, INTERPRETED])
@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in REWRITTEN if c.name not in BY_HAND])
def test_the_rewriting_returns_what_the_statement_returns(session_for: Any, case: Any, execution: Any) -> None:
    session, args, catalog, plan = (
        session_for(case, execution),
        ARGUMENTS.get(case.name),
        catalog_of(case),
        plan_case(case),
    )
    if lookups_of(plan.physical):
        before = session.sql(with_plain_lookups(catalog, plan), args=args)
        after = looked_up(session, catalog, plan)
    else:
        before = session.sql(plan.query, args=args)
        after = session.sql(plan.rewritten_query, args=args)
    assert after.schema == before.schema
    wanted, found = (Counter(map(repr, frame.collect())) for frame in (before, after))
    assert found == wanted
    assert bool(wanted) != (case.name in WITHOUT_ROWS), "a case without rows proves little"


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in REWRITTEN if c.name in BY_HAND])
def test_versions_are_those_of_their_time(session_for: Any, case: Any) -> None:
    rows = looked_up(session_for(case, execution_of(case.name)), catalog_of(case), plan_case(case)).collect()
    found = Counter(tuple(None if v is None else v if isinstance(v, int) else str(v) for v in row) for row in rows)
    wanted = BY_HAND[case.name]
    assert wanted is None or found == Counter(wanted)


@pytest.mark.parametrize("case", AS_WRITTEN)
def test_spark_takes_what_runs_as_written(session_for: Any, case: Any) -> None:
    from pyspark.errors import PySparkException

    try:
        _ = session_for(case, DEFAULT).sql(case.sql.removesuffix(";"), args=ARGUMENTS.get(case.name)).schema
    except PySparkException:
        taken = False
    else:
        taken = True
    assert taken != (case.name in SPARK_REFUSES)
