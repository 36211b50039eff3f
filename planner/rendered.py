"""Operators that render themselves as Spark SQL, and the names that rewritings add."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import ClassVar

from dovetail.planner.expr import Scalar
from dovetail.planner.tree import Node

PREFIX = "__dt"  # of all names that a rewriting adds
MARKS = ("__dt_total_", "__dt_host_", "__dt_call_", "__dt_literal_")  # placeholders of expressions while they are moved


class NameGenerator:
    """Generates names for relations and columns that a rewriting adds; unique in a statement, never a user's name.

    ``taken``: lower-case names with our prefix in the statement and in the columns of its tables.
    """

    def __init__(self, taken: Collection[str] = ()) -> None:
        self._made = 0
        self._taken = taken

    def new(self, column: str) -> tuple[str, str]:
        """Return a new name for a relation, and one for its single column.

        Unqualified names and NATURAL see the column, so it must not be a user's name either.
        """
        self._made = next_free_number(PREFIX, self._made, self._taken)
        return f"{PREFIX}{self._made}", f"{PREFIX}{self._made}_{column}"


def find_generated_names(text: str) -> frozenset[str]:
    """Find the names with the rewritings' prefix in a text, in lower case."""
    return frozenset(re.findall(rf"{PREFIX}\w*", text.lower())) if PREFIX in text.lower() else frozenset()


def next_free_number(prefix: str, made: int, taken: Collection[str]) -> int:
    """Return the next number such that no taken name begins with the prefix and the number."""
    made += 1
    while any(name.startswith(f"{prefix}{made}") for name in taken):
        made += 1
    return made


class Rendered(Node):
    """An operator that renders itself as Spark SQL: a relation in FROM, or a whole query block.

    A subclass needs ``render``, a ``label`` and a ``detail`` for plans, and ``output`` if it differs from that of its
    children; everything else has a default.  ``adds_columns``: whether a ``*`` over it would show a column that the
    user has not written.
    """

    adds_columns: ClassVar[bool] = True

    @property
    def spark_hint(self) -> str:
        """A hint for Spark in its SELECT; empty if it needs none."""
        return ""

    @property
    def sides(self) -> tuple[Node, ...]:
        """The inputs whose SQL it needs."""
        return self.children

    def stars(self, of: Callable[[Node], list[str]]) -> list[str]:
        """Return the select items that ``*`` expands to, such as ``a.*``; ``of`` returns those of an input."""
        return [item for side in self.sides for item in of(side)]

    def render(
        self, sides: tuple[str, ...], names: NameGenerator, conjunction: Callable[[tuple[Scalar, ...]], str]
    ) -> str:
        """Return the SQL of the operator: a relation for FROM, or a query block if the operator replaces one.

        ``sides``: the SQL of each of ``self.sides``, in parentheses if it is a join.  ``names``: ``names.new("bin")``
        returns an alias and a column name that are unique in the statement, for whatever this SQL adds.
        ``conjunction``: renders conjuncts as one condition joined by AND, with their subqueries as they were rewritten.
        """
        raise NotImplementedError
