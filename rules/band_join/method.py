"""How Spark joins over bins where it would do worse unasked: a small side is hashed, large sides are sorted."""

from math import inf

from planner.band.linear import Side
from planner.catalog.stats import Statistics
from planner.errors import Unsupported
from planner.expr import Scalar, column_ref
from planner.logical import BandJoin, JoinKind
from planner.physical.bin_join import Method, Pairs
from planner.sql.names import Source, Unresolved
from rules.analysis.correlation_keys import equal_columns, exact
from rules.context import Context

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


def equal_columns_of(join: BandJoin, ctx: Context) -> Pairs:
    """The columns that the condition holds equal, left and right, as text; only if equal values have one hash."""
    try:
        left, right = ctx.names.sources(join.left), ctx.names.sources(join.right)
        found = [_equal(conjunct, (*left, *right), len(left), ctx) for conjunct in join.condition]
    except (Unsupported, Unresolved):
        return ()
    return tuple(pair for pair in found if pair)


def _equal(conjunct: Scalar, sources: tuple[Source, ...], middle: int, ctx: Context) -> tuple[str, str] | None:
    """The two columns of one conjunct; whole numbers as one type, since an INT has another hash than a BIGINT."""
    pair = equal_columns(conjunct, sources, ctx)
    if pair is None:
        return None
    columns = [ctx.names.resolve(column_ref(end.tree), sources) for end in pair]
    types = [column.type for _, column in columns]
    if not all(map(exact, types)):
        return None
    first, second = (end.text if types[0] == types[1] else f"CAST({end.text} AS BIGINT)" for end in pair)
    match [index < middle for index, _ in columns]:
        case [True, False]:
            return first, second
        case [False, True]:
            return second, first
    return None
