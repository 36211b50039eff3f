"""Chooses how a band join runs: with bins, or as Spark's own join where that is as fast."""

from dataclasses import replace

from dovetail.planner.band.condition import DistanceBand, OverlapBand
from dovetail.planner.catalog.cost import count_pairs, describe_pairs, describe_rows, nested_loop_seconds
from dovetail.planner.catalog.stats import UNKNOWN, Statistics
from dovetail.planner.errors import ReasonCode, Refused
from dovetail.planner.explain.records import CandidatePlan
from dovetail.planner.logical import BandJoin
from dovetail.planner.physical.base import Physical, Spark
from dovetail.planner.physical.key_join import KeyJoin
from dovetail.rules.analysis.sizes import limit_above, where_above
from dovetail.rules.band_join.band_selection import select_band
from dovetail.rules.band_join.bins import candidates, for_sorting
from dovetail.rules.band_join.keys import has_keys
from dovetail.rules.band_join.method import is_large, method_of, side_to_hash
from dovetail.rules.band_join.preserved_rows import with_matches
from dovetail.rules.band_join.products import Products
from dovetail.rules.band_join.spark_join import SparkJoin, can_broadcast, find_unique_match
from dovetail.rules.context import Context
from dovetail.rules.rule import rule


@rule(BandJoin, streams="one")
def lower_band_join(join: BandJoin, ctx: Context) -> Physical:
    """Join on bins of the band, unless Spark's own join is estimated to be as fast.

    A band of constant width gets bins of that width, and the smaller side is copied to those that its band touches.
    Intervals get bins as wide as they are long, on levels where their lengths differ widely; their lengths are
    measured, since one bin width would copy a long interval into millions of bins.
    """
    left, right, reason = UNKNOWN, UNKNOWN, find_unique_match(join, ctx)
    spark_join = SparkJoin(join, where_above(join, ctx), limit_above(ctx), ctx)
    if not ctx.force and not reason:
        reason = spark_join.reason
        left, right = spark_join.sizes
    if reason:
        code: ReasonCode = "few_rows" if left.known else "unique_match"
        plans = _own_join(join, left, right, ctx), "bins, which need one more shuffle"
        return _leave(join, reason, code, plans, ctx)
    shares = None
    if join.others or join.schemes:
        join, shares = select_band(join, left, right, ctx)
    if reason := _why_texts_are_alike(join, left, right, ctx):
        ctx.decline(f"{join.band}: {reason}", join.band.conjuncts[0].place)
        return Spark(join.plain)
    over_bins = candidates(join, left, right, ctx)
    if not over_bins:
        ctx.decline(f"{join.band}: the band is too wide, so bins would prune nothing", join.band.conjuncts[0].place)
        return Spark(join.plain)
    best = min(over_bins, key=lambda one: one.seconds(join.kind))
    if is_large(join, left, right, ctx) and not side_to_hash(join.kind, best.sizes, ctx):
        over_bins = for_sorting(over_bins, join, left, right)
    key_share = spark_join.key_share if shares else None
    if shares and key_share is not None:
        over_bins = Products(join, shares, (left, right), ctx).added_to(over_bins, key_share)
    own, refused = _own_join(join, left, right, ctx), ""
    for best in sorted(over_bins, key=lambda one: one.seconds(join.kind, key_share or 1)):
        if reason := spark_join.is_faster_than(best.cost):
            return _leave(join, reason, "few_rows", (own, best.plan), ctx)
        chosen = KeyJoin(join.left, join.right, join.kind, best.scheme, join.condition, join.hints)
        try:
            if chosen.matched:
                chosen = with_matches(chosen, join, ctx)
            else:
                method, equal = method_of(join, best, left, right, ctx)
                chosen = replace(chosen, method=method, equal=equal)
        except Refused as no:
            refused = refused or str(no)
            continue
        ctx.choose(best.plan, *(other.plan for other in over_bins if other is not best), own)
        return chosen
    ctx.decline(refused, join.band.conjuncts[0].place)
    return Spark(join.plain)


def _why_texts_are_alike(join: BandJoin, left: Statistics, right: Statistics, ctx: Context) -> str | None:
    """The reason why bins of a band over texts would prune nothing, or may not; None for any other band.

    Only digits and the characters ``-./:`` have positions of their own: names all have one, and would meet in one bin.
    """
    if join.band.axis.name != "text" or ctx.force:
        return None
    band = join.band.in_left if isinstance(join.band, OverlapBand) else join.band
    point = band.left if isinstance(band, DistanceBand) else band.point
    is_left = isinstance(band, DistanceBand) or band.side == "left"
    relation, size = (join.left, left) if is_left else (join.right, right)
    span = ctx.extent(relation, join.band.axis.real_position(point.text, point.type)) if size.plain else None
    if span is None:
        return f"whether the texts of {point.text} begin with different digits is not known"
    if span[0] == span[1]:
        return f"the texts of {point.text} begin with letters or with the same digits, so they all lie in one bin"
    return None


def _leave(
    join: BandJoin, reason: str, code: ReasonCode, plans: tuple[CandidatePlan, str | CandidatePlan], ctx: Context
) -> Spark:
    """Leave a join to Spark for a reason; ``plans``: its plan, and the one that it is compared with."""
    ctx.decline(f"{join.band}: {reason}", join.band.conjuncts[0].place, code)
    spark_join, other = plans
    ctx.choose(spark_join._replace(text=f"{spark_join}: {reason}"), other)
    return Spark(join.plain)


def _own_join(join: BandJoin, left: Statistics, right: Statistics, ctx: Context) -> CandidatePlan:
    if ctx.force:
        return CandidatePlan("Spark's own join (force is set: no sizes were asked for)", own=True)
    if left.rows is None and right.rows is None:
        return CandidatePlan("Spark's own join (no sizes are known)", own=True)
    pairs = count_pairs(left, right)
    rows = None if left.rows is None or right.rows is None else left.rows + right.rows
    keyed = has_keys(join)  # then Spark compares only pairs with equal keys, and nobody knows how many there are
    compared, what = (None, " on the equal keys") if keyed else (pairs, f", {describe_pairs(pairs)}")
    text = f"Spark's own join{what} of {describe_rows(left)} × {describe_rows(right)} rows"
    seconds = nested_loop_seconds(compared, broadcast=can_broadcast(join.kind, left, right, ctx))
    return CandidatePlan(text, rows, pairs=compared, name="Spark's own join", seconds=seconds, own=True)
