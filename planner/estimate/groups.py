"""The sums of all groups of a sample, which grow by further clusters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dovetail.planner.estimate.clusters import SIZE, ClusterSample, Product
from dovetail.planner.estimate.looks import CLUSTERS, STEP

Powers = tuple[float, float, float]
"""The sums of sizes of some clusters, of the squares and of the cubes of these sizes."""


@dataclass
class _Sums:
    values: tuple[Any, ...]
    met: int
    sums: list[float]


@dataclass
class GroupSums:
    """The sums of ``products`` over the clusters that are ``read``, by the values of the groups.

    ``sizes``: the rows of all clusters, as powers for each ``STEP`` of them.
    """

    products: tuple[Product, ...]
    sizes: Sequence[Powers]
    read: int = 0
    _groups: dict[str, _Sums] = field(default_factory=dict)

    def add(self, values: tuple[Any, ...], met: int, sums: Sequence[float | None]) -> None:
        """Add what further clusters have of a group: the number of clusters with rows of it, and their sums."""
        key = repr(values)  # NaN, which Spark takes for one group, does not equal itself
        group = self._groups.setdefault(key, _Sums(values, 0, [0.0] * len(self.products)))
        group.met += met
        group.sums = [old + (new or 0.0) for old, new in zip(group.sums, sums, strict=True)]

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def rows(self) -> float:
        """The rows of the relation that is sampled."""
        return sum(size for size, _, _ in self.sizes)

    @cached_property
    def size_skew(self) -> float:
        """The skewness of the sizes of all clusters."""
        one, two, three = (sum(power[n] for power in self.sizes) / CLUSTERS for n in range(3))
        variance = two - one * one
        return float((three - 3 * one * two + 2 * one**3) / variance**1.5) if variance > 0 else 0.0

    def samples(self) -> Iterator[tuple[tuple[Any, ...], ClusterSample]]:
        """The values of each group, and its sample."""
        read = self.sizes[: self.read // STEP]
        powers = {(SIZE,) * (n + 1): sum(power[n] for power in read) for n in range(3)}
        for group in self._groups.values():
            sums = dict(zip(self.products, group.sums, strict=True)) | powers
            yield group.values, ClusterSample(CLUSTERS, self.read, self.rows, group.met, sums, self.size_skew)
