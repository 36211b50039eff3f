"""Chooses how a band join runs: with bins, or as Spark's own join where that is as fast."""

import re
from dataclasses import replace

from dovetail.planner.band.linear import Side
from dovetail.planner.catalog.cost import count_pairs, describe_pairs, describe_rows, nested_loop_seconds
from dovetail.planner.catalog.stats import UNKNOWN, Statistics
from dovetail.planner.errors import ReasonCode, Refused, Unsupported, a
from dovetail.planner.explain.records import CandidatePlan
from dovetail.planner.expr import ColumnRef, Scalar, sql
from dovetail.planner.expr.calls import repeated_otherwise
from dovetail.planner.logical import BandJoin
from dovetail.planner.physical.base import Physical, Spark
from dovetail.planner.physical.bin_join import BinJoin, preserved_sides
from dovetail.planner.types.schema import SqlType
from dovetail.planner.types.try_expressions import UnsafeSpeculation
from dovetail.rules.analysis.speculation import check_speculation
from dovetail.rules.band_join.band_selection import select_band
from dovetail.rules.band_join.bins import Candidate, candidates, for_sorting
from dovetail.rules.band_join.keys import has_keys
from dovetail.rules.band_join.method import equal_columns_of, is_large, method_of, side_to_hash
from dovetail.rules.band_join.spark_join import can_broadcast, find_unique_match, spark_join_suffices
from dovetail.rules.context import Context
from dovetail.rules.query.condition_scope import condition_scope
from dovetail.rules.rule import rule

_DISTINGUISHABLE = frozenset(
    "tinyint smallint int bigint decimal boolean date time timestamp timestamp_ntz interval string char varchar binary "
    "array struct".split()
)
# Types that DISTINCT does not take, that Spark drops from keys, or that hold values which are equal and yet differ.
_NOT_DISTINGUISHABLE = re.compile(
    r"\b(map|variant|void|float|double|collate|interval(?! (year|month|day|hour|minute|second)))\b"
)


@rule(BandJoin, streams="one")
def lower_band_join(join: BandJoin, ctx: Context) -> Physical:
    """Join on bins of the band, unless Spark's own join is estimated to be as fast.

    A band of constant width gets bins of that width, and the smaller side is copied to those that its band touches.
    Intervals get bins as wide as they are long, on levels where their lengths differ widely; their lengths are
    measured, since one bin width would copy a long interval into millions of bins.
    """
    left, right, reason = UNKNOWN, UNKNOWN, find_unique_match(join, ctx)
    if not ctx.force and not reason:
        left, right = ctx.statistics_of(join.left, join.right)
        reason = spark_join_suffices(join, left, right, ctx)
    if reason:
        code: ReasonCode = "few_rows" if left.known else "unique_match"
        ctx.decline(f"{join.band}: {reason}", join.band.conjuncts[0].place, code)
        spark_join = _own_join(join, left, right, ctx)
        ctx.choose(spark_join._replace(text=f"{spark_join}: {reason}"), "bins, which need one more shuffle")
        return Spark(join.plain)
    join = select_band(join, left, right, ctx)
    over_bins = candidates(join, left, right, ctx)
    if not over_bins:
        ctx.decline(f"{join.band}: the band is too wide, so bins would prune nothing", join.band.conjuncts[0].place)
        return Spark(join.plain)
    best = min(over_bins, key=_seconds)
    large = is_large(join, left, right, ctx) and not ctx.catalog.settings.sail  # Sail never sorts for a join
    build = side_to_hash(join.kind, best.sizes, ctx) if large else None
    if large and not build:
        over_bins = for_sorting(over_bins, join, left, right)
        best = min(over_bins, key=_seconds)
    ctx.choose(best.plan, *(other.plan for other in over_bins if other is not best), _own_join(join, left, right, ctx))
    chosen = BinJoin(join.left, join.right, join.kind, best.scheme, join.condition, join.hints)
    if chosen.matched:
        return _with_matches(chosen, join, ctx)
    if not large:
        return chosen
    equal = () if build else equal_columns_of(join, ctx)
    return replace(chosen, method=method_of(join, left, right, build, ctx), equal=equal)


def _own_join(join: BandJoin, left: Statistics, right: Statistics, ctx: Context) -> CandidatePlan:
    if ctx.force:
        return CandidatePlan("Spark's own join (force is set: no sizes were asked for)", own=True)
    if left.rows is None and right.rows is None:
        return CandidatePlan("Spark's own join (no sizes are known)", own=True)
    pairs = count_pairs(left, right)
    rows = None if left.rows is None or right.rows is None else left.rows + right.rows
    keyed = has_keys(join)  # then Spark compares only pairs with equal keys, and nobody knows how many there are
    compared, what = (None, " on the equal keys") if keyed else (pairs, f", {describe_pairs(pairs)}")
    text = f"Spark's own join{what} of {describe_rows(left)} × {describe_rows(right)} rows"
    seconds = nested_loop_seconds(compared, broadcast=can_broadcast(join, left, right, ctx))
    return CandidatePlan(text, rows, pairs=compared, name="Spark's own join", seconds=seconds, own=True)


def _seconds(candidate: Candidate) -> float:
    return candidate.cost.seconds if candidate.cost else 0


def _with_matches(chosen: BinJoin, join: BandJoin, ctx: Context) -> Physical:
    """The join with columns that identify the matches of preserved rows; Spark's own join if that is impossible."""
    place = join.band.conjuncts[0].place
    side = " and ".join(chosen.matched)
    keeps = f"{a(join.kind)} join must keep each {side} row once, and bins copy them"
    reason = ctx.nonrepeatable_reason(join.left, join.right)
    if reason:
        ctx.decline(f"{keeps}; finding their matches first reads both sides twice, and {reason}", place)
        return Spark(join.plain)
    try:
        _check_preserved(join, ctx)
        named = _named(join, ctx)
    except UnsafeSpeculation as no:
        ctx.decline(f"{keeps}; finding their matches first is an inner join, in which {no.reason}", place)
        return Spark(join.plain)
    except Refused as no:
        ctx.decline(f"{keeps}; finding their matches first needs to know all columns, and {no}", place)
        return Spark(join.plain)
    return replace(chosen, named=named)


def _check_preserved(join: BandJoin, ctx: Context) -> None:
    """Raise ``UnsafeSpeculation`` for a conjunct on one preserved side: an inner join evaluates it on all rows.

    The original join evaluates it only on rows that have a match by all conditions before it, except in a semi join.
    Raises ``Refused`` for one whose side is not known.
    """
    scope, sides = condition_scope(join, ctx), preserved_sides(join.kind) if join.kind != "semi" else ()
    own = (c for c in join.condition if sides and not c.plans and scope.side(c.tree) in sides)
    check_speculation(own, scope.type_of, ctx)


def _named(join: BandJoin, ctx: Context) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns of either side that the condition names, each once."""
    scope = ctx.scope(join.left, join.right)
    found: dict[Side, dict[tuple[int, str], str]] = {"left": {}, "right": {}}
    for conjunct in join.condition:
        if twice := repeated_otherwise(conjunct.tree):
            raise Unsupported(f"{sql(twice)} may have another value when it is evaluated twice", conjunct.place)
        for ref in _columns(conjunct):
            bound = scope.column(ref)
            side: Side = "right" if scope.item(bound) else "left"
            found[side].setdefault((bound.relation, ref.text), _distinguishing_value(ref.text, bound.column.type))
    return tuple(found["left"].values()), tuple(found["right"].values())


def _distinguishing_value(text: str, type_: SqlType | None) -> str:
    """Return a value that is equal only for indistinguishable columns; -0.0 and 0.0, or A and a, are distinguishable.

    Raises ``Unsupported`` for a type whose values Spark cannot distinguish.
    """
    if type_ is None:
        raise Unsupported(f"the type of {text} is not known")
    if type_.approximate:
        return f"CAST({text} AS STRING)"
    if type_.name == "string" and "collate" in type_.text:
        return f"{text} COLLATE UTF8_BINARY"
    if type_.name not in _DISTINGUISHABLE or _NOT_DISTINGUISHABLE.search(type_.text):
        raise Unsupported(f"{text} is of type {type_}, whose values Spark cannot distinguish")
    return text


def _columns(conjunct: Scalar) -> tuple[ColumnRef, ...]:
    if conjunct.plans:
        raise Unsupported(f"{conjunct.shown} holds a subquery", conjunct.place)
    return conjunct.columns
