"""Products of keys: bins of several bands, or of bands and other keys, where one alone leaves many candidate pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product
from math import prod

from dovetail.planner.band.condition import DistanceBand
from dovetail.planner.catalog.cost import LEAST_GAIN, ROW_IN_PAIRS, Cost, cost, estimate_copies
from dovetail.planner.keys.key_set import KeyScheme
from dovetail.planner.logical import BandJoin
from dovetail.planner.physical.band_join import FixedWidth
from dovetail.planner.physical.grid_band_join import Grid
from dovetail.planner.physical.key_sets import KeySets
from dovetail.rules.analysis.sizes import Sizes
from dovetail.rules.band_join.band_selection import BandShares
from dovetail.rules.band_join.bins import Candidate, candidates
from dovetail.rules.band_join.key_cost import key_cost, with_levels
from dovetail.rules.context import Context

_MOST_PARTS = 3
_WIDTHS = (1, 2, 4)  # times the width of a band: of wider bins, a row is copied to fewer cells


class Products:
    """The candidates for a band join over the products of its keys.

    ``shares``: what a sample shows of the bands.
    """

    def __init__(self, join: BandJoin, shares: BandShares, sizes: Sizes, ctx: Context):
        self.join, self.shares, self.sizes, self.ctx = join, shares, sizes, ctx
        self.pairs = (sizes[0].rows or 0) * (sizes[1].rows or 0)

    def added_to(self, single: list[Candidate], key_share: float) -> list[Candidate]:
        """The candidates for the first band and for keys, and the best product where it is estimated to be faster.

        ``key_share``: the share of all pairs that have equal keys.
        """
        if not self.pairs or self.join.bin_width is not None:
            return single
        keys = [found for scheme in self.join.schemes if (found := self._of_keys(scheme))]
        counted = [*(_with_pairs(one, self.shares.each[0], self.pairs) for one in single), *keys]
        if not all(_has_many_pairs(one, key_share) for one in counted):
            return counted  # more copies would take longer than the pairs that they save

        def seconds(candidate: Candidate) -> float:
            return candidate.seconds(self.join.kind, key_share)

        best = min(self._products(keys), key=seconds, default=None)
        return [*counted, best] if best and seconds(best) * LEAST_GAIN < min(map(seconds, counted)) else counted

    def _of_keys(self, scheme: KeyScheme) -> Candidate | None:
        """The join over the keys of a conjunct; None where the pairs that share one are not known."""
        measured = with_levels(scheme, self.join, self.sizes, self.ctx)
        found = measured and key_cost(measured, self.join, self.sizes, self.ctx)
        if not measured or not found or found.pairs is None:
            return None
        return Candidate(KeySets((measured,)), f"keys of {measured}", found)

    def _products(self, keys: list[Candidate]) -> Iterator[Candidate]:
        bands = (self._of_band(number, share) for number, share in enumerate(self.shares.each))
        options = [*bands, *([one] for one in keys)]
        for count in range(2, min(len(options), _MOST_PARTS) + 1):
            for some in combinations(options, count):
                for parts in product(*some):
                    if all(one.cost for one in parts):
                        yield _product(parts, self.shares, self.sizes)

    def _of_band(self, number: int, share: float) -> list[Candidate]:
        """The candidates for one of the bands; other widths than the usual one only where they cost no measurement."""
        band = (self.join.band, *self.join.others)[number]
        join = replace(self.join, band=band, others=())
        widths = _WIDTHS if isinstance(band, DistanceBand) else (1,)
        found = (one for times in widths for one in candidates(join, *self.sizes, self.ctx, times))
        return [_with_pairs(one, share, self.pairs) for one in found]


def _has_many_pairs(candidate: Candidate, key_share: float) -> bool:
    found = candidate.cost
    return found is not None and (found.pairs or 0) * key_share > found.rows * ROW_IN_PAIRS


def _with_pairs(candidate: Candidate, share: float, pairs: int) -> Candidate:
    """A candidate with the pairs that share a bin: those that satisfy the band, times how much wider its bins are."""
    found, scheme, wider = candidate.cost, candidate.scheme, 2.0
    if found is None:
        return candidate
    if isinstance(scheme, FixedWidth) and (span := scheme.band.high - scheme.band.low):
        wider = float((scheme.bins.width + scheme.bins.high - scheme.bins.low) / span)
    least = share * pairs
    counted = max(found.pairs, least) if found.pairs is not None else min(pairs, wider * least)
    return replace(candidate, cost=replace(found, pairs=counted))


def _product(parts: tuple[Candidate, ...], shares: BandShares, sizes: Sizes) -> Candidate:
    """The product of some keys, which are taken to be independent unless more pairs satisfy all bands."""
    pairs = float((sizes[0].rows or 0) * (sizes[1].rows or 0))
    of_each = [(one.cost.pairs or 0.0) / pairs for one in parts if one.cost]
    costs = [one.cost for one in parts if one.cost]
    copies = (prod(_copies(one, n, sizes) for one in costs) for n in (0, 1))
    left, right = (estimate_copies(size, each) for size, each in zip(sizes, copies, strict=True))
    least = 0.0 if any(isinstance(one.scheme, KeySets) for one in parts) else shares.all
    together = min(*of_each, max(prod(of_each), least))
    description = " × ".join(one.description for one in parts)
    lengths = tuple(length for one in parts for length in one.lengths)
    return Candidate(
        Grid(tuple(one.scheme for one in parts)), description, cost(left, right, pairs * together), lengths
    )


def _copies(single: Cost, side: int, sizes: Sizes) -> float:
    """How many copies of a row of a side are made."""
    return single.sizes[side] / estimate_copies(sizes[side], 1)[1]
