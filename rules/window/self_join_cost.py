"""Compares a join of a table with itself on keys with a window by these keys."""

from __future__ import annotations

from dovetail.planner.catalog.cost import LEAST_GAIN, describe_pairs, keyed_join_seconds, sort_seconds
from dovetail.planner.logical import Logical
from dovetail.rules.analysis.sizes import Sizes, estimated, sizes_of
from dovetail.rules.band_join.keys import pair_counter
from dovetail.rules.context import Context


def self_join_suffices(relation: Logical, keys: tuple[str, ...], ctx: Context) -> str | None:
    """The reason why a self-join on keys is about as fast as a window; None if it is not, or that is not known.

    A window shuffles and sorts all rows.  A join shuffles them twice, unless Spark broadcasts them; then it has only
    the pairs of equal keys to compare.
    """
    if not keys or not ctx.measures:
        return None
    sides = relation, relation
    sizes = sizes_of(sides, ctx)
    count = pair_counter(sides, [(key, key) for key in keys], sizes, ctx)

    def decide(sizes: Sizes) -> str | None:
        rows, most = sizes[0].rows, LEAST_GAIN * (sort_seconds(sizes[0].rows) or 0)
        is_small = sizes[0].bytes is not None and sizes[0].bytes <= ctx.thresholds.broadcast_bytes
        if rows is None or keyed_join_seconds(2 * rows, 0, broadcast=is_small) > most:
            return None
        pairs = count(sizes)
        if pairs is None or keyed_join_seconds(2 * rows, pairs, broadcast=is_small) > most:
            return None
        return f"{describe_pairs(pairs)} have equal keys, so few that the join is as good"

    return estimated(sides, ((), ()), sizes, decide, ctx)[0]
