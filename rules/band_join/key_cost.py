"""What a join over keys costs, as samples of both sides show it."""

from __future__ import annotations

from collections import Counter

from dovetail.planner.band.linear import Side
from dovetail.planner.catalog import Numbers
from dovetail.planner.catalog.cost import KEY_SAMPLE, Cost, cost, estimate_copies
from dovetail.planner.catalog.stats import Statistics
from dovetail.planner.errors import Refused
from dovetail.planner.keys.key_set import KeyScheme, all_keys
from dovetail.planner.logical import BandJoin, KeyedJoin, Logical
from dovetail.rules.analysis.sizes import Sizes
from dovetail.rules.context import Context


def key_cost(scheme: KeyScheme, join: KeyedJoin | BandJoin, sizes: Sizes, ctx: Context) -> Cost | None:
    """The cost of a join over the keys of a scheme, with the pairs that share a key; None if sizes are not known."""
    left, right = sizes
    sides: tuple[tuple[Side, Logical, Statistics], ...] = (("left", join.left, left), ("right", join.right, right))
    one, other = (estimate_copies(size, sum(keys.copies for keys in scheme.key_sets(side))) for side, _, size in sides)
    samples = None
    if left.plain and right.plain and left.rows and right.rows:
        queries = tuple((relation, all_keys(scheme, side), size) for side, relation, size in sides)
        samples = ctx.samples(queries, KEY_SAMPLE)
    pairs = None
    if samples and samples[0] and samples[1]:
        keys, others = (Counter(row[0] for row in rows if row[0] is not None) for rows in samples)
        shared = sum(n * others[key] for key, n in keys.items())
        pairs = shared / (len(samples[0]) * len(samples[1])) * one[0] * other[0]
    return cost(one, other, pairs)


def with_levels(scheme: KeyScheme, join: KeyedJoin | BandJoin, sizes: Sizes, ctx: Context) -> KeyScheme | None:
    """A scheme with the levels that suit a sample, though any are right; None if it would save nothing."""
    relations: dict[Side, tuple[Logical, Statistics]] = {
        "left": (join.left, sizes[0]),
        "right": (join.right, sizes[1]),
    }
    for number, branch in enumerate(scheme.branches):
        if branch.leveled is None:
            continue
        leveled = branch.leveled
        try:
            if sample := _sample(leveled.sampled, relations, ctx):
                if not ctx.force and (reason := leveled.why_useless(sample)):
                    raise Refused(reason)
                leveled = leveled.fitted(sample, relations[leveled.sampled[0]][1].rows)
            if leveled.copied and not ctx.force and (sample := _sample(leveled.copied, relations, ctx)):
                leveled = leveled.with_copies(sample)
        except Refused as no:
            return ctx.decline(f"{scheme}: {no}", scheme.conjuncts[0].place)
        scheme = scheme.with_leveled(number, leveled)
    return scheme


def _sample(
    asked: tuple[Side, str], relations: dict[Side, tuple[Logical, Statistics]], ctx: Context
) -> tuple[Numbers, ...]:
    """What expressions of a side are for some of its rows; empty if that is not known."""
    side, items = asked
    samples = ctx.samples(((relations[side][0], items, relations[side][1]),), KEY_SAMPLE)
    return samples[0] if samples else ()
