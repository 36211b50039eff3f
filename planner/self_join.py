"""What is left of a self-join in which each row meets only itself: the row once more, under the other's name."""

from __future__ import annotations

from typing import ClassVar

from planner.logical import Derived, Filter
from planner.schema import Column
from planner.tree import plan_node


@plan_node
class SameRow(Derived):
    """A relation whose row is the row of another one: ``LATERAL (SELECT x.id, x.v) AS y``; ``said`` tells of which."""

    label: ClassVar[str] = "SameRow"
    columns: tuple[Column, ...] = ()
    said: str = ""

    @property
    def detail(self) -> str:
        return self.said


@plan_node
class SameRowTest(Filter):
    """A WHERE in which conditions of the row itself stand for semi or anti joins with it; ``said`` tells for which."""

    label: ClassVar[str] = "SameRowTest"
    said: str = ""


@plan_node
class NeighbourRow(SameRow):
    """The same where the row is one before or behind another, in ``RowsWithNeighbours``."""

    label: ClassVar[str] = "NeighbourRow"


@plan_node
class RowsWithNeighbours(Derived):
    """Rows of a source with the columns of rows before or behind them, under a name that no ``*`` shows."""

    label: ClassVar[str] = "RowsWithNeighbours"

    @property
    def output(self) -> tuple[str, ...]:
        return ()
