"""Operators that render themselves as a relation in FROM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from planner.expr import Scalar
from planner.tree import Node


class Names:
    """Names for what a rewriting adds; unique in a statement, and no user's."""

    def __init__(self) -> None:
        self._made = 0

    def new(self, column: str) -> tuple[str, str]:
        """Return a relation's name and its one column's, neither given before.

        Unqualified names and NATURAL see the column, so it must be no user's either.
        """
        self._made += 1
        return f"__dt{self._made}", f"__dt{self._made}_{column}"


@runtime_checkable
class Rendered(Protocol):
    """A physical operator over relations that Spark SQL can express."""

    kind: str

    @property
    def asks(self) -> str:
        """A hint for Spark that its SELECT shall have; nothing where it needs none."""
        ...

    @property
    def sides(self) -> tuple[Node, ...]:
        """Its inputs, in the order in which ``*`` shows their columns."""
        ...

    def render(self, sides: tuple[str, ...], names: Names, conjunction: Callable[[tuple[Scalar, ...]], str]) -> str:
        """Return the text of a relation.  ``sides``: the text of each input, in parentheses where it is a join."""
        ...
