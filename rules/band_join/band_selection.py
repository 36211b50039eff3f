"""Measures bands on a sample of pairs, and selects the one for bins; the others stay filters."""

from dataclasses import dataclass, replace

from dovetail.planner.catalog.cost import BAND_SAMPLE
from dovetail.planner.catalog.measure import SampledQuery, band_matches_sql, first_match_sql
from dovetail.planner.catalog.stats import Statistics
from dovetail.planner.errors import Unsupported
from dovetail.planner.logical import BandJoin, JoinKind
from dovetail.planner.physical.sampled import Sampled, sampled
from dovetail.rules.context import Context


def select_band(join: BandJoin, left: Statistics, right: Statistics, ctx: Context) -> BandJoin:
    """Put the band first that the fewest sampled pairs satisfy; without a sample the order stays.

    The idea is from the review of RisingWave's band join RFC: bins for the most selective band, a filter for the rest.
    """
    if not join.others:
        return join
    bands = (join.band, *join.others)
    selectivities = _estimate_selectivities(join, left, right, ctx)
    if selectivities is None:
        ctx.choose(f"the first of {len(bands)} bands, {join.band}")
        return join
    best = min(range(len(bands)), key=lambda n: selectivities[n])
    choices = [f"{b}, which holds for {s:.2g} of a sample's pairs" for b, s in zip(bands, selectivities, strict=True)]
    ctx.choose(choices[best], *(c for n, c in enumerate(choices) if n != best))
    return replace(join, band=bands[best], others=tuple(b for n, b in enumerate(bands) if n != best))


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


def _estimate_selectivities(join: BandJoin, left: Statistics, right: Statistics, ctx: Context) -> list[float] | None:
    """The selectivity of each band, estimated from a small sample of each side."""
    parts = [sampled(band, n) for n, band in enumerate((join.band, *join.others))]
    sides = _sampled_sides(join, parts, left, right, ctx)
    found = ctx.measure(band_matches_sql(*sides, tuple(p.condition for p in parts), BAND_SAMPLE)) if sides else None
    pairs = found[0][0] if found else None
    return [(held or 0) / pairs for held in found[0][1:]] if found and pairs else None


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
