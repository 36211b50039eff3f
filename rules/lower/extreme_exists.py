"""Chooses between the pairs of a semi or anti join and the least or greatest value of each key."""

from __future__ import annotations

from dovetail.planner.catalog.cost import count_pairs, describe_pairs, describe_rows, sort_seconds
from dovetail.planner.explain.records import CandidatePlan
from dovetail.planner.expr import Scalar, quote
from dovetail.planner.expr.substitution import operand
from dovetail.planner.logical import Aggregate, Derived, Join, Logical, Project, hint_name
from dovetail.planner.logical.extreme_semi_join import ExtremeSemiJoin
from dovetail.planner.physical.base import Rewriting, Spark
from dovetail.rules.analysis.sizes import Sizes, estimated, sizes_of
from dovetail.rules.band_join.keys import pair_counter
from dovetail.rules.band_join.spark_join import pairwise_plan
from dovetail.rules.context import Context
from dovetail.rules.query.query_block import where
from dovetail.rules.rule import rule

_PAIRS_PER_ROW = 10.0
"""Grouping a row of the right side costs about as much as comparing so many pairs with equal keys.

Measured: with half a pair for each row grouping takes 1 to 2 times as long, with 20 pairs 0.3 to 0.6 times.
"""


@rule(ExtremeSemiJoin)
def lower_extreme_exists(join: ExtremeSemiJoin, ctx: Context) -> Rewriting | Spark:
    """Group the right side to its least or greatest value of each key, unless there are few pairs.

    Spark compares a left row with the right rows of its key until one fits; with all of them where none does.
    """
    sides, keys = (join.left, join.right), [(key.left, key.right) for key in join.extreme.keys]
    sizes = sizes_of(sides, ctx)
    count_equal, reason = pair_counter(sides, keys, sizes, ctx), None

    def count(sizes: Sizes) -> float | None:
        pairs = count_pairs(*sizes)
        return count_equal(sizes) if pairs is None or pairs >= ctx.thresholds.nested_loop_pairs else pairs

    if not ctx.force:
        own = (join.extreme.left, join.extreme.right)
        reason, sizes = estimated(sides, own, sizes, lambda sizes: _reason(count(sizes), sizes, ctx), ctx)
    right, pairs = sizes[1], count(sizes)
    grouped = CandidatePlan(
        f"grouping {describe_rows(right)} rows of the right side", right.rows, seconds=sort_seconds(right.rows)
    )
    spark_join = pairwise_plan(right.rows, pairs, keyed=bool(join.extreme.keys))
    if reason:
        ctx.choose(spark_join, grouped)
        ctx.decline(reason, join.condition[0].place if join.condition else None, "few_rows")
        return Spark(join.plain)
    ctx.choose(grouped, spark_join)
    extreme = join.extreme
    what = (
        f"{extreme.function}({extreme.value}) of each key" if extreme.keys else f"{extreme.function}({extreme.value})"
    )
    return Rewriting(_over_groups(join, ctx), "ExtremeSemiJoin", f"{join.kind}, with {what}", join.output)


def _reason(pairs: float | None, sizes: Sizes, ctx: Context) -> str | None:
    """The reason why making so many pairs costs less than grouping the right side; None if it does not."""
    rows = sizes[1].rows
    if pairs is None or rows is None or pairs >= max(ctx.thresholds.nested_loop_pairs, _PAIRS_PER_ROW * rows):
        return None
    return f"{describe_pairs(pairs)}, so few that Spark's own join is as good"


def _over_groups(join: ExtremeSemiJoin, ctx: Context) -> Join:
    """The join with one row for each key of the right side.

    Without keys all rows are one group, so that there is no row where there was none: an aggregate without GROUP BY has
    one, with which Spark evaluates conditions on the left side that it would not evaluate otherwise.
    """
    extreme, name = join.extreme, _name(join, ctx)
    keys = {key.right: ctx.fresh("k") for key in extreme.keys}
    value = ctx.fresh("v")
    items = [*(f"{text} AS {key}" for text, key in keys.items()), f"{extreme.function}({extreme.value}) AS {value}"]
    rows: Logical = where(join.right, extreme.right)
    rows = Aggregate(rows, tuple(map(Scalar, keys or ("true",))))
    groups = Derived(Project(rows, tuple(map(Scalar, items))), name, (), f"AS {quote(name)}")
    condition = [
        *(f"{operand(k.left)} {'<=>' if k.null_safe else '='} {quote(name)}.{keys[k.right]}" for k in extreme.keys),
        *(f"{quote(name)}.{value} {b.sign} {operand(b.other)}" for b in extreme.bounds),
    ]
    return Join(join.left, groups, join.kind, join.keyword, (*map(Scalar, condition), *extreme.left))


def _name(join: ExtremeSemiJoin, ctx: Context) -> str:
    """The name of the right side, for hints that name it; another where the left side has this name."""
    taken = (name for source in ctx.names.sources(join.left) for name in source.names)
    name = hint_name(join.right)
    return ctx.fresh("g") if name is None or ctx.names.is_among(name, taken) else name
