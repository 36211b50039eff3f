"""Bins for several bands of one condition: a point in a box, or rows near each other on a map.

    b.x0 <= a.x <= b.x1  AND  b.y0 <= a.y <= b.y1

    y │     ┌──┼────┐        a box is copied to each cell that it touches,
    ──┼─────┼──┼────┼──      a point lies in one cell
      │     └──┼─ • ┘
      └────────┼───────── x

A cell is a bin of each band, or a key of another conjunct.  A pair that satisfies the condition shares exactly one of
each, so exactly one cell.
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
    """``GridBandJoin``: the product of the bins of several bands, or of bins and the keys of another conjunct."""

    label: ClassVar[str] = "GridBandJoin"
    unit: ClassVar[str] = "cells"
    parts: tuple[Scheme, ...]

    @property
    def never_raises(self) -> bool:
        return all(part.never_raises for part in self.parts)

    @property
    def conjuncts(self) -> tuple[Scalar, ...]:
        return tuple(dict.fromkeys(c for part in self.parts for c in part.conjuncts))

    def __str__(self) -> str:
        return ", ".join(map(str, self.parts))

    @property
    def leaves(self) -> tuple[tuple[Side, Leaf], ...]:
        return tuple(leaf for part in self.parts for leaf in part.leaves)

    def map_leaves(self, fn: Callable[[Leaf], Leaf]) -> Grid:
        return replace(self, parts=tuple(part.map_leaves(fn) for part in self.parts))

    @property
    def copied(self) -> tuple[Side, ...]:
        return tuple(dict.fromkeys(side for part in self.parts for side in part.copied))

    @property
    def note(self) -> str:
        return "a row is copied to a cell for each combination of these"

    @property
    def notes(self) -> tuple[str, ...]:
        return (self.note, *(note for part in self.parts for note in part.notes))

    def keyed(self, sides: tuple[str, ...], names: NameGenerator) -> Keyed:
        """The keys of all parts; a row of either side is copied to each combination of its keys."""
        left, right = sides
        keys: Pairs = ()
        conditions = []
        for part in self.parts:
            found = part.keyed((left, right), names)
            conditions.append((slice(len(keys), len(keys) + len(found.keys)), found.also))
            left, right, keys = found.left, found.right, (*keys, *found.keys)
        return Keyed(
            left, right, keys, lambda of_left: tuple(c for own, also in conditions for c in also(of_left[own]))
        )
