"""Relations of at most one row, by how they are written: ``(SELECT count(*) FROM t)``, ``(SELECT … LIMIT 1)``."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.planner.expr.aggregate_calls import aggregates_rows
from dovetail.planner.logical import (
    Aggregate,
    Cte,
    Derived,
    Filter,
    Join,
    Limit,
    Nested,
    OneRow,
    Project,
    Scan,
    Sort,
    With,
    Wrapped,
)
from dovetail.planner.tree import Node


def has_one_row(node: Node, definitions: Mapping[str, Cte]) -> bool:
    """Whether a relation or query returns at most one row: an aggregate without groups, LIMIT 1, no FROM."""
    match node:
        case Scan() if node.cte in definitions:
            return has_one_row(definitions[node.cte].query, definitions)
        case Derived():
            return has_one_row(node.query, definitions)
        case Limit():
            return node.count.text in ("0", "1") or has_one_row(node.child, definitions)
        case Join():
            return all(has_one_row(side, definitions) for side in node.children)
        case With() | Wrapped() | Sort() | Nested():
            return has_one_row(node.children[-1], definitions)
        case OneRow():
            return True
        case Project():
            below: Node = node.child
            while isinstance(below, Filter):
                below = below.child
            if isinstance(below, Aggregate):
                return False
            return isinstance(below, OneRow) or any(map(aggregates_rows, node.items))
    return False
