"""Chooses a join hint for joins over bins: shuffle hash for a small side, merge instead of a slow broadcast."""

from math import inf

from dovetail.planner.band.bins import EVERYTHING
from dovetail.planner.band.linear import Side
from dovetail.planner.bind.scope import Scope
from dovetail.planner.catalog.cost import CACHED_BYTES, DENSE_PAIRS, HASH_JOIN_SHARE
from dovetail.planner.catalog.stats import Statistics
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar
from dovetail.planner.logical import BandJoin, JoinKind, hint_name
from dovetail.planner.physical.key_join import Method, Pairs
from dovetail.rules.analysis.correlation_keys import equal_columns
from dovetail.rules.band_join.bins import Candidate
from dovetail.rules.band_join.keys import has_keys
from dovetail.rules.context import Context

_BUILT: dict[JoinKind, tuple[Side, ...]] = {
    "inner": ("left", "right"),
    "cross": ("left", "right"),
    "left": ("right",),
    "semi": ("right",),
    "anti": ("right",),
    "right": ("left",),
}  # the sides of which Spark builds a hash table


def is_large(join: BandJoin, left: Statistics, right: Statistics, ctx: Context) -> bool:
    """Whether both sides are so large that a join hint may help, and Spark takes one."""
    return _takes_hint(join, ctx) and min(left.bytes or 0, right.bytes or 0) > ctx.thresholds.hash_from_bytes


def _takes_hint(join: BandJoin, ctx: Context) -> bool:
    """Whether Spark can be told how to join: the user gave no hint, and the engine sorts."""
    return ctx.catalog.settings.engine.sorts_to_join and not any(h.hint.strategy for h in join.hints)


def _is_dense(join: BandJoin, found: Candidate) -> bool:
    """Whether so many rows share a bin that sorting both sides is faster than a hash table.

    For each row a hash join follows the rows of a bin from one place in memory to the next, where a sort-merge join
    reads them in a row.  A semi or anti join reads one match; of a bin, few rows have equal keys; and all points would
    go to one task for intervals without an end, which share one bin.
    """
    cost = found.cost
    if cost is None or cost.pairs is None or join.kind in ("semi", "anti") or has_keys(join):
        return False
    if any(longest >= EVERYTHING for side in found.lengths for longest, _ in side.classes):
        return False
    return cost.pairs > DENSE_PAIRS * cost.rows and min(cost.sizes) > CACHED_BYTES


def side_to_hash(kind: JoinKind, sizes: tuple[float, float] | None, ctx: Context) -> Side | None:
    """Choose the build side of a hash join that is faster than sorting both sides; None if there is none.

    ``sizes``: bytes of both sides with their copies.  Lookups in a large hash table miss the CPU caches, which is
    slower than sorting; but a semi or anti join looks up only one match of a row.
    """
    if sizes is None:
        return None
    at, of = ctx.thresholds, {"left": sizes[0], "right": sizes[1]}
    small = min(_BUILT.get(kind, ()), key=lambda side: of[side], default=None)
    most = min(at.hash_join_bytes, max(sizes) * HASH_JOIN_SHARE)
    if kind in ("semi", "anti"):
        most = at.hash_build_bytes
    return small if small and of[small] <= most else None


def method_of(
    join: BandJoin, found: Candidate, left: Statistics, right: Statistics, ctx: Context
) -> tuple[Method | None, Pairs]:
    """The join hint over the bins of a candidate, and the equal columns to hash into these; None where Spark decides.

    Without a hint Spark broadcasts a side whose files are small, which may be a million rows that one thread collects.
    A hint means a side by its name, so a side that is a join without an alias cannot have one.
    """
    named: dict[Side, str | None] = {"left": hint_name(join.left), "right": hint_name(join.right)}
    if _takes_hint(join, ctx) and _is_dense(join, found):
        side = next((side for side, name in named.items() if name), None)
        why = "many rows share a bin, and a hash join would look each of them up"
        return (Method("MERGE", side, why) if side else None), ()
    if not is_large(join, left, right, ctx):
        return None, ()
    if build := side_to_hash(join.kind, found.sizes, ctx):
        return (Method("SHUFFLE_HASH", build) if named[build] else None), ()
    equal = _equal_columns(join, ctx)
    files: dict[Side, float] = {"left": left.bytes or inf, "right": right.bytes or inf}
    small = min(_BUILT.get(join.kind, ()), key=lambda side: files[side], default=None)
    if small is None or not named[small] or files[small] > ctx.thresholds.broadcast_bytes:
        return None, equal
    return Method("MERGE", small, f"Spark would broadcast the {small} side, whose files are small"), equal


def _equal_columns(join: BandJoin, ctx: Context) -> Pairs:
    """The left and right columns of the equalities, as text; only those whose equal values have equal hashes."""
    scope = ctx.scope(join.left, join.right)
    try:
        found = [_equal(conjunct, scope) for conjunct in join.condition]
    except Refused:
        return ()
    return tuple(pair for pair in found if pair)


def _equal(conjunct: Scalar, scope: Scope) -> tuple[str, str] | None:
    """The two columns of an equality; integers as one type, because an INT and a BIGINT hash differently."""
    pair = equal_columns(conjunct, scope)
    if pair is None:
        return None
    columns = [scope.column(end.tree) for end in pair]
    types = [found.column.type for found in columns]
    if not all(t and t.exact for t in types):
        return None
    first, second = (end.text if types[0] == types[1] else f"CAST({end.text} AS BIGINT)" for end in pair)
    match [scope.item(found) for found in columns]:
        case [0, 1]:
            return first, second
        case [1, 0]:
            return second, first
    return None
