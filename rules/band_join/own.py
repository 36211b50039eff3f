"""Where Spark's own join is as good as any other."""

from planner.catalog.cost import at_most_pairs, said_pairs
from planner.catalog.stats import Statistics
from planner.logical import BandJoin
from planner.physical.bin_join import preserved_sides
from rules.band_join.keys import has_keys, one_partner, pairs_of_keys
from rules.context import Context


def meets_one(join: BandJoin, ctx: Context) -> str | None:
    """Why Spark's own plan needs no bins, however many rows there are; None where it may."""
    if not ctx.force and join.bin_width is None and one_partner(join, ctx):
        return "its equalities hold a key of one side, so a row meets one other at most in Spark's own join"
    return None


def own_join_is_as_good(join: BandJoin, left: Statistics, right: Statistics, ctx: Context) -> str | None:
    """Why Spark's own plan needs no bins: so few pairs in all, or so few of equal keys; None where it does."""
    pairs, at = at_most_pairs(left, right), ctx.thresholds
    if pairs is None or left.rows is None or right.rows is None or join.bin_width is not None:
        return None
    if pairs < at.nested_loop_pairs:
        return "so few rows that Spark's own join is as good (nested_loop_pairs)"
    if pairs < at.broadcast_pairs and any(
        side.bytes is not None and side.bytes <= at.broadcast_bytes
        for name, side in (("left", left), ("right", right))
        if name not in preserved_sides(join.kind)
    ):
        return "so few rows that Spark's own join is as good (broadcast_pairs)"
    if has_keys(join):
        keyed = pairs_of_keys(join, left, right, ctx)
        if keyed is not None and keyed < at.key_pairs_per_row * (left.rows + right.rows):
            return f"{said_pairs(keyed)} have equal keys, so few that Spark's own join is as good (key_pairs_per_row)"
    return None
