"""Decides whether nearest rows are sorted in ranges of time, and measures where these begin."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

from dovetail.planner.catalog.cost import KEY_SAMPLE
from dovetail.planner.catalog.measure import quantiles_sql
from dovetail.planner.catalog.stats import Statistics
from dovetail.planner.errors import Refused, Unsupported
from dovetail.planner.expr import Scalar
from dovetail.planner.logical import Filter, Logical
from dovetail.planner.logical.nearest_join import NearestJoin
from dovetail.planner.physical.time_ranges import PARTS, TimeRanges, range_position
from dovetail.planner.types.schema import SqlType
from dovetail.rules.analysis.sizes import own_conditions
from dovetail.rules.context import Context

_HOT_SHARE = 0.1
"""A key with at least this share of the rows of a sample is counted, and cut if it has too many rows for one task."""
_QUANTILE_ROWS = 40_000
"""The rows of both sides that are sampled for the quantiles of their times, about."""
_OUTLIERS = 0.002
"""This share of the rows is before all quantiles, and as many are behind them: each in a range of their own."""


def time_ranges(join: NearestJoin, ctx: Context) -> TimeRanges | None:
    """The ranges of time, where one task would sort too many rows otherwise; None for one task for each key."""
    sizes = ctx.statistics_of(join.left, join.right)
    rows = sum(size.rows or 0 for size in sizes)
    if not ctx.measures or rows <= ctx.thresholds.nearest_range_rows:
        return None
    if not all(size.plain and size.cheap for size in sizes):
        ctx.note_cost("one task sorts all rows of a key, not ranges of time: a side is more than a table with filters")
        return None
    keys = _hot_keys(join, sizes, ctx) if join.nearest.keys else (0,)
    if not keys:
        return None
    try:
        return _measured(join, _range_type(join, ctx), keys, rows, ctx)
    except (Refused, Unsupported) as no:
        ctx.note_cost(f"one task sorts all rows of a key, not ranges of time: {no}")
        return None


def _range_type(join: NearestJoin, ctx: Context) -> SqlType:
    """The type of the times.  Raises ``Refused`` where more than one row would have to be carried over into a range."""
    near, forward = join.nearest, join.nearest.direction == "forward"
    if near.direction == "both" or near.count > 1:
        raise Refused("a range would begin with several right rows")
    if not all(tie.descending == forward and tie.nulls_first != forward for tie in near.ties):
        raise Refused("a sort key and the time are sorted in different orders")
    of = _common_type(near.times, join, ctx)
    if of is None or range_position("", of) is None or not ctx.catalog.settings.engine.types_nulls:
        raise Refused("the times are not of one type that is a number, DATE or TIMESTAMP")
    keys = (_common_type((key.left, key.right), join, ctx) for key in near.keys)
    if not all(key and key.exact for key in keys):
        raise Refused("equal keys may have different hashes")
    columns = (column.type for relation in near.right for column in relation.columns)
    if not all(column and column.name not in ("char", "varchar") for column in columns):
        raise Refused("an aggregate would lose the length of CHAR, which Spark pads")
    if reason := ctx.nonrepeatable_reason(join.right):
        raise Refused(reason)
    return of


def _common_type(ends: tuple[str, str], join: NearestJoin, ctx: Context) -> SqlType | None:
    """The type of an expression over each side; None unless it is the same one."""
    left, right = (_type(end, side, ctx) for end, side in zip(ends, (join.left, join.right), strict=True))
    return left if left == right else None


def _type(expression: str, side: Logical, ctx: Context) -> SqlType | None:
    with suppress(Refused):
        return ctx.scope(side).bind(Scalar(expression).tree).type or ctx.spark_type(expression, side)
    return None


def _hash(join: NearestJoin, side: int) -> str:
    """The hash of the keys of a side, as SQL."""
    keys = ", ".join((key.left, key.right)[side] for key in join.nearest.keys)
    return f"hash({keys})" if keys else "0"


def _hot_keys(join: NearestJoin, sizes: tuple[Statistics, ...], ctx: Context) -> tuple[int, ...]:
    """The hashes of the keys that many of the first rows of a side have."""
    sides = tuple((side, _hash(join, n), sizes[n]) for n, side in enumerate((join.left, join.right)))
    counts = (Counter(row[0] for row in rows) for rows in ctx.samples(sides, KEY_SAMPLE) or ())
    hot = {key for count in counts for key, n in count.items() if n >= _HOT_SHARE * count.total()}
    return tuple(sorted(int(key) for key in hot if key is not None))


def _measured(join: NearestJoin, of: SqlType, keys: tuple[int, ...], rows: int, ctx: Context) -> TimeRanges | None:
    """The ranges of the keys with too many rows for one task, between the quantiles of the times of the first of them.

    None where no key has so many.  Raises ``Unsupported``.
    """
    near, texts = join.nearest, []
    conditions = own_conditions(near, outer=join.kind == "left")
    for n, (side, own) in enumerate(zip((join.left, join.right), conditions, strict=True)):
        items = f"{range_position(near.times[n], of)} AS at, {_hash(join, n)} AS k"
        texts.append(ctx.query(Filter(side, own) if own else side, items))
    share = min(1.0, _QUANTILE_ROWS / rows)
    condition = f"rand(1) < {share!r}D AND k IN ({', '.join(map(str, keys))})"
    points = (_OUTLIERS, *(n / PARTS for n in range(1, PARTS)), 1 - _OUTLIERS)
    found = ctx.measure(quantiles_sql(texts, points, condition)) or ()
    known = sorted(([float(n) for n in row if n is not None] for row in found), key=lambda row: (-row[1], row[0]))
    hot = [row for row in known if row[1] / share > ctx.thresholds.nearest_range_rows]
    bounds = sorted({q for q in hot[0][2:] if abs(q) < 1e300}) if hot else []
    if len(bounds) < 2:
        return None
    ctx.note_cost(f"about {hot[0][1] / share:.2g} rows of {'one key' if near.keys else 'both sides'}: ranges of time")
    return TimeRanges(tuple(bounds), tuple(sorted(int(row[0]) for row in hot)) if near.keys else ())
