"""Choose how a band join runs: bins, or Spark's own join where that is as good."""

from fractions import Fraction
from math import inf

from planner.band import DistanceBand, IntervalBand
from planner.bins import EVERYTHING, levels, neighbours, unmeasured_levels
from planner.cost import at_most_pairs, said, said_pairs
from planner.errors import a
from planner.linear import Side
from planner.logical import BandJoin
from planner.physical.band_join import LevelBandJoin, NeighbourBandJoin, length_of, preserved_sides
from planner.physical.base import Physical, Spark
from planner.stats import UNKNOWN
from rules.rule import Context, rule


@rule(BandJoin)
def lower_band_join(join: BandJoin, ctx: Context) -> Physical:
    """Cut a band into bins and join on the bin, unless Spark's own join is as good.

    A band of constant width gets bins of about that width, and the smaller side is copied to the neighbouring bins.
    Intervals get bins as wide as they are long, on levels where their lengths differ widely; their lengths are
    measured, since one bin width would copy a long interval into millions of bins.
    """
    left, right = (UNKNOWN, UNKNOWN) if ctx.force else (ctx.statistics(join.left), ctx.statistics(join.right))
    pairs = at_most_pairs(left, right)
    own = f"Spark's own join, {said_pairs(pairs)} of {said(left)} × {said(right)} rows"
    if pairs is not None and pairs < ctx.thresholds.nested_loop_pairs:
        ctx.decline(
            f"{join.band}: so few rows that Spark's own join is as good (nested_loop_pairs)",
            join.band.conjuncts[0].place,
        )
        ctx.choose(own, "bins, which cost a shuffle more")
        return Spark(join.plain)
    kept = preserved_sides(join.kind)
    if len(kept) == 2:
        ctx.decline("a full join must keep both sides, and bins copy one", join.band.conjuncts[0].place)
        return Spark(join.plain)
    if isinstance(join.band, DistanceBand):
        smaller: Side = "left" if left.rows is not None and left.rows < (right.rows or 0) else "right"
        copied: Side = smaller if not kept else "left" if kept == ("right",) else "right"
        return _by_neighbours(join, join.band, copied, own, ctx)
    size = (right if join.band.side == "left" else left).bytes
    few = size is not None and size < ctx.thresholds.one_task_bytes
    return _by_levels(join, join.band, own, ctx, few=few)


def _by_neighbours(join: BandJoin, band: DistanceBand, copied: Side, own: str, ctx: Context) -> Physical:
    bins = neighbours(band.low - band.room, band.high + band.room, band.axis)
    ctx.choose(f"bins of {band.axis.human(bins.width)} for {band}, {copied} side copied {bins.copies} times", own)
    return NeighbourBandJoin(join.left, join.right, join.kind, band, join.condition, bins, copied)


def _by_levels(join: BandJoin, band: IntervalBand, own: str, ctx: Context, *, few: bool) -> Physical:
    kept, at, place = preserved_sides(join.kind), ctx.thresholds, band.conjuncts[0].place
    if kept and band.side not in kept:
        ctx.decline(f"{a(join.kind)} join must keep each interval once, and bins copy them", place)
        return Spark(join.plain)
    intervals = join.right if band.side == "left" else join.left
    measured = ctx.lengths(intervals, length_of(band), few=few)
    if measured is None:
        chosen = unmeasured_levels(band.axis, at.level_reach)
    else:
        chosen = levels(measured, band.axis, spread=inf if kept else at.level_spread, reach=at.level_reach)
    if kept and len(chosen.widths) > 1:
        why = "have not been measured and may" if measured is None else "differ so much that they"
        ctx.decline(
            f"{a(join.kind)} join must keep each point once, and lengths of intervals {why} need several levels", place
        )
        return Spark(join.plain)
    widths = ", ".join(band.axis.human(Fraction(w)) if w < EVERYTHING else "any width" for w in chosen.widths)
    ctx.choose(f"bins of {widths} for {band}", own)
    return LevelBandJoin(join.left, join.right, join.kind, band, join.condition, chosen, measured=measured is not None)
