"""What a join over keys costs, as samples of both sides show it."""

from __future__ import annotations

from collections import Counter

from dovetail.planner.band.linear import Side
from dovetail.planner.catalog.cost import KEY_SAMPLE, Cost, cost, estimate_copies
from dovetail.planner.catalog.stats import Statistics
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
    """A scheme with the levels that suit a sample, though any are right; None if most pairs would share a key."""
    relations = {"left": (join.left, sizes[0]), "right": (join.right, sizes[1])}
    for number, branch in enumerate(scheme.branches):
        if branch.leveled is None:
            continue
        side, items = branch.leveled.sampled
        relation, size = relations[side]
        samples = ctx.samples(((relation, items, size),), KEY_SAMPLE)
        if not samples or not samples[0]:
            continue
        if not ctx.force and (reason := branch.leveled.why_useless(samples[0])):
            return ctx.decline(f"{scheme}: {reason}", scheme.conjuncts[0].place)
        scheme = scheme.with_leveled(number, branch.leveled.fitted(samples[0], size.rows))
    return scheme
