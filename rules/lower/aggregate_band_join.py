"""Chooses running sums for a band join whose pairs are only aggregated."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from math import isfinite

from sqlglot import exp

from dovetail.planner.band.axis import real
from dovetail.planner.band.bins import EVERYTHING
from dovetail.planner.band.condition import DistanceBand, IntervalBand
from dovetail.planner.band.ends import Ends, read_ends
from dovetail.planner.band.linear import ConditionScope, Side
from dovetail.planner.catalog.stats import LengthClass
from dovetail.planner.conditions.compared import compared
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, sql, without_parentheses
from dovetail.planner.logical import BandJoin, Logical, Project, Sort
from dovetail.planner.logical.joins import EqualKey
from dovetail.planner.physical.band_aggregate import Cells, RunningBandAggregate, real_position
from dovetail.planner.physical.covered_band_aggregate import CoveredBandAggregate
from dovetail.planner.physical.key_join import preserved_sides
from dovetail.planner.tree import values_of
from dovetail.rules.band_join.aggregate_items import AggregateParts, ItemReader, plain_filter
from dovetail.rules.band_join.keys import sample_rows
from dovetail.rules.band_join.spark_join import SparkJoin
from dovetail.rules.context import Context, Intervals
from dovetail.rules.query.condition_scope import condition_scope
from dovetail.rules.query.query_block import QueryBlock
from dovetail.rules.rule import rule

_CELLS = 127
_MOST_COVERING = 4_000_000  # intervals: what covers their bins, half as many, is summed up in one task
_ENTRY = 96  # bytes of an interval, or of what covers a bin, in a hash table
_KEYED = 2  # so much sooner running sums pay where keys are equal: the pairs cost as much more
_ENDLESS = 0.5  # what part of the intervals without an end hold a point
_FEW_ROWS = 2**31  # sums of so many INTs fit BIGINT


@rule(Sort, Project, block=True, needs=("aggregate",))
def aggregate_band_join(block: QueryBlock, ctx: Context) -> RunningBandAggregate | None:
    """Compute the aggregates of a band join from running sums over sorted ends, without making its pairs.

    Where a SELECT is nothing but counts, exact sums, min and max over a band and equalities, the number of intervals
    that hold a point is a running sum.  It pays where pairs are many more than rows.  An outer join preserves the
    grouped side: each of its rows counts once more, with nothing to add up.
    """
    join = block.tree
    if not isinstance(join, BandJoin) or join.kind not in ("inner", "cross", "left", "right"):
        return None
    if len(block.above) > 1 or not block.is_aggregated or not ctx.measures:
        return None
    if block.project.hint or join.hints or join.bin_width is not None:
        return None
    spark_join = SparkJoin(join, block.condition, None, ctx)
    if spark_join.reason:
        return None
    try:
        plan = _Planning(block, join, ctx, spark_join).plan()
    except Refused as no:
        ctx.decline(f"running sums do not apply: {no.reason}", no.place or join.band.conjuncts[0].place)
        return None
    return plan


@dataclass(frozen=True)
class _Extent:
    """From where to where points lie, and how many intervals there are; 0 if that has not been measured."""

    first: float
    last: float
    intervals: int
    matches: float = 0.0  # for each point

    def cells(self, count: int) -> Cells:
        """Cut into so many cells."""
        return Cells(self.first, (self.last - self.first) / count if self.last > self.first else 1.0, count)


class _Planning:
    """One block on its way to an operator; its methods raise ``Refused`` where it cannot be one."""

    def __init__(self, block: QueryBlock, join: BandJoin, ctx: Context, spark_join: SparkJoin):
        self.block, self.join, self.ctx, self.spark_join = block, join, ctx, spark_join
        self.sizes = dict(zip(("left", "right"), spark_join.sizes, strict=True))
        self.scope: ConditionScope = condition_scope(self.join, ctx)

    def plan(self) -> RunningBandAggregate | None:
        """The operator; None where the pairs are too few for it."""
        if self.block.project.quantifier:
            raise Refused("the query is SELECT DISTINCT")
        ends = self._ends()
        keys, filters = self._rest()
        reader = ItemReader(self.block, self.join, self.ctx)
        preserved = next(iter(preserved_sides(self.join.kind)), None)
        grouped = reader.grouped_side() or preserved or ends.side
        summed: Side = "right" if grouped == "left" else "left"
        rows = self.sizes[summed].rows
        few = not self.ctx.force and rows is not None and rows < _FEW_ROWS
        ansi = self.ctx.catalog.settings.ansi
        read = reader.read(AggregateParts(grouped, grouped == ends.side, few, ansi))
        if not keys and (reason := self.ctx.nonrepeatable_reason(self._side(summed))):
            raise Refused(f"without equal keys the {summed} side is read twice, and {reason}")
        if preserved:
            self._check_preserved(preserved, grouped, read)
        extent = self._extent(ends, bool(keys))
        if extent is None:
            return None
        running = RunningBandAggregate(
            self.join.left,
            self.join.right,
            self.block.project.items,
            self._describe(),
            ends,
            grouped,
            keys,
            filters,
            tuple(read.carried.values()),
            tuple(read.added.values()),
            tuple(read.totals),
            read.groups,
            tuple(read.columns),
            read.having,
            read.order,
            None if keys else extent.cells(_CELLS),
            self.block.project.names,
            self.block.condition if preserved else None,
            self.ctx.catalog.settings.engine.merges_runs,
        )
        if keys or grouped != ends.side or extent.intervals > _MOST_COVERING:
            self._choose("running sums over", extent, ends)
            return running
        bins = max(_CELLS, extent.intervals // 2)
        self._choose(f"what covers {bins:,} bins, for", extent, ends)
        hashed = (2 * extent.intervals + bins) * _ENTRY < self.ctx.thresholds.hash_join_bytes
        return CoveredBandAggregate(**{**values_of(running), "cells": extent.cells(bins)}, hashed=hashed)

    def _check_preserved(self, preserved: Side, grouped: Side, parts: AggregateParts) -> None:
        """Raise ``Refused`` where rows without a match count otherwise than with nothing to add up."""
        if preserved != grouped:
            raise Refused(f"its groups are of the {grouped} side, which the {self.join.kind} join does not preserve")
        if any(total.function in ("count", "sum") and total.summed_column is None for total in parts.totals):
            raise Refused(f"it counts or sums rows of the {grouped} side, also those without a match")
        for conjunct in self.block.condition:
            if conjunct.plans or self.scope.side(conjunct.tree) != grouped:
                raise Refused(f"{conjunct.shown} in WHERE is of more than the preserved side", conjunct.place)
        if reason := self.ctx.nonrepeatable_reason(self._side(grouped)):
            raise Refused(f"the preserved {grouped} side is read twice, and {reason}")

    def _choose(self, what: str, extent: _Extent, ends: Ends) -> None:
        if not self.ctx.force:
            self.ctx.choose(
                f"{what} {self._rows(ends.side)} points and {2 * extent.intervals:,} ends",
                f"pairs, about {extent.matches:,.0f} for each point (running_sum_matches)",
            )

    def _side(self, side: Side) -> Logical:
        return self.join.left if side == "left" else self.join.right

    def _describe(self) -> str:
        band = set(self.join.band.conjuncts)
        rest = [c.shown for c in (*self.join.condition, *self.block.condition) if c not in band]
        groups = [self.block.aggregate.detail] if self.block.aggregate else []
        having = [f"having {c.shown}" for c in self.block.having]
        order = [self.block.sort.shown] if self.block.sort else []
        return ", ".join([*groups, *rest, str(self.join.band), *having, *order])

    def _ends(self) -> Ends:
        band = self.join.band
        if not isinstance(band, DistanceBand | IntervalBand):
            raise Refused(f"{band}: both sides are intervals")
        return read_ends(band, self.scope)

    def _rest(self) -> tuple[tuple[EqualKey, ...], tuple[tuple[Scalar, ...], tuple[Scalar, ...]]]:
        """The equalities as keys, and the conditions on one side."""
        band = set(self.join.band.conjuncts)
        keys: list[EqualKey] = []
        filters: dict[str, list[Scalar]] = {"left": [], "right": []}
        for conjunct in (*(c for c in self.join.condition if c not in band), *self.block.condition):
            tree = without_parentheses(conjunct.tree)
            side = None if conjunct.plans else self.scope.side(tree)
            if side in ("left", "right") and plain_filter(tree):
                filters[side].append(conjunct)
            elif side == "both" and (key := self._key(tree)):
                keys.append(key)
            else:
                raise Refused(f"{conjunct.shown} depends on both rows of a pair", conjunct.place)
        return tuple(keys), (tuple(filters["left"]), tuple(filters["right"]))

    def _key(self, tree: exp.Expression) -> EqualKey | None:
        """An equality of two columns whose types are compared as they are."""
        found = compared(tree)
        comparison = self.scope.compare_sides(found) if found and found.equal and found.columns else None
        if comparison is None:
            return None
        types, texts = [self.scope.type_of(x) for x in comparison.operands], [*map(sql, comparison.operands)]
        if any(t is None or not t.exact for t in types):
            return None
        if types[0] != types[1]:
            if not all(t is not None and t.integral for t in types):
                return None
            texts = [f"CAST({text} AS BIGINT)" for text in texts]
        return EqualKey(texts[0], texts[1], comparison.sign == "<=>")

    def _extent(self, ends: Ends, keyed: bool) -> _Extent | None:
        """Where the points lie, among how many intervals; None where running sums do not pay."""
        ctx, points = self.ctx, ends.side
        intervals: Side = "right" if points == "left" else "left"
        low, high = real_position(ends.low, ends.type), real_position(ends.high, ends.type)
        if ctx.force:
            return _Extent(*(_extent(self._measure(intervals, low, high)) or (0.0, float(_CELLS))), 0)
        if isinstance(self.join.band, DistanceBand):
            likely = self._sampled_matches(self.join.band, intervals)
            if self._paying(likely, self.sizes[intervals].rows or 0, keyed=keyed) is None:
                return None
        lengths = self._measure(intervals, low, high)
        if lengths is None:
            ctx.choose("pairs, since the lengths of intervals are not known", "running sums")
            return None
        count = sum(c.count for c in lengths)
        # The estimate from intervals alone is an upper bound: points may lie elsewhere.
        if self._paying(_matches(lengths, None), count, keyed=keyed) is None:
            return None
        if self.sizes[points].plain:
            span = ctx.extent(self._side(points), real_position(ends.point, ends.type))
        else:  # to measure computed points costs as much as the query; sums bound the cost, pairs have no bound
            note = "points not measured, since they are computed; they count as lying among the intervals"
            ctx.note_cost(note)
            span = _extent(lengths)
        matches = self._paying(_matches(lengths, span) if span else None, count, keyed=keyed)
        return None if span is None or matches is None else _Extent(*span, count, matches)

    def _paying(self, matches: float | None, count: int, *, keyed: bool) -> float | None:
        """How many of the matches of a point have equal keys as well; None where these are too few to pay.

        ``count``: how many intervals there are.
        """
        share = self.spark_join.key_share if keyed else 1.0
        found = None if matches is None or share is None else matches * share
        if found is not None and found >= self.ctx.thresholds.running_sum_matches / (_KEYED if keyed else 1):
            return found
        self._give_up(found, count)
        return None

    def _measure(self, side: Side, low: str, high: str) -> tuple[LengthClass, ...] | None:
        return self.ctx.lengths(Intervals(self._side(side), low, high, self.sizes[side].cheap))[0]

    def _sampled_matches(self, band: DistanceBand, other: Side) -> float | None:
        """How many rows of the other side lie within the band of a row, by the first rows of either side."""
        rows = self.sizes[other].rows
        sizes = self.spark_join.guessed_sizes
        first = sample_rows(self.join, *sizes, self.ctx) if all(size.plain for size in sizes) else None
        if rows is None or first is None:
            return None
        lefts, rights = (sorted(x for x in side if x is not None and isfinite(x)) for side in first.positions)
        if not lefts or not rights:
            return None
        low, high = real(band.low), real(band.high)
        held = sum(bisect_right(rights, x - low) - bisect_left(rights, x - high) for x in lefts)
        return held / (len(lefts) * len(rights)) * rows

    def _rows(self, side: str) -> str:
        rows = self.sizes[side].rows
        return "an unknown number of" if rows is None else f"about {rows:,}"

    def _give_up(self, matches: float | None, count: int) -> None:
        amount = "an unknown number of pairs" if matches is None else f"about {matches:,.1f} pairs"
        self.ctx.choose(
            f"pairs, {amount} for each point",
            f"running sums over all points and {2 * count:,} ends (running_sum_matches)",
        )


def _extent(classes: tuple[LengthClass, ...] | None) -> tuple[float, float] | None:
    """From where to where intervals lie, without those of no end."""
    finite = [c for c in classes or () if _has_ends(c)]
    if not finite:
        return None
    return min(c.first for c in finite), max(c.last for c in finite)


def _has_ends(c: LengthClass) -> bool:
    return c.longest < EVERYTHING and c.first > -EVERYTHING and c.last < EVERYTHING


def _matches(classes: tuple[LengthClass, ...], span: tuple[float, float] | None) -> float:
    """How many intervals hold a point, where the points lie evenly on ``span``, or as well as can be if that is None.

    Each class of intervals is spread evenly from its first to its last end.  Of those that end nowhere, half hold a
    point: each begins, or ends, somewhere among the points.
    """
    return sum(c.count * _ENDLESS if not _has_ends(c) else _held(c) * _part(c, span) for c in classes)


def _held(c: LengthClass) -> float:
    """How many intervals of a class hold a point among them."""
    return min(float(c.count), c.total / (c.last - c.first)) if c.last > c.first else float(c.count)


def _part(c: LengthClass, span: tuple[float, float] | None) -> float:
    """Estimate the share of points that lie in intervals of a class."""
    if span is None:
        return 1.0
    first, last = max(c.first, span[0]), min(c.last, span[1])
    if last < first:
        return 0.0
    return (last - first) / (span[1] - span[0]) if last > first else float(c.first == c.last or span[0] == span[1])
