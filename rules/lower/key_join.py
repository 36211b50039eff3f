"""Chooses how a join by keys that are no equality runs: over keys, or as Spark's own join where that is as fast."""

from math import inf

from dovetail.planner.catalog.cost import LEAST_GAIN, count_pairs, describe_pairs, times_to_match
from dovetail.planner.catalog.stats import UNKNOWN, Statistics
from dovetail.planner.errors import Refused
from dovetail.planner.explain.records import CandidatePlan
from dovetail.planner.keys.key_set import KeyScheme
from dovetail.planner.logical import KeyedJoin
from dovetail.planner.physical.base import Physical, Spark
from dovetail.planner.physical.key_join import KeyJoin, preserved_sides
from dovetail.planner.physical.key_sets import KeySets
from dovetail.rules.band_join.key_cost import key_cost, with_levels
from dovetail.rules.band_join.keys import equal_key_pairs
from dovetail.rules.band_join.preserved_rows import with_matches
from dovetail.rules.band_join.spark_join import can_broadcast, few_pairs, pairwise_plan
from dovetail.rules.context import Context
from dovetail.rules.rule import rule

_FIXED = 1.0  # seconds before any pair is compared, by joins of 150,000 with 300 and 150,000 rows


@rule(KeyedJoin, streams="one")
def lower_key_join(join: KeyedJoin, ctx: Context) -> Physical:
    """Join on keys, unless Spark's own join is estimated to be as fast.

    Of several conjuncts with keys, the one takes part of which the fewest pairs share a key.
    """
    left, right = (UNKNOWN, UNKNOWN) if ctx.force else ctx.statistics_of(join.left, join.right)
    place = join.schemes[0].conjuncts[0].place
    if reason := few_pairs(join.kind, left, right, ctx, min(scheme.pair_time for scheme in join.schemes)):
        ctx.decline(f"{join.schemes[0]}: {reason}", place, "few_rows")
        return Spark(join.plain)
    own = _own_join(join, left, right, ctx)
    schemes = [measured for scheme in join.schemes if (measured := with_levels(scheme, join, (left, right), ctx))]
    if not schemes:
        ctx.choose(own)
        return Spark(join.plain)
    candidates = [_candidate(scheme, join, left, right, ctx) for scheme in schemes]
    seconds = [inf if one.seconds is None else one.seconds for one in candidates]
    best = seconds.index(min(seconds))
    found = candidates[best]
    if own.seconds is not None:
        own = own._replace(seconds=own.seconds * schemes[best].pair_time)
    own = _stopping_at_a_match(own, found, join, left)
    if own.seconds is not None and found.seconds is not None and own.seconds < LEAST_GAIN * found.seconds:
        shown = f"a join over {found.name} would compare {describe_pairs(found.pairs)}"
        ctx.decline(f"{shown}, which is no faster than {own.text}", place)
        ctx.choose(own, *candidates)
        return Spark(join.plain)
    ctx.choose(found, *(other for other in candidates if other is not found), own)
    scheme = schemes[best]
    chosen = KeyJoin(join.left, join.right, join.kind, KeySets((scheme,)), join.condition)
    try:
        return with_matches(chosen, join, ctx) if chosen.matched else chosen
    except Refused as no:
        ctx.decline(str(no), scheme.conjuncts[0].place)
        return Spark(join.plain)


def _is_matched(join: KeyedJoin, scheme: KeyScheme) -> bool:
    return any(scheme.copies(side) for side in preserved_sides(join.kind))


def _stopping_at_a_match(own: CandidatePlan, found: CandidatePlan, join: KeyedJoin, left: Statistics) -> CandidatePlan:
    """Spark's own plan of a semi or anti join, which compares a row only until it has a match."""
    if join.kind not in ("semi", "anti") or own.seconds is None or found.pairs is None or not left.rows:
        return own
    return own._replace(seconds=own.seconds / (1 + found.pairs / left.rows))


def _own_join(join: KeyedJoin, left: Statistics, right: Statistics, ctx: Context) -> CandidatePlan:
    """Spark's own join: by the equalities of its condition, or of all pairs."""
    if left.rows is None or right.rows is None:
        return pairwise_plan(None, None, keyed=True)
    equal = equal_key_pairs(join.plain, left, right, ctx)
    broadcast = equal is None and can_broadcast(join.kind, left, right, ctx)
    pairs = count_pairs(left, right) if equal is None else equal
    return pairwise_plan(left.rows + right.rows, pairs, keyed=False, broadcast=broadcast)


def _candidate(scheme: KeyScheme, join: KeyedJoin, left: Statistics, right: Statistics, ctx: Context) -> CandidatePlan:
    """The join over the keys of a scheme."""
    name = f"keys of {scheme}"
    estimated = key_cost(scheme, join, (left, right), ctx)
    if estimated is None:
        return CandidatePlan(name)
    text = f"{name}, {describe_pairs(estimated.pairs)}"
    times = times_to_match(join.kind) if _is_matched(join, scheme) else 1
    seconds = _FIXED + times * estimated.seconds if estimated.pairs is not None else None
    return CandidatePlan(text, estimated.rows, estimated.bytes, estimated.pairs, name=name, seconds=seconds)
