"""Intervals for totals, and for arithmetic over totals, from a sample of clusters without replacement.

Each row of a query comes from one row of the relation that is sampled, and each row of that relation is in one of ``K``
clusters, by a hash.  A sample has all rows of ``n`` clusters.  With ``t`` the total of a cluster:

    estimate      N · Σ t / Σ m
    variance      K² · (1 - n/K) · s²(z) / n
                  z = Σ slope · (t - m · Σ t / Σ m), with the derivatives of the expression by its totals as slopes

``m`` is the size of a cluster in rows, ``N`` the rows of the relation: a sample with more rows than its clusters have
on average has more of everything, and the ratio takes this into account (Cochran, Sampling Techniques, 1977: 2.11, 6.4
and 9.3).  Pairs of a join are not independent, clusters are: rows of a cluster count as one observation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import inf, isfinite, prod, sqrt
from typing import NamedTuple

from dovetail.planner.estimate.expression import Value
from dovetail.planner.estimate.quantiles import t_quantile

_SKEWED = 25  # clusters for each unit of squared skewness, with which a 95 % interval misses in at most 6 %
_FEWEST = 24  # clusters in which a group has rows, for its interval to be certified
_ROUNDING = 1e-13  # of the sum of squares, below which a variance is nothing but rounding

ROWS, SIZE = 0, 1
"""The numbers of two totals that every sample has: the rows of the result, and those of the relation, the size."""

Product = tuple[int, ...]
"""The numbers of the totals that are multiplied in each cluster, in ascending order: ``(1, 1, 2)`` is t₁·t₁·t₂."""


def products_of(expressions: Iterable[Sequence[int]]) -> tuple[Product, ...]:
    """The products whose sums over clusters give the intervals of expressions over these totals.

    They are of one, two and three factors: for the estimate, its variance and its skewness.  Those of sizes alone are
    not among them, since clusters count that have nothing else, too.
    """
    found = (
        product
        for totals in expressions
        for factors in (1, 2, 3)
        for product in combinations_with_replacement(sorted({*totals, SIZE}), factors)
        if {*product} != {SIZE}
    )
    return tuple(dict.fromkeys(found))


class Interval(NamedTuple):
    """An estimate, and the bounds of its interval; ``certified``: the sample is large enough for them to hold."""

    estimate: float
    low: float
    high: float
    certified: bool

    @property
    def error(self) -> float:
        """Half the width, relative to the estimate."""
        if self.low == self.high:
            return 0.0
        return max(self.high - self.estimate, self.estimate - self.low) / abs(self.estimate) if self.estimate else inf


@dataclass(frozen=True)
class ClusterSample:
    """``read`` of ``clusters`` clusters of a relation with so many ``rows``, and what they contain of one group.

    ``met``: the clusters that have rows of the group.  ``sums``: the sum of each product over those that are read.
    ``size_skew``: the skewness of the sizes of all clusters, which identical rows make large.
    """

    clusters: int
    read: int
    rows: float
    met: int
    sums: dict[Product, float]
    size_skew: float = 0.0

    @property
    def scale(self) -> float:
        """The factor from a sum over the sample to its estimate for all clusters."""
        return self.rows / self.sums[SIZE,] if self.sums[SIZE,] else self.clusters / self.read

    def estimates(self, totals: int) -> list[float]:
        """The estimate of each total."""
        return [self.scale * self.sums.get((number,), 0.0) for number in range(totals)]

    def interval(self, value: Value, error: float) -> Interval:
        """The interval of an expression with this value, which misses with a probability of at most ``error``.

        The end on the side of the longer tail lies further out, by the second term of the Edgeworth expansion of
        Student's statistic (Hall 1992, 3.5), since the sample has too few of the rare large clusters more often than
        too many of them.  Where totals are so near to the sizes of their clusters that few rows make the difference,
        the interval is that of an estimate that does not know the sizes, which is wider.
        """
        found = self._interval(self._by_size(value), error)
        return found if found.certified else self._interval(value, error)

    def moments(self, value: Value) -> tuple[float, float]:
        """The second and third power of the part of each cluster in the error, summed; 0 where clusters are alike."""
        by_size = self._by_size(value)
        second, size = self._power(by_size, 2)
        return (second, self._power(by_size, 3)[0]) if second > _ROUNDING * size else (0.0, 0.0)

    def _by_size(self, value: Value) -> Value:
        """The value with the slopes of a ratio to the sizes of clusters."""
        total = sum(slope * self.sums.get((i,), 0.0) for i, slope in value.slopes.items())
        size = value.slopes.get(SIZE, 0.0) - total / (self.sums[SIZE,] or 1)
        return Value(value.number, {**value.slopes, SIZE: size})

    def _interval(self, value: Value, error: float) -> Interval:
        n, left = self.read, 1 - self.read / self.clusters
        mean = sum(slope * self.sums.get((i,), 0.0) for i, slope in value.slopes.items()) / n
        second, size = self._power(value, 2)
        third, _ = self._power(value, 3)
        variance = (second - n * mean * mean) / (n - 1)
        differs = variance > _ROUNDING * size / n  # else the rows that do differ have not been read
        if not (differs and isfinite(variance) and isfinite(third) and isfinite(value.number)):
            return Interval(value.number, -inf, inf, False)
        deviation = sqrt(variance)
        skew = (third / n - 3 * mean * second / n + 2 * mean * mean * mean) / deviation / variance
        t = t_quantile(1 - error / 2, n - 1)
        width = self.clusters * t * deviation * sqrt(left / n)
        shift = self.clusters * left * deviation * skew * (2 * t**2 + 1) / (6 * n)
        certified = self.met >= _FEWEST and n >= _SKEWED * max(skew * skew, self.size_skew * self.size_skew)
        return Interval(
            value.number, value.number - width + min(shift, 0.0), value.number + width + max(shift, 0.0), certified
        )

    def _power(self, value: Value, power: int) -> tuple[float, float]:
        """Σ (Σ slope · t)ᵖ over the sample, and the same of absolute terms."""
        total = size = 0.0
        for product in combinations_with_replacement(sorted(value.slopes), power):
            term = _arrangements(product) * prod(value.slopes[i] for i in product) * self.sums.get(product, 0.0)
            total += term
            size += abs(term)
        return total, size


def fewest_rows(groups: Iterable[tuple[ClusterSample, Value]]) -> float:
    """The rows that the sample needs of a group, for its interval to be certified, if values are alike in all groups.

    A group that has met none of the rare large values looks as if there were none; other groups show them.  Values are
    compared relative to the mean of their group.
    """
    rows = second = third = 0.0
    for sample, value in groups:
        if value.number:
            relative = sample.estimates(1)[ROWS] / value.number
            two, three = sample.moments(value)
            rows += sample.sums.get((ROWS,), 0.0)
            second += two * relative * relative
            third += three * relative * relative * relative
    return _SKEWED * rows * (third / second) * (third / second) / second if second > 0 else 0.0


def _arrangements(product: Product) -> int:
    """The number of different orders of the factors of a product of at most three."""
    different = len(set(product))
    return {1: 1, 2: len(product), 3: 6}[different]
