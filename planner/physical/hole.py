"""Operators over views that Python fills right before the statement runs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar

from planner.logical import Logical, Scan
from planner.physical.base import Physical
from planner.tree import Node


class Hole(Physical):
    """An operator over a view that Spark cannot fill by itself.

    ``view``: the name of the view.  ``filler``: who fills it, a name in ``planner/runtime/lookup/views.py``.
    """

    required: ClassVar[bool] = True
    filler: ClassVar[str]
    view: str

    @abstractmethod
    def needs(self) -> Logical:
        """The query whose rows the filler is given."""

    @abstractmethod
    def without_rows(self, empty: Callable[[Scan], Node]) -> Physical:
        """What Spark can analyse in its place; ``empty`` makes a relation of no rows of a table."""
