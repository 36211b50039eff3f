"""Reads the rows that ANALYZE TABLE counted: Spark uses them only with its cost-based optimizer, which is off."""

from __future__ import annotations

from typing import Any

_ONE_BY_ONE = ("Project", "Filter")  # operators that return at most the rows that they read


def counted_rows(plan: Any) -> int | None:
    """The rows of the one table that an optimized plan projects and filters; None if nobody counted them.

    Filters count as if they kept every row, as in Spark's estimate of bytes.
    """
    while plan.nodeName() in _ONE_BY_ONE:
        plan = plan.child()
    if not plan.nodeName().startswith("LogicalRelation"):
        return None
    table = plan.catalogTable()
    statistics = table.get().stats() if table.isDefined() else table
    rows = statistics.get().rowCount() if statistics.isDefined() else statistics
    return int(str(rows.get())) if rows.isDefined() else None
