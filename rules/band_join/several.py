"""Several bands in one condition: one is cut into bins, the others stay in the condition."""

from dataclasses import replace

from planner.catalog.measure import holding_bands
from planner.catalog.stats import Statistics
from planner.errors import Unsupported
from planner.logical import BandJoin
from planner.physical.sampled import sampled
from rules.context import Context


def most_selective(join: BandJoin, left: Statistics, right: Statistics, ctx: Context) -> BandJoin:
    """The join with the band first that holds for the fewest pairs of a sample; as it is where nothing can be told.

    The idea is from the review of RisingWave's band join RFC: bins for the most selective band, a filter for the rest.
    """
    if not join.others:
        return join
    bands = (join.band, *join.others)
    shares = _shares(join, left, right, ctx)
    if shares is None:
        ctx.choose(f"the first of {len(bands)} bands, {join.band}")
        return join
    best = min(range(len(bands)), key=lambda n: shares[n])
    said = [f"{b}, which holds for {s:.2g} of a sample's pairs" for b, s in zip(bands, shares, strict=True)]
    ctx.choose(said[best], *(s for n, s in enumerate(said) if n != best))
    return replace(join, band=bands[best], others=tuple(b for n, b in enumerate(bands) if n != best))


def _shares(join: BandJoin, left: Statistics, right: Statistics, ctx: Context) -> list[float] | None:
    """For what part of all pairs each band holds, from a small sample of either side."""
    rows = ctx.thresholds.band_sample
    parts = [sampled(band, n) for n, band in enumerate((join.band, *join.others))]
    shares = _share(left, rows), _share(right, rows)
    try:
        query = holding_bands(
            ctx.query(join.left, ", ".join(item for p in parts for item in p.left)),
            ctx.query(join.right, ", ".join(item for p in parts for item in p.right)),
            tuple(p.condition for p in parts),
            rows,
            shares,
        )
    except Unsupported:
        return None
    found = ctx.measure(query)
    pairs = found[0][0] if found else None
    return [(held or 0) / pairs for held in found[0][1:]] if found and pairs else None


def _share(side: Statistics, rows: int) -> float:
    """What part of a side makes about so many rows, and some more."""
    return min(1.0, 2 * rows / side.rows) if side.rows else 1.0
