"""The tables that a relation is written over."""

from __future__ import annotations

from collections.abc import Mapping

from planner.logical import Cte, Opaque, Scan
from planner.tree import Node


def tables(relation: Node, definitions: Mapping[str, Cte]) -> frozenset[str]:
    """What a relation is written over, WITH names looked into, to tell cheaply that two are not the same source."""
    found: set[str] = set()
    inside: dict[str, None] = {}
    waiting = [relation]
    while waiting:
        for node in waiting.pop().walk():
            if isinstance(node, Opaque):
                found.add(node.text.shown)
            elif isinstance(node, Scan) and node.cte in definitions:
                if node.cte not in inside:
                    waiting.append(definitions[node.cte].query)
                inside[node.cte] = None
            elif isinstance(node, Scan):
                found.add(node.name[-1].lower())
    return frozenset(found)
