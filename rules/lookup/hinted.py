"""Finds the lookups of a SELECT that a hint can name."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.planner.expr import Scalar
from dovetail.planner.logical.lookup import LookupJoin
from dovetail.planner.tree import Node
from dovetail.rules.query.hinted import hintable_names, is_named, looks_through, relation_name


def lookups_in(tree: Node) -> list[LookupJoin]:
    """The lookup joins of one SELECT, from left to right."""
    return list(_lookups(tree))


def _lookups(node: Node) -> Iterator[LookupJoin]:
    if not looks_through(node):
        return
    for child in node.children:
        yield from _lookups(child)
    if isinstance(node, LookupJoin):
        yield node


def named(name: tuple[str, ...], lookups: list[LookupJoin]) -> list[int]:
    """The lookups of that alias; without any, those of that table."""
    if not name:
        return []
    aliased = [n for n, j in enumerate(lookups) if is_named((j.scan.alias or "",), name)]
    return aliased or [n for n, j in enumerate(lookups) if is_named(j.scan.name, name)]


def is_lookup(argument: Scalar, lookups: list[LookupJoin]) -> bool:
    """Whether an argument of a hint names a table that is looked up."""
    return bool(named(relation_name(argument), lookups))


def left_of(argument: Scalar, lookups: list[LookupJoin]) -> bool:
    """Whether it names the relation that is all of the left side of a lookup join, and of no lookup."""
    name = relation_name(argument)
    for join in lookups:
        own = list(hintable_names(join.left))
        if name and len(own) == 1 and is_named(own[0], name):
            return True
    return False
