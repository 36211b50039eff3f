"""The base of logical nodes, and helpers for their lines in plans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from dovetail.planner.expr import Scalar, show_all
from dovetail.planner.tree import Node, values_of

T = TypeVar("T", bound=Node)


class Logical(Node):
    """The base of logical nodes."""

    @property
    def output(self) -> tuple[str, ...]:
        """The output columns: item texts above a Project, ``name.*`` below."""
        return tuple(name for child in self.children for name in child.output)  # type: ignore[attr-defined]


def expressions(node: Node) -> tuple[Scalar, ...]:
    """The expressions in the fields of a node, in field order."""
    return tuple(v for value in values_of(node).values() for v in _listed(value) if isinstance(v, Scalar))


def map_expressions(node: T, change: Callable[[Scalar], Scalar]) -> T:
    """A node with ``change`` applied to each of its expressions."""
    new: dict[str, Any] = {}
    for name, value in values_of(node).items():
        if any(isinstance(v, Scalar) for v in _listed(value)):
            changed = tuple(change(v) if isinstance(v, Scalar) else v for v in _listed(value))
            new[name] = changed if isinstance(value, tuple) else changed[0]
    return replace(node, **new) if new else node  # type: ignore[type-var]


def _listed(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def after(keyword: str, usual: str, text: str) -> str:
    """What follows a keyword; with the keyword, in small letters, where it is not the usual one."""
    words = " ".join(keyword.split())
    return text if words.upper() == usual else f"{words.lower()} {text}"


def conjunction(conjuncts: tuple[Scalar, ...]) -> str:
    """The conjuncts on one line."""
    return " AND ".join(show_all(conjuncts))
