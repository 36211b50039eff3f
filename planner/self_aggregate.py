"""Aggregates of a block's own rows: by subqueries as written, or as windows over these rows."""

from __future__ import annotations

from typing import ClassVar

from planner.choice import Choice
from planner.expr import Scalar
from planner.logical import Logical
from planner.tree import plan_node


@plan_node
class Kept(Logical):
    """A relation that keeps the groups of rows that it has a row for, under ``condition`` of its own."""

    label: ClassVar[str] = "Kept"
    relation: Logical
    condition: tuple[Scalar, ...]


@plan_node
class SelfAggregate(Choice):
    """``other`` computes windows over groups of the rows of ``sources``, after ``kept`` has left out other groups.

    ``unreduced`` computes them over all rows, where ``kept`` is not empty.  ``exists`` is the number of subqueries that
    are EXISTS.
    """

    label: ClassVar[str] = "SelfAggregate"
    unreduced: Logical | None
    sources: tuple[Logical, ...]
    kept: tuple[Kept, ...]
    exists: int
