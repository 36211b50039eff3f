"""Reads NEAREST BY as a join with the nearest rows: ``a JOIN b EXACT NEAREST 3 BY DISTANCE abs(a.x - b.x)``.

Spark ranks all pairs.  A pair whose ranking expression is NULL is no match, and NaN is the greatest value.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, sql, without_parentheses
from dovetail.planner.expr.substitution import operand
from dovetail.planner.logical import Join
from dovetail.planner.logical.nearest_join import NearestJoin, ShownRelation
from dovetail.planner.logical.nearest_syntax import AsofJoin, NearestByJoin
from dovetail.rules.context import Context
from dovetail.rules.nearest.distance import Distance, read_distance
from dovetail.rules.nearest.first_row import MOST_ROWS
from dovetail.rules.nearest.kept_rows import kept_above
from dovetail.rules.nearest.pairs import Pairs, Wanted
from dovetail.rules.query.decorrelation import check_deterministic
from dovetail.rules.query.query_block import QueryBlock


def nearest_of_nearest_by(
    join: NearestByJoin, block: QueryBlock, readers: tuple[Scalar, ...], ctx: Context
) -> NearestJoin:
    """A NEAREST BY join with its nearest rows.  Raises ``Refused``."""
    if not 0 < join.count <= MOST_ROWS:
        raise Refused(f"NEAREST {join.count} takes more than {MOST_ROWS} rows, or none; write 1 to {MOST_ROWS}")
    if any(isinstance(node, AsofJoin | NearestJoin) and node.using for node in join.left.walk()):
        raise Refused("USING merges columns to its left; write ON")
    plain = Join(join.left, join.right, join.kind, "JOIN")
    every = Pairs(plain, (), ctx)
    check_deterministic(join.match, every.scope.volatile_call)
    distance = _distance(join, every)
    known = tuple(_is_known(end, join.match) for end in (distance.left, distance.right))
    pairs = Pairs(replace(plain, condition=known), known, ctx)
    wanted = Wanted(distance.right, "both", (), join.count, distance.near)
    nearest = pairs.nearest(wanted, readers)
    left, right = _nullable(nearest.left), _nullable(nearest.right)
    nearest = replace(nearest, left=left, right=right, complete=True, nullable=True)
    if join is block.tree:
        nearest = replace(nearest, kept=kept_above(block, join, ctx))
    foreign = not ctx.catalog.settings.nearest_by
    return NearestJoin(
        join.left, join.right, join.kind, join.keyword, (), nearest, "", join.match, (), join.by, foreign
    )


def _distance(join: NearestByJoin, pairs: Pairs) -> Distance:
    """The distance that the ranking expression sorts by.  Raises ``Refused`` for any other expression."""
    ranking, written = without_parentheses(join.match.tree), join.match
    distance = _distance_of_similarity(ranking) if join.is_similarity else ranking
    found = None if distance is None else read_distance(distance, pairs, written.place)
    if distance is None or found is None:
        raise Refused(
            f"{written.shown} is no distance along one axis; write BY DISTANCE abs(a - b), with a from the left side "
            "and b from the right side"
        )
    if join.is_similarity and found.approximate:
        raise Refused(f"{written.shown} may be NaN, the greatest similarity; write BY DISTANCE {sql(distance)}")
    if isinstance(ranking, exp.Sub) and not found.integral:
        raise Refused(f"{written.shown} may round; write BY DISTANCE {sql(distance)}")
    return found


def _distance_of_similarity(tree: exp.Expression) -> exp.Expression | None:
    """The expression that a similarity falls with: ``x`` of ``-x`` and of ``1 - x``."""
    if isinstance(tree, exp.Neg):
        return without_parentheses(tree.this)
    if isinstance(tree, exp.Sub) and isinstance(one := without_parentheses(tree.this), exp.Literal) and one.is_int:
        return without_parentheses(tree.expression)
    return None


def _is_known(end: exp.Expression, ranking: Scalar) -> Scalar:
    """The condition that one end of a distance is not NULL."""
    return Scalar(f"{operand(sql(end))} IS NOT NULL", (), ranking.place)


def _nullable(relations: tuple[ShownRelation, ...]) -> tuple[ShownRelation, ...]:
    """The relations with columns that may be NULL, as all are to Spark above this join."""
    return tuple(replace(shown, columns=tuple(replace(c, nullable=True) for c in shown.columns)) for shown in relations)
