"""Bins for several bands of one condition: a point in a box, or rows near each other on a map.

    b.x0 <= a.x <= b.x1  AND  b.y0 <= a.y <= b.y1

    y │     ┌──┼────┐        a box is copied to each cell that it touches,
    ──┼─────┼──┼────┼──      a point lies in one cell
      │     └──┼─ • ┘
      └────────┼───────── x

A cell is a bin of each band.  A pair that satisfies all bands shares exactly one bin of each, so exactly one cell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from dovetail.planner.band.linear import Leaf, Side
from dovetail.planner.expr import Scalar
from dovetail.planner.physical.key_join import Keyed, Pairs, Scheme
from dovetail.planner.rendered import NameGenerator


@dataclass(frozen=True)
class Grid(Scheme):
    """``GridBandJoin``: the product of the bins of several bands."""

    label: ClassVar[str] = "GridBandJoin"
    unit: ClassVar[str] = "cells"
    bands: tuple[Scheme, ...]  # or keys of another conjunct

    @property
    def never_raises(self) -> bool:
        return all(band.never_raises for band in self.bands)

    @property
    def conjuncts(self) -> tuple[Scalar, ...]:
        return tuple(dict.fromkeys(c for band in self.bands for c in band.conjuncts))

    def __str__(self) -> str:
        return ", ".join(map(str, self.bands))

    @property
    def leaves(self) -> tuple[tuple[Side, Leaf], ...]:
        return tuple(leaf for band in self.bands for leaf in band.leaves)

    def map_leaves(self, fn: Callable[[Leaf], Leaf]) -> Grid:
        return replace(self, bands=tuple(band.map_leaves(fn) for band in self.bands))

    @property
    def copied(self) -> tuple[Side, ...]:
        return tuple(dict.fromkeys(side for band in self.bands for side in band.copied))

    @property
    def note(self) -> str:
        return "a row stands in a cell for each combination of these"

    @property
    def notes(self) -> tuple[str, ...]:
        return (self.note, *(note for band in self.bands for note in band.notes))

    def keyed(self, sides: tuple[str, ...], names: NameGenerator) -> Keyed:
        """The keys of all bands; a row of either side is copied to each combination of its bins."""
        left, right = sides
        keys: Pairs = ()
        parts = []
        for band in self.bands:
            found = band.keyed((left, right), names)
            parts.append((slice(len(keys), len(keys) + len(found.keys)), found.also))
            left, right, keys = found.left, found.right, (*keys, *found.keys)
        return Keyed(left, right, keys, lambda of_left: tuple(c for own, also in parts for c in also(of_left[own])))
