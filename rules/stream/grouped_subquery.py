"""Finds subqueries whose rows change as more rows arrive: GROUP BY, DISTINCT, aggregates, window functions."""

from __future__ import annotations

from sqlglot import exp

from dovetail.planner.expr.aggregate_calls import aggregates_rows
from dovetail.planner.logical import Cte, Logical
from dovetail.planner.logical.relations import Derived
from dovetail.rules.query.query_block import QueryBlock, read_block


def grouped_subquery(query: Logical) -> str:
    """Describe the first subquery in FROM or WITH that groups rows, and how; empty if there is none."""
    for node in query.walk():
        block = read_block(node.query) if isinstance(node, Derived | Cte) else None
        if block and (what := _of_many_rows(block)):
            name = node.name if isinstance(node, Cte) else node.alias  # type: ignore[attr-defined]
            return f"the subquery {name or 'without a name'} has {what}"
    return ""


def _of_many_rows(block: QueryBlock) -> str:
    if block.aggregate:
        return "GROUP BY"
    if block.project.quantifier.upper() == "DISTINCT":
        return "DISTINCT"
    if any(item.known and item.known.find(exp.Window) for item in block.project.items):
        return "a window function"
    return "an aggregate" if any(map(aggregates_rows, block.project.items)) else ""
