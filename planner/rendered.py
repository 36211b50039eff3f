"""Nodes that render themselves: whatever is no clause of SQL and runs, says itself in Spark SQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

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


class Rendered(Node):
    """A node that says itself in Spark SQL: a relation in FROM, or a whole query block.

    ``adds_columns``: whether a ``*`` over it would show a column that the user has not written.
    """

    adds_columns: ClassVar[bool] = True

    @property
    def asks(self) -> str:
        """A hint for Spark that its SELECT shall have; nothing where it needs none."""
        return ""

    @property
    def sides(self) -> tuple[Node, ...]:
        """The inputs whose text it needs."""
        return self.children

    def stars(self, of: Callable[[Node], list[str]]) -> list[str]:
        """The relations that ``*`` shows, as ``of`` tells them of an input."""
        return [name for side in self.sides for name in of(side)]

    def render(self, sides: tuple[str, ...], names: Names, conjunction: Callable[[tuple[Scalar, ...]], str]) -> str:
        """Return the text of it.  ``sides``: the text of each input, in parentheses where it is a join."""
        raise NotImplementedError
