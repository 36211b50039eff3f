"""Chooses how a join by keys that are no equality runs: over keys, or as Spark's own join where that is as fast."""

from collections import Counter
from math import inf

from dovetail.planner.band.linear import Side
from dovetail.planner.catalog.cost import (
    KEY_SAMPLE,
    LEAST_GAIN,
    cost,
    count_pairs,
    describe_pairs,
    estimate_copies,
)
from dovetail.planner.catalog.stats import UNKNOWN, Statistics
from dovetail.planner.explain.records import CandidatePlan
from dovetail.planner.keys.key_set import KeyScheme, all_keys
from dovetail.planner.keys.prefixes import choose_levels
from dovetail.planner.logical import KeyedJoin, Logical
from dovetail.planner.physical.base import Physical, Spark
from dovetail.planner.physical.key_join import KeyJoin, preserved_sides
from dovetail.planner.physical.key_sets import KeySets
from dovetail.rules.band_join.keys import equal_key_pairs
from dovetail.rules.band_join.preserved_rows import with_matches
from dovetail.rules.band_join.spark_join import can_broadcast, few_pairs, pairwise_plan
from dovetail.rules.context import Context
from dovetail.rules.rule import rule

# By the times of joins of 150,000 with 300 and 150,000 rows: one second is spent before any pair is compared, and
# finding the matches of preserved rows first takes about three times as long as the inner join.
_FIXED = 1.0
_MATCHED = 3
_MOST_EMPTY = 0.5  # of the prefixes: each meets all rows of the other side


@rule(KeyedJoin, streams="one")
def lower_key_join(join: KeyedJoin, ctx: Context) -> Physical:
    """Join on keys, unless Spark's own join is estimated to be as fast.

    Of several conjuncts with keys, the one takes part of which the fewest pairs share a key.
    """
    left, right = (UNKNOWN, UNKNOWN) if ctx.force else ctx.statistics_of(join.left, join.right)
    place = join.schemes[0].conjuncts[0].place
    if reason := few_pairs(join.kind, left, right, ctx):
        ctx.decline(f"{join.schemes[0]}: {reason}", place, "few_rows")
        return Spark(join.plain)
    own = _own_join(join, left, right, ctx)
    schemes = [measured for scheme in join.schemes if (measured := _with_levels(scheme, join, ctx))]
    if not schemes:
        ctx.choose(own)
        return Spark(join.plain)
    candidates = [_candidate(scheme, join, left, right, ctx) for scheme in schemes]
    seconds = [inf if one.seconds is None else one.seconds for one in candidates]
    best = seconds.index(min(seconds))
    found = candidates[best]
    own = _stopping_at_a_match(own, found, join, left)
    if own.seconds is not None and found.seconds is not None and own.seconds < LEAST_GAIN * found.seconds:
        ctx.decline(f"{found.text} share a key, which is no faster than {own.text}", place)
        ctx.choose(own, *candidates)
        return Spark(join.plain)
    ctx.choose(found, *(other for other in candidates if other is not found), own)
    scheme = schemes[best]
    chosen = KeyJoin(join.left, join.right, join.kind, KeySets((scheme,)), join.condition)
    return with_matches(chosen, join.plain, scheme.conjuncts[0].place, ctx) if chosen.matched else chosen


def _is_matched(join: KeyedJoin, scheme: KeyScheme) -> bool:
    return any(scheme.copies(side) for side in preserved_sides(join.kind))


def _with_levels(scheme: KeyScheme, join: KeyedJoin, ctx: Context) -> KeyScheme | None:
    """A scheme with the lengths that prefixes have in a sample, though any are right; None if most have none."""
    for number, side, length in scheme.lengths:
        relation = join.left if side == "left" else join.right
        sample = ctx.samples(((relation, length, ctx.statistics_of(relation)[0]),), KEY_SAMPLE)
        lengths = [int(row[0]) for row in (sample[0] if sample else ()) if row[0] is not None]
        if lengths and lengths.count(0) > _MOST_EMPTY * len(lengths) and not ctx.force:
            return ctx.decline(
                f"{scheme}: most patterns begin with a wildcard, or are empty", scheme.conjuncts[0].place
            )
        if lengths:
            scheme = scheme.with_levels(number, choose_levels(lengths))
    return scheme


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
    """The join over the keys of one conjunct, with the pairs that share a key as a sample of both sides has them."""
    name = f"keys of {scheme}"
    sides: tuple[tuple[Side, Logical, Statistics], ...] = (("left", join.left, left), ("right", join.right, right))
    copies = [estimate_copies(size, sum(one.copies for one in scheme.key_sets(side))) for side, _, size in sides]
    samples = None
    if left.plain and right.plain and left.rows and right.rows:
        queries = tuple((relation, all_keys(scheme, side), size) for side, relation, size in sides)
        samples = ctx.samples(queries, KEY_SAMPLE)
    pairs = None
    if samples and samples[0] and samples[1]:
        one, other = (Counter(row[0] for row in rows if row[0] is not None) for rows in samples)
        shared = sum(n * other[key] for key, n in one.items())
        pairs = shared / (len(samples[0]) * len(samples[1])) * copies[0][0] * copies[1][0]
    estimated = cost(copies[0], copies[1], pairs)
    if estimated is None:
        return CandidatePlan(name)
    text = f"{name}, {describe_pairs(pairs)}"
    times = _MATCHED if _is_matched(join, scheme) else 1
    seconds = _FIXED + times * estimated.seconds if pairs is not None else None
    return CandidatePlan(text, estimated.rows, estimated.bytes, pairs, name=name, seconds=seconds)
