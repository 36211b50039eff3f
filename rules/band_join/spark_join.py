"""Decides where Spark's own join suffices, so that a band join needs no bins."""

from dovetail.planner.band.condition import DistanceBand
from dovetail.planner.catalog.cost import count_pairs, describe_pairs, nested_loop_seconds
from dovetail.planner.catalog.stats import Statistics
from dovetail.planner.explain.records import CandidatePlan
from dovetail.planner.logical import BandJoin, JoinKind
from dovetail.planner.physical.key_join import preserved_sides
from dovetail.rules.band_join.keys import estimate_key_pairs, has_keys, matches_at_most_one, matches_of_a_join
from dovetail.rules.context import Context

_LEVELS = 10  # of bins, about, for intervals of a join, whose lengths cannot be measured


def find_unique_match(join: BandJoin, ctx: Context) -> str | None:
    """The reason why Spark's own join suffices for any number of rows: a unique match; None if there is none."""
    if not ctx.force and join.bin_width is None and matches_at_most_one(join, ctx):
        return "its equalities include a unique key of one side, so each row matches at most one in Spark's own join"
    return None


def pairwise_plan(
    rows: int | None, pairs: float | None, name: str = "Spark's own join", *, keyed: bool, broadcast: bool = False
) -> CandidatePlan:
    """The candidate plan that compares pairs; its time is known only without keys."""
    seconds = None if keyed else nested_loop_seconds(pairs, broadcast=broadcast)
    return CandidatePlan(f"{name}, {describe_pairs(pairs)}", rows, pairs=pairs, name=name, seconds=seconds, own=True)


def spark_join_suffices(join: BandJoin, left: Statistics, right: Statistics, ctx: Context) -> str | None:
    """The reason why Spark's own join suffices: few pairs, or few pairs with equal keys; None if there is none."""
    if join.bin_width is not None:
        return None
    if reason := few_pairs(join.kind, left, right, ctx):
        return reason
    return _few_pairs_of_equal_keys(join, left, right, ctx) if has_keys(join) else None


def few_pairs(kind: JoinKind, left: Statistics, right: Statistics, ctx: Context) -> str | None:
    """The reason why comparing all pairs suffices; None if they are many, or not known."""
    pairs, at = count_pairs(left, right), ctx.thresholds
    if pairs is not None and pairs < at.nested_loop_pairs:
        return "so few rows that Spark's own join is as good (nested_loop_pairs)"
    if pairs is not None and pairs < at.broadcast_pairs and can_broadcast(kind, left, right, ctx):
        return "so few rows that Spark's own join is as good (broadcast_pairs)"
    return None


def _few_pairs_of_equal_keys(join: BandJoin, left: Statistics, right: Statistics, ctx: Context) -> str | None:
    """The reason why comparing the pairs with equal keys suffices; None if they are many, or not known."""
    most = ctx.thresholds.key_pairs_per_row
    if found := matches_of_a_join(join, left, right, ctx):
        each, side = found
        intervals = not isinstance(join.band, DistanceBand) and side != getattr(join.band, "side", None)
        if each < most * (_LEVELS if intervals else 1):
            return (
                f"about {each:,.0f} rows have the key of a row of the joins on the {side} side, so few that Spark's "
                "own join is as good (key_pairs_per_row)"
            )
    elif left.rows is not None and right.rows is not None:
        keyed = estimate_key_pairs(join, left, right, ctx)
        if keyed is not None and keyed < most * (left.rows + right.rows):
            return (
                f"{describe_pairs(keyed)} have equal keys, so few that Spark's own join is as good (key_pairs_per_row)"
            )
    return None


def can_broadcast(kind: JoinKind, left: Statistics, right: Statistics, ctx: Context) -> bool:
    """Whether Spark broadcasts a side of its own join by its size."""
    return any(
        side.bytes is not None and side.bytes <= ctx.thresholds.broadcast_bytes
        for name, side in (("left", left), ("right", right))
        if name not in preserved_sides(kind)
    )
