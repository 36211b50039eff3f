"""Measures bands on a sample of pairs, and selects the one for bins; the others stay filters."""

from dataclasses import dataclass, replace

from dovetail.planner.catalog.cost import BAND_SAMPLE
from dovetail.planner.catalog.measure import SampledQuery, band_matches_sql, first_match_sql
from dovetail.planner.catalog.stats import Statistics
from dovetail.planner.errors import Unsupported
from dovetail.planner.logical import BandJoin, JoinKind
from dovetail.planner.physical.sampled import Sampled, sampled
from dovetail.rules.context import Context


@dataclass(frozen=True)
class BandShares:
    """The share of a sample's pairs that satisfies each band of a join, in their order, and all of them."""

    each: tuple[float, ...]
    all: float


def select_band(
    join: BandJoin, left: Statistics, right: Statistics, ctx: Context
) -> tuple[BandJoin, BandShares | None]:
    """Put the band first that the fewest sampled pairs satisfy; without a sample the order stays.

    The idea is from the review of RisingWave's band join RFC: bins for the most selective band, a filter for the rest.
    """
    bands = (join.band, *join.others)
    shares = _estimate_shares(join, left, right, ctx)
    if shares is None:
        ctx.choose(f"the first of {len(bands)} bands, {join.band}")
        return join, None
    order = sorted(range(len(bands)), key=lambda n: shares.each[n])
    first, *others = (f"{bands[n]}, which holds for {shares.each[n]:.2g} of a sample's pairs" for n in order)
    ctx.choose(first, *others)
    ordered = replace(join, band=bands[order[0]], others=tuple(bands[n] for n in order[1:]))
    return ordered, replace(shares, each=tuple(shares.each[n] for n in order))


@dataclass(frozen=True)
class BandMatches:
    """What a sample shows: the share of pairs that match, and of left rows with a match.

    ``until_first``: the part of the right rows that a left row is compared with until the first one matches.
    """

    pairs: float
    rows: float
    until_first: float

    def compared_part(self, kind: JoinKind, limit: int | None, left_rows: float, pairs: float) -> float:
        """The part of so many pairs that a join compares; ``limit``: the rows that are needed of it, None for all."""
        is_test = kind in ("semi", "anti")
        part = self.until_first if is_test else 1.0
        if limit is None:
            return part
        found = left_rows * (self.rows if kind == "semi" else 1 - self.rows) if is_test else pairs * self.pairs
        return part * min(1.0, limit / found) if found else part


def sample_matches(join: BandJoin, left: Statistics, right: Statistics, ctx: Context) -> BandMatches | None:
    """Compare some rows of both sides by all bands of a join; None if that is not possible."""
    parts = [sampled(band, n) for n, band in enumerate((join.band, *join.others))]
    sides = _sampled_sides(join, parts, left, right, ctx)
    found = ctx.measure(first_match_sql(*sides, tuple(p.condition for p in parts), BAND_SAMPLE)) if sides else None
    return BandMatches(*map(float, found[0])) if found and None not in found[0] else None  # type: ignore[arg-type]


def _estimate_shares(join: BandJoin, left: Statistics, right: Statistics, ctx: Context) -> BandShares | None:
    """The share of pairs that satisfies each band and all of them, estimated from a small sample of each side."""
    parts = [sampled(band, n) for n, band in enumerate((join.band, *join.others))]
    sides = _sampled_sides(join, parts, left, right, ctx)
    conditions = tuple(part.condition for part in parts)
    whole = (" AND ".join(conditions),) if len(conditions) > 1 else ()
    query = sides and band_matches_sql(*sides, (*conditions, *whole), BAND_SAMPLE)
    found = ctx.measure(query) if query else None
    pairs = found[0][0] if found else None
    if not found or not pairs:
        return None
    held = [float(count or 0) / float(pairs) for count in found[0][1:]]
    return BandShares(tuple(held[: len(conditions)]), held[-1])


def _sampled_sides(
    join: BandJoin, parts: list[Sampled], left: Statistics, right: Statistics, ctx: Context
) -> tuple[SampledQuery, SampledQuery] | None:
    """The queries for what bands read of either side; None where a side is not cheap to read."""
    if not ctx.force and not (left.plain and right.plain):
        return None  # to sample a computed relation costs as much as to compute it
    try:
        return (
            SampledQuery(ctx.query(join.left, ", ".join(item for p in parts for item in p.left)), _share(left)),
            SampledQuery(ctx.query(join.right, ", ".join(item for p in parts for item in p.right)), _share(right)),
        )
    except Unsupported:
        return None


def _share(side: Statistics) -> float:
    """The share of a side that has about twice as many rows as wanted."""
    return min(1.0, 2 * BAND_SAMPLE / side.rows) if side.rows else 1.0
