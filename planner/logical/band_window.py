"""An aggregate over a band of the same source, as written or as windows over the source."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.planner.expr import Scalar
from dovetail.planner.logical import Logical
from dovetail.planner.logical.alternatives import Alternatives
from dovetail.planner.tree import plan_node


@dataclass(frozen=True)
class WindowedSource:
    """What windows are computed over: ``keys`` in SQL over ``relation``.

    ``row_filters`` decide which of its rows get a value, and ``match_filters`` which of them are counted.
    ``rescans_frame``: an aggregate reads all rows of a frame again for each row, since nothing can be subtracted from
    it.  ``joined``: as written, a join makes the pairs of equal keys; a correlated subquery compares all pairs.
    """

    relation: Logical
    keys: tuple[str, ...]
    row_filters: tuple[Scalar, ...]
    match_filters: tuple[Scalar, ...]
    rescans_frame: bool = False
    joined: bool = False


@plan_node
class BandWindow(Alternatives):
    """Aggregates over a band of the same source, as written or as windows."""

    sources: tuple[WindowedSource, ...]
