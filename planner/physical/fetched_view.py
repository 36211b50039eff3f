"""Operators over views that Python fills before the statement runs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar

from dovetail.planner.logical import Logical, Scan
from dovetail.planner.physical.base import Physical
from dovetail.planner.tree import Node


class FetchedView(Physical):
    """An operator over a view that Spark cannot fill itself.

    ``view``: the name of the view.  ``filler``: the function that fills it, by its name in
    ``executor/lookup/views.py``.
    """

    required: ClassVar[bool] = True
    filler: ClassVar[str]
    view: str

    @abstractmethod
    def needs(self) -> Logical:
        """The query whose rows the filler receives."""

    @abstractmethod
    def without_rows(self, empty: Callable[[Scan], Node]) -> Physical:
        """A substitute that Spark can analyze; ``empty`` builds an empty relation with a table's columns."""
