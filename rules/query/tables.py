"""Collects the tables that a relation reads, also through WITH."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dovetail.planner.logical import Cte, Opaque, Scan
from dovetail.planner.tree import Node


def scans(relation: Node, definitions: Mapping[str, Cte]) -> list[Scan]:
    """The scans of a relation, those of names of WITH and those inside these among them."""
    return list(dict.fromkeys(node for node in _nodes(relation, definitions) if isinstance(node, Scan)))


def tables(relation: Node, definitions: Mapping[str, Cte]) -> frozenset[str]:
    """Collect the base tables of a relation, also through WITH: a cheap test that two have different sources."""
    return frozenset(
        node.text.shown if isinstance(node, Opaque) else node.name[-1].lower()
        for node in _nodes(relation, definitions)
        if isinstance(node, Opaque) or (isinstance(node, Scan) and node.cte not in definitions)
    )


def _nodes(relation: Node, definitions: Mapping[str, Cte]) -> Iterator[Node]:
    """The nodes of a relation, and of the definitions that it reads, once each."""
    waiting, inside = [relation], set[str]()
    while waiting:
        for node in waiting.pop().walk():
            yield node
            if isinstance(node, Scan) and node.cte in definitions and node.cte not in inside:
                inside.add(node.cte)
                waiting.append(definitions[node.cte].query)
