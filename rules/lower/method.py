"""How Spark joins over bins where it would do worse unasked: a small side is hashed, large sides are sorted."""

from math import inf

from planner.linear import Side
from planner.logical import BandJoin, JoinKind
from planner.physical.bin_join import Method
from planner.stats import Statistics
from rules.rule import Context

_BUILT: dict[JoinKind, tuple[Side, ...]] = {
    "inner": ("left", "right"),
    "cross": ("left", "right"),
    "left": ("right",),
    "semi": ("right",),
    "anti": ("right",),
    "right": ("left",),
}  # the sides of which Spark makes a hash table, as a user would expect


def is_large(join: BandJoin, left: Statistics, right: Statistics, ctx: Context) -> bool:
    """Whether Spark shall be told how to join: both sides are large, and the user says nothing."""
    told = any(h.hint.strategy for h in join.hints)
    return not told and min(left.bytes or 0, right.bytes or 0) > ctx.thresholds.hash_from_bytes


def side_to_hash(kind: JoinKind, sizes: tuple[float, float] | None, ctx: Context) -> Side | None:
    """The side whose rows make a hash table that is faster than sorting both; None where neither does.

    ``sizes``: bytes of both sides with their copies.  In a large table every row that is looked up is somewhere else in
    memory, which is slower than sorting; but a semi or anti join looks up one match of a row.
    """
    if sizes is None:
        return None
    at, of = ctx.thresholds, {"left": sizes[0], "right": sizes[1]}
    small = min(_BUILT.get(kind, ()), key=lambda side: of[side], default=None)
    most = min(at.hash_join_bytes, max(sizes) * at.hash_join_share)
    if kind in ("semi", "anti"):
        most = at.hash_build_bytes
    return small if small and of[small] <= most else None


def method_of(join: BandJoin, left: Statistics, right: Statistics, build: Side | None, ctx: Context) -> Method | None:
    """What Spark is told of two large sides, ``build`` being the one to hash; nothing where it sorts unasked.

    Unasked it broadcasts a side that is small in its files, which may be a million rows that one thread collects.
    """
    if build:
        return Method("SHUFFLE_HASH", build)
    files: dict[Side, float] = {"left": left.bytes or inf, "right": right.bytes or inf}
    small = min(_BUILT.get(join.kind, ()), key=lambda side: files[side], default=None)
    return Method("MERGE", small) if small and files[small] <= ctx.thresholds.broadcast_bytes else None
