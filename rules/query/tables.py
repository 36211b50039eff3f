"""Collects the tables that a relation reads, also through WITH."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.planner.logical import Cte, Opaque, Scan
from dovetail.planner.tree import Node


def scans(relation: Node, definitions: Mapping[str, Cte]) -> list[Scan]:
    """The scans of a relation, those of names of WITH and those inside these among them."""
    found: dict[Scan, None] = {}
    waiting = [relation]
    while waiting:
        for scan in (n for n in waiting.pop().walk() if isinstance(n, Scan) and n not in found):
            found[scan] = None
            if scan.cte in definitions:
                waiting.append(definitions[scan.cte].query)
    return list(found)


def tables(relation: Node, definitions: Mapping[str, Cte]) -> frozenset[str]:
    """Collect the base tables of a relation, also through WITH: a cheap test that two have different sources."""
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
