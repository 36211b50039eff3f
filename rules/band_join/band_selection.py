"""Selects the band for bins among several bands of a condition; the others stay filters."""

from dataclasses import replace

from dovetail.planner.catalog.cost import BAND_SAMPLE
from dovetail.planner.catalog.measure import band_matches_sql
from dovetail.planner.catalog.stats import Statistics
from dovetail.planner.errors import Unsupported
from dovetail.planner.logical import BandJoin
from dovetail.planner.physical.sampled import sampled
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


def _estimate_selectivities(join: BandJoin, left: Statistics, right: Statistics, ctx: Context) -> list[float] | None:
    """The selectivity of each band, estimated from a small sample of each side."""
    if not ctx.force and not (left.plain and right.plain):
        return None  # to sample a computed relation costs as much as to compute it
    parts = [sampled(band, n) for n, band in enumerate((join.band, *join.others))]
    shares = _sampling_fraction(left, BAND_SAMPLE), _sampling_fraction(right, BAND_SAMPLE)
    try:
        query = band_matches_sql(
            ctx.query(join.left, ", ".join(item for p in parts for item in p.left)),
            ctx.query(join.right, ", ".join(item for p in parts for item in p.right)),
            tuple(p.condition for p in parts),
            BAND_SAMPLE,
            shares,
        )
    except Unsupported:
        return None
    found = ctx.measure(query)
    pairs = found[0][0] if found else None
    return [(held or 0) / pairs for held in found[0][1:]] if found and pairs else None


def _sampling_fraction(side: Statistics, rows: int) -> float:
    """The fraction of a side that has about twice as many rows as wanted."""
    return min(1.0, 2 * rows / side.rows) if side.rows else 1.0
