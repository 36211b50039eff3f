"""The least or the greatest value of each key of a join's right side, which decides whether a left row has a match."""

from __future__ import annotations

from dovetail.planner.expr import Scalar, quote
from dovetail.planner.expr.substitution import operand
from dovetail.planner.logical import Aggregate, Derived, Join, Logical, Project, hint_name
from dovetail.planner.logical.extreme_semi_join import ExtremeSemiJoin
from dovetail.rules.context import Context
from dovetail.rules.query.query_block import where


def over_groups(join: ExtremeSemiJoin, ctx: Context) -> Join:
    """The join with one row for each key of the right side: first the keys are compared, then this row.

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
