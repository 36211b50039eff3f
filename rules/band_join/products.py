"""Products of keys: bins of several bands, or of bands and other keys, where one alone leaves many candidate pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product
from math import prod

from dovetail.planner.band.condition import DistanceBand
from dovetail.planner.catalog.cost import LEAST_GAIN, MATCHED, ROW_IN_PAIRS, Cost, cost, estimate_copies
from dovetail.planner.keys.key_set import KeyScheme
from dovetail.planner.logical import BandJoin, JoinKind
from dovetail.planner.physical.band_join import FixedWidth
from dovetail.planner.physical.grid_band_join import Grid
from dovetail.planner.physical.key_join import preserved_sides
from dovetail.planner.physical.key_sets import KeySets
from dovetail.rules.analysis.sizes import Sizes
from dovetail.rules.band_join.band_selection import BandShares
from dovetail.rules.band_join.bins import Candidate, candidates
from dovetail.rules.band_join.key_cost import key_cost, with_levels
from dovetail.rules.context import Context

_MOST_PARTS = 3
_WIDTHS = (1, 2, 4)  # times the width of a band: of wider bins, a row is copied to fewer cells


def with_products(
    single: list[Candidate], join: BandJoin, shares: BandShares | None, sizes: Sizes, key_share: float, ctx: Context
) -> list[Candidate]:
    """The candidates for the first band and for keys, and their best product where that is estimated to be faster.

    ``shares``: what a sample shows of the bands; ``key_share``: the share of all pairs that have equal keys.
    """
    pairs = (sizes[0].rows or 0) * (sizes[1].rows or 0)
    if shares is None or not pairs or join.bin_width is not None:
        return single
    keys = [_of_keys(scheme, join, sizes, ctx) for scheme in join.schemes]
    counted = [*(_with_pairs(one, shares.each[0], pairs) for one in single), *filter(None, keys)]
    costs = [one.cost for one in counted]
    if not all(one and (one.pairs or 0) * key_share > one.rows * ROW_IN_PAIRS for one in costs):
        return counted  # more copies would take longer than the pairs that they save
    bands = [
        [_with_pairs(one, share, pairs) for times in _WIDTHS for one in _candidates(join, n, sizes, times, ctx)]
        for n, share in enumerate(shares.each)
    ]
    options = [*bands, *([one] for one in keys if one)]
    products = [one for some in _choices(len(options)) for one in _products([options[n] for n in some], shares, sizes)]
    best = min(products, key=lambda one: seconds_of(one, join.kind, key_share), default=None)
    least = min(seconds_of(one, join.kind, key_share) for one in counted)
    return [*counted, best] if best and seconds_of(best, join.kind, key_share) * LEAST_GAIN < least else counted


def seconds_of(candidate: Candidate, kind: JoinKind, key_share: float = 1.0) -> float:
    """Estimate the seconds on one core of a join over keys, of which so many pairs have equal columns as well."""
    found = candidate.cost
    if found is None:
        return 0
    times = MATCHED if any(side in candidate.scheme.copied for side in preserved_sides(kind)) else 1
    return times * replace(found, pairs=(found.pairs or 0) * key_share).seconds


def _of_keys(scheme: KeyScheme, join: BandJoin, sizes: Sizes, ctx: Context) -> Candidate | None:
    """The join over the keys of a conjunct; None where the pairs that share one are not known."""
    measured = with_levels(scheme, join, sizes, ctx)
    found = measured and key_cost(measured, join, sizes, ctx)
    if not measured or not found or found.pairs is None:
        return None
    return Candidate(KeySets((measured,)), f"keys of {measured}", found)


def _candidates(join: BandJoin, number: int, sizes: Sizes, times: int, ctx: Context) -> list[Candidate]:
    """The candidates for one of the bands; other widths than the usual one only where they cost no measurement."""
    band = (join.band, *join.others)[number]
    if times > 1 and not isinstance(band, DistanceBand):
        return []
    return candidates(replace(join, band=band, others=()), *sizes, ctx, times)


def _choices(bands: int) -> Iterator[tuple[int, ...]]:
    for count in range(2, min(bands, _MOST_PARTS) + 1):
        yield from combinations(range(bands), count)


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


def _products(options: list[list[Candidate]], shares: BandShares, sizes: Sizes) -> Iterator[Candidate]:
    for parts in product(*options):
        if all(one.cost for one in parts):
            yield _product(parts, shares, sizes)


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
