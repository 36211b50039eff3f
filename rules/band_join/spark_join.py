"""Decides where Spark's own join suffices, so that a band join needs no bins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from dovetail.planner.band.condition import DistanceBand, IntervalBand
from dovetail.planner.catalog.cost import (
    LEAST_GAIN,
    Cost,
    count_pairs,
    describe_pairs,
    keyed_join_seconds,
    nested_loop_seconds,
)
from dovetail.planner.catalog.stats import Statistics
from dovetail.planner.explain.records import CandidatePlan
from dovetail.planner.logical import BandJoin, JoinKind
from dovetail.planner.physical.key_join import preserved_sides
from dovetail.rules.analysis.sizes import Conditions, Sizes, conditions_of_sides, estimated, sizes_of
from dovetail.rules.band_join.band_selection import BandMatches, sample_matches
from dovetail.rules.band_join.keys import has_keys, matches_at_most_one, matches_of_a_join, share_of_equal_keys
from dovetail.rules.context import Context

_SHORT = 0.2  # seconds; of shorter joins the thresholds decide, which are in pairs
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


@dataclass
class SparkJoin:
    """Spark's own join for a band join: the sizes of its sides, and the pairs that it compares.

    ``where``: the conditions above the join.  ``limit``: the rows that the query needs of it; None if it needs all.
    """

    join: BandJoin
    where: Conditions
    limit: int | None
    ctx: Context

    @cached_property
    def guessed_sizes(self) -> Sizes:
        """The sizes of both sides without a count."""
        return sizes_of((self.join.left, self.join.right), self.ctx)

    @cached_property
    def _decision(self) -> tuple[str | None, Sizes]:
        if self.join.bin_width is not None or self.ctx.force:
            return None, self.guessed_sizes
        sides = self.join.left, self.join.right
        own = conditions_of_sides(self.join, self.where, self.ctx)
        return estimated(sides, own, self.guessed_sizes, self._reason, self.ctx)

    @property
    def reason(self) -> str | None:
        """The reason why it suffices: few pairs, or few pairs with equal keys; None if there is none."""
        return self._decision[0]

    @property
    def sizes(self) -> Sizes:
        """The sizes of both sides, counted where that may have changed the decision."""
        return self._decision[1]

    @cached_property
    def key_share(self) -> float | None:
        """The share of pairs with equal keys; None if that is not known."""
        return share_of_equal_keys(self.join, *self.guessed_sizes, self.ctx) if has_keys(self.join) else 1.0

    def count_compared(self, left: Statistics, right: Statistics) -> float | None:
        """Estimate the pairs that it compares: those with equal keys, up to where nothing more is needed."""
        pairs, share = count_pairs(left, right), self.key_share
        if pairs is None or share is None:
            return None
        keyed, found = pairs * share, self._matches
        return keyed * found.compared_part(self.join.kind, self.limit, left.rows or 0, keyed) if found else keyed

    def is_faster_than(self, bins: Cost | None) -> str | None:
        """The reason why it is about as fast as a join over bins; None if that is not so, or not known."""
        if bins is None or self.ctx.force or self.join.bin_width is not None:
            return None
        compared = self.count_compared(*self.sizes)
        seconds = self.seconds(compared)
        if seconds is None or seconds < _SHORT:
            return None
        pairs = None if bins.pairs is None else bins.pairs * (self.key_share or 1)
        other = replace(bins, pairs=pairs).seconds
        if seconds > LEAST_GAIN * other:
            return None
        took = f"about {seconds:.2g} s on one core, and bins {other:.2g} s"
        return f"{describe_pairs(compared)} take Spark's own join {took}"

    def seconds(self, pairs: float | None) -> float | None:
        """Estimate the seconds on one core to compare so many pairs of rows of these sizes."""
        left, right = self.sizes
        broadcast = can_broadcast(self.join.kind, left, right, self.ctx)
        if not has_keys(self.join):
            return nested_loop_seconds(pairs, broadcast=broadcast)
        if pairs is None or left.rows is None or right.rows is None:
            return None
        return keyed_join_seconds(left.rows + right.rows, pairs, broadcast=broadcast)

    @cached_property
    def _matches(self) -> BandMatches | None:
        """What a sample of pairs shows of the band, where the join may stop before it has compared all of them."""
        stops = self.limit is not None or self.join.kind in ("semi", "anti")
        return sample_matches(self.join, *self.guessed_sizes, self.ctx) if stops else None

    def _reason(self, sizes: Sizes) -> str | None:
        left, right = sizes
        at, pairs, as_good = self.ctx.thresholds, count_pairs(left, right), "that Spark's own join is as good"
        broadcast = at.broadcast_pairs if can_broadcast(self.join.kind, left, right, self.ctx) else 0
        few, name = max((float(at.nested_loop_pairs), "nested_loop_pairs"), (float(broadcast), "broadcast_pairs"))
        if reason := few_pairs(self.join.kind, left, right, self.ctx):
            return reason
        have = ""
        if has_keys(self.join):
            if found := self._few_matches_of_a_join(left, right):
                return found
            few = at.key_pairs_per_row * ((left.rows or 0) + (right.rows or 0))
            have, name = "have equal keys", "key_pairs_per_row"
            if pairs is not None and self.key_share is not None and pairs * self.key_share < few:
                return f"{describe_pairs(pairs * self.key_share)} {have}, so few {as_good} ({name})"
        compared = self.count_compared(left, right)
        if self._matches is None or compared is None or compared >= few:
            return None
        have += " and are" if have else "are"
        return f"{describe_pairs(compared)} {have} compared until the rest is not needed, so few {as_good} ({name})"

    def _few_matches_of_a_join(self, left: Statistics, right: Statistics) -> str | None:
        """The reason why comparing pairs with equal keys suffices where a side is a join; None if there is none."""
        found, band = matches_of_a_join(self.join, left, right, self.ctx), self.join.band
        if found is None:
            return None
        each, side = found
        points = isinstance(band, DistanceBand) or (isinstance(band, IntervalBand) and side == band.side)
        if each < self.ctx.thresholds.key_pairs_per_row * (1 if points else _LEVELS):
            return (
                f"about {each:,.0f} rows have the key of a row of the joins on the {side} side, so few that Spark's "
                "own join is as good (key_pairs_per_row)"
            )
        return None


def few_pairs(kind: JoinKind, left: Statistics, right: Statistics, ctx: Context, pair_time: float = 1.0) -> str | None:
    """The reason why comparing all pairs suffices; None if they are many, or not known.

    ``pair_time``: how long a pair takes, in times of one that compares numbers.
    """
    pairs, at = count_pairs(left, right), ctx.thresholds
    shown = f"{describe_pairs(pairs)}, so few rows that Spark's own join is as good"
    if pairs is not None and pairs * pair_time < at.nested_loop_pairs:
        return f"{shown} (nested_loop_pairs)"
    if pairs is not None and pairs * pair_time < at.broadcast_pairs and can_broadcast(kind, left, right, ctx):
        return f"{shown} (broadcast_pairs)"
    return None


def can_broadcast(kind: JoinKind, left: Statistics, right: Statistics, ctx: Context) -> bool:
    """Whether Spark broadcasts a side of its own join by its size."""
    return any(
        side.bytes is not None and side.bytes <= ctx.thresholds.broadcast_bytes
        for name, side in (("left", left), ("right", right))
        if name not in preserved_sides(kind)
    )
