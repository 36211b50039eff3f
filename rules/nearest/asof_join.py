"""Reads as-of joins as joins with the nearest row.

    trades t ASOF JOIN quotes q MATCH_CONDITION (t.ts >= q.ts) ON t.sym = q.sym

Spark has this join from 4.3 on, if ``spark.sql.join.asofJoin.enabled`` is set, and compares all rows of a key.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dovetail.planner.bind.from_columns import bare
from dovetail.planner.conditions.compared import compared
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, quote, without_parentheses
from dovetail.planner.expr.tokens import mentioned
from dovetail.planner.logical import Join
from dovetail.planner.logical.nearest_join import NearestJoin, ShownRelation
from dovetail.planner.logical.nearest_syntax import AsofJoin
from dovetail.rules.context import Context
from dovetail.rules.nearest.kept_rows import kept_above
from dovetail.rules.nearest.pairs import Pairs, Wanted
from dovetail.rules.nearest.shown_columns import joins_of, readers_of
from dovetail.rules.query.query_block import QueryBlock

_BACKWARD = (">", ">=")  # the left time against the right one


def nearest_of_asof_join(join: AsofJoin, block: QueryBlock, readers: tuple[Scalar, ...], ctx: Context) -> NearestJoin:
    """An as-of join with its nearest rows.  Raises ``Refused``."""
    merged = _merged(join, ctx) if join.using else ()
    plain = Join(join.left, join.right, join.kind, "JOIN", (*join.condition, *merged))
    pairs = Pairs(plain, (join.match, *plain.condition), ctx)
    found = compared(join.match)
    if found is None or not found.by_order:
        raise Refused(f"{join.match.shown} is no comparison by order")
    one = pairs.scope.compare_sides(found)
    if one is None:
        raise Refused(f"{join.match.shown} does not compare the left side with the right side")
    nearest = pairs.nearest(
        Wanted(without_parentheses(one.right), "backward" if one.sign in _BACKWARD else "forward"), readers
    )
    if join is block.tree:
        nearest = replace(nearest, kept=kept_above(block, join, ctx))
    if join.using:
        left, right = _with_merged(join, nearest.left, nearest.right, block, ctx)
        nearest = replace(nearest, left=left, right=right)
    return NearestJoin(
        join.left,
        join.right,
        join.kind,
        join.keyword,
        join.condition,
        nearest,
        match=join.match,
        using=join.using,
        foreign=not ctx.catalog.settings.asof_join,
    )


def _merged(join: AsofJoin, ctx: Context) -> tuple[Scalar, ...]:
    """USING as equalities.  Raises ``Refused``."""
    sides = ctx.names.sources(join.left), ctx.names.sources(join.right)
    if len(sides[0]) != 1 or len(sides[1]) != 1 or not (sides[0][0].names and sides[1][0].names):
        raise Refused("USING takes columns of more than one relation; write ON", join.match.place)
    left, right = (quote(side[0].names[-1]) for side in sides)
    return tuple(Scalar(f"{left}.{name} = {right}.{name}", (), join.match.place) for name in join.using)


def _with_merged(
    join: AsofJoin, left: tuple[ShownRelation, ...], right: tuple[ShownRelation, ...], block: QueryBlock, ctx: Context
) -> tuple[tuple[ShownRelation, ...], tuple[ShownRelation, ...]]:
    """The relations under USING: its columns stand first, and only on the left.

    Raises ``Refused`` where the query needs another order, or the right column.
    """
    names = ctx.names.folded(map(bare, join.using))
    (ours,), (theirs,) = ctx.names.sources(join.left), ctx.names.sources(join.right)
    (shown,), (other,) = left, right
    if any(n is not join and not isinstance(n, AsofJoin) for n in joins_of(block.tree)):
        raise Refused("USING stands beside another join; write ON", join.match.place)
    merged = {(theirs.folded_name, name) for name in names}
    for scalar in readers_of(block):
        if not _is_star(scalar) and (scalar.plans or "*" in mentioned(scalar.text) or _reads(scalar, merged, ctx)):
            raise Refused(f"{scalar.shown} may read a column that USING merges; write ON", scalar.place)
    first = [c for name in names for c in ours.columns_by_name.get(name, ())]
    rest, kept = (tuple(c for c in r.columns if not ctx.names.is_among(c.name, names)) for r in (shown, other))
    return (ShownRelation(shown.name, (*first, *rest)),), (ShownRelation(other.name, kept),)


def _is_star(scalar: Scalar) -> bool:
    """Whether an item is ``*``, without EXCEPT or the like."""
    return scalar.known is not None and isinstance(scalar.tree, exp.Star) and not any(scalar.tree.args.values())


def _reads(scalar: Scalar, columns: set[tuple[str, str]], ctx: Context) -> bool:
    """Whether an expression names one of some columns, by relation and name."""
    read = () if scalar.known is None else scalar.columns
    return any(ctx.names.folded(column.parts[-2:]) in columns for column in read)
