"""Frozen nodes, identity-keeping transforms, a cached hash.

A node is a frozen dataclass.  Its *children* are the nodes in its fields; its *subplans* are the plans of the
subqueries inside its expressions (``x IN (SELECT …)``).  Nothing is ever edited: ``map_nodes`` builds a new node, or
returns the same object when nothing below it changed, so that ``is`` answers every question about progress.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from typing import Any, ClassVar, TypeVar

if sys.version_info >= (3, 11):
    from typing import dataclass_transform
else:
    from typing_extensions import dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def plan_node(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass that hashes once; its label is its name, unless it has another one."""
    if "label" not in cls.__dict__:
        cls.label = cls.__name__  # type: ignore[attr-defined]
    made = dataclass(frozen=True)(cls)
    slow_hash = made.__hash__

    def cached_hash(self: Any) -> int:
        known: int | None = self.__dict__.get("_hash")
        if known is None:
            known = slow_hash(self)
            self.__dict__["_hash"] = known
        return known

    made.__hash__ = cached_hash  # type: ignore[method-assign]
    return made


class Holder:
    """Something that is not a node but holds plans: an expression with subqueries in it."""

    @property
    def plans(self) -> tuple[Node, ...]:
        """The plans held, in the order in which they are written."""
        raise NotImplementedError

    def with_plans(self, plans: tuple[Node, ...]) -> Holder:
        """Return the same thing holding other plans."""
        raise NotImplementedError


class Node:
    """The base of logical and physical nodes.

    ``rewritten``: whether it replaces, in a physical plan, a part of the user's query.  Spark gets a rewriting only if
    a node of the physical plan has this flag, else the user's text; so a rule that only changes a condition or a normal
    form changes nothing by itself.  ``required``: whether the part that it replaces cannot run in Spark as written.
    """

    label: ClassVar[str] = ""
    rewritten: ClassVar[bool] = False
    required: ClassVar[bool] = False

    @classmethod
    def labels(cls) -> tuple[str, ...]:
        """The labels of such a node in plans."""
        label: object = cls.label  # a property of some nodes
        return (label,) if isinstance(label, str) and label else ()

    @property
    def detail(self) -> str:
        """The properties of this node, as one line."""
        return ""

    @property
    def notes(self) -> tuple[str, ...]:
        """Further lines for a reader; nothing volatile."""
        return ()

    @property
    def printed(self) -> Node | None:
        """The node that a statement prints instead of this one; None if it prints this one."""
        return None

    @cached_property
    def children(self) -> tuple[Node, ...]:
        """The nodes in the fields of this node, in field order."""
        return tuple(_in_fields(self, Node))

    @cached_property
    def subplans(self) -> tuple[Node, ...]:
        """The plans of the subqueries inside this node's expressions, in the order in which they are written."""
        return tuple(p for h in _in_fields(self, Holder) for p in h.plans)

    def map_nodes(self, fn: Callable[[Node], Node]) -> Node:
        """Return this node with ``fn`` applied to each child and subplan; itself if none changed."""
        if not self.children and not self.subplans:
            return self
        return _map_fields(self, lambda value: _map_value(value, fn))

    def walk(self) -> Iterator[Node]:
        """Yield this node and everything below it, parents first, subplans included."""
        waiting: list[Node] = [self]
        while waiting:  # without recursion, which would hand each node up through all levels above it
            node = waiting.pop()
            yield node
            waiting += (*node.children, *node.subplans)[::-1]


def unwrap(node: Node) -> Node:
    """Return the node that a statement prints for this one."""
    while (other := node.printed) is not None:
        node = other
    return node


def transform_up(node: Node, fn: Callable[[Node], Node]) -> Node:
    """Apply ``fn`` to every node, children before parents, subplans included."""
    return fn(node.map_nodes(lambda below: transform_up(below, fn)))


@cache
def _field_names(of: Any) -> tuple[str, ...]:
    return tuple(f.name for f in fields(of))


def values_of(record: Any) -> dict[str, Any]:
    """The values in the fields of a node, or of another dataclass, in field order."""
    return {name: getattr(record, name) for name in _field_names(type(record))}  # type: ignore[arg-type]


def _in_fields(node: Node, kind: type[T]) -> list[T]:
    """The values of a kind in the fields of a node, and in tuples there, in field order."""
    found = []
    for value in values_of(node).values():
        if isinstance(value, kind):
            found.append(value)
        elif isinstance(value, tuple):
            found += [x for x in value if isinstance(x, kind)]
    return found


def _map_value(value: Any, fn: Callable[[Node], Node]) -> Any:
    if isinstance(value, Node):
        return fn(value)
    if isinstance(value, Holder) and value.plans:
        new = tuple(fn(p) for p in value.plans)
        return value if all(a is b for a, b in zip(new, value.plans, strict=True)) else value.with_plans(new)
    if isinstance(value, tuple) and any(isinstance(x, Node | Holder) for x in value):
        items = tuple(_map_value(x, fn) for x in value)
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    return value


def _map_fields(node: Node, fn: Callable[[Any], Any]) -> Node:
    changed = {name: new for name, old in values_of(node).items() if (new := fn(old)) is not old}
    return replace(node, **changed) if changed else node  # type: ignore[type-var]
