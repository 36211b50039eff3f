"""Decides where Spark's own join suffices, so that a band join needs no bins."""

from planner.catalog.cost import count_pairs, describe_pairs, nested_loop_seconds
from planner.catalog.stats import Statistics
from planner.explain.records import CandidatePlan
from planner.logical import BandJoin
from planner.physical.bin_join import preserved_sides
from rules.band_join.keys import estimate_key_pairs, has_keys, matches_at_most_one
from rules.context import Context


def find_unique_match(join: BandJoin, ctx: Context) -> str | None:
    """The reason why Spark's own join suffices for any number of rows: a unique match; None if there is none."""
    if not ctx.force and join.bin_width is None and matches_at_most_one(join, ctx):
        return "its equalities include a unique key of one side, so each row matches at most one in Spark's own join"
    return None


def pairwise_plan(
    rows: int | None, pairs: float | None, name: str = "Spark's own join", *, keyed: bool
) -> CandidatePlan:
    """The candidate plan that compares pairs; its time is known only without keys."""
    seconds = None if keyed else nested_loop_seconds(pairs)
    return CandidatePlan(f"{name}, {describe_pairs(pairs)}", rows, pairs=pairs, name=name, seconds=seconds, own=True)


def spark_join_suffices(join: BandJoin, left: Statistics, right: Statistics, ctx: Context) -> str | None:
    """The reason why Spark's own join suffices: few pairs, or few pairs with equal keys; None if there is none."""
    pairs, at = count_pairs(left, right), ctx.thresholds
    if pairs is None or left.rows is None or right.rows is None or join.bin_width is not None:
        return None
    if pairs < at.nested_loop_pairs:
        return "so few rows that Spark's own join is as good (nested_loop_pairs)"
    if pairs < at.broadcast_pairs and can_broadcast(join, left, right, ctx):
        return "so few rows that Spark's own join is as good (broadcast_pairs)"
    if has_keys(join):
        keyed = estimate_key_pairs(join, left, right, ctx)
        if keyed is not None and keyed < at.key_pairs_per_row * (left.rows + right.rows):
            return (
                f"{describe_pairs(keyed)} have equal keys, so few that Spark's own join is as good (key_pairs_per_row)"
            )
    return None


def can_broadcast(join: BandJoin, left: Statistics, right: Statistics, ctx: Context) -> bool:
    """Whether Spark broadcasts a side of its own join by its size."""
    return any(
        side.bytes is not None and side.bytes <= ctx.thresholds.broadcast_bytes
        for name, side in (("left", left), ("right", right))
        if name not in preserved_sides(join.kind)
    )
