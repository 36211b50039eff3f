"""Plans the SQL text of an execution with a catalog, where the log has the text."""

from __future__ import annotations

from optimizer.advise.event_log.verdicts import Verdict
from optimizer.planning import plan_sql
from planner.catalog import Catalog
from planner.errors import DovetailError


def judge_statement(sql: str, catalog: Catalog) -> Verdict | None:
    """Judge a statement by its plan; None where the catalog lacks a table or the plan says nothing."""
    try:
        plan = plan_sql(sql, catalog)
    except DovetailError:
        return None
    if plan.rewritten:
        return Verdict("yes", ", ".join(plan.rules), "Planned with the catalog.")
    if plan.declined:
        return Verdict("no", "", f"Planned with the catalog: {plan.declined[0].reason}")
    return None
