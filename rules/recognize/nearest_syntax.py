"""Recognizes joins that Spark's syntax limits to the nearest rows: ASOF JOIN, and NEAREST BY.

    trades t ASOF JOIN quotes q MATCH_CONDITION (t.ts >= q.ts) ON t.sym = q.sym

Spark has this join from 4.3 on, if ``spark.sql.join.asofJoin.enabled`` is set, and compares all rows of a key.

    points a JOIN points b EXACT NEAREST 3 BY DISTANCE abs(a.x - b.x)

Spark ranks all pairs.  A pair whose ranking expression is NULL is no match, and NaN is the greatest value.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dovetail.planner.bind.from_columns import bare
from dovetail.planner.conditions.compared import compared
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, quote, sql, without_parentheses
from dovetail.planner.expr.substitution import operand
from dovetail.planner.expr.tokens import mentioned
from dovetail.planner.logical import Join, LateralView, Logical, Nested, Project, Sort
from dovetail.planner.logical.nearest_join import NearestJoin, ShownRelation
from dovetail.planner.logical.nearest_syntax import AsofJoin, NearestByJoin, NearestSyntax
from dovetail.rules.context import Context
from dovetail.rules.nearest.distance import Distance, read_distance
from dovetail.rules.nearest.first_row import MOST_ROWS
from dovetail.rules.nearest.kept_rows import kept_above
from dovetail.rules.nearest.pairs import Pairs, Wanted
from dovetail.rules.nearest.shown_columns import all_readers_of, joins_of, readers_of
from dovetail.rules.query.decorrelation import check_deterministic
from dovetail.rules.query.query_block import QueryBlock, where
from dovetail.rules.rule import rule


@rule(Project, Sort, block=True, needs=(NearestSyntax,))
def nearest_syntax(block: QueryBlock, ctx: Context) -> Logical | None:
    """Join each row only with the right rows that ASOF JOIN or NEAREST BY picks, on every version of Spark."""
    tree = _over_nearest(block.tree, block, ctx)
    return None if tree is block.tree else block.put(block.over(where(tree, block.condition)))


def _over_nearest(tree: Logical, block: QueryBlock, ctx: Context) -> Logical:
    """A FROM with the nearest rows of every such join, where that is possible."""
    if isinstance(tree, LateralView) or (isinstance(tree, Nested) and tree.alias is None):
        child = _over_nearest(tree.child, block, ctx)
        return tree if child is tree.child else replace(tree, child=child)
    if not isinstance(tree, Join | NearestSyntax):
        return tree
    left, right = (_over_nearest(side, block, ctx) for side in (tree.left, tree.right))
    new = tree if left is tree.left and right is tree.right else replace(tree, left=left, right=right)
    if not isinstance(new, AsofJoin | NearestByJoin):
        return new
    below = tuple(one for one in joins_of(tree) if isinstance(one, AsofJoin))  # they compare before columns travel
    try:
        return _nearest(new, block, tuple(all_readers_of(block, below)), ctx)
    except Refused as no:
        name = "as-of join" if isinstance(new, AsofJoin) else "NEAREST BY join"
        ctx.decline(f"the {name} is left to Spark: {no.reason}", no.place or new.match.place)
        return new


def _nearest(
    join: AsofJoin | NearestByJoin, block: QueryBlock, readers: tuple[Scalar, ...], ctx: Context
) -> NearestJoin:
    """The join with its nearest rows.  Raises ``Refused``."""
    if isinstance(join, AsofJoin):
        new = nearest_of_asof_join(join, block, readers, ctx)
    else:
        new = nearest_of_nearest_by(join, block, readers, ctx)
    if new.foreign:
        if "VIEW" in ctx.statement.upper().split():
            raise Refused("a view would keep the types that its tables have today; create a table")
        _check_tables(join, ctx)
    return new


def _check_tables(join: NearestSyntax, ctx: Context) -> None:
    """Raise ``Refused`` where a side reads a stream; nobody has counted those of a statement that Spark rejects."""
    for side in (join.left, join.right):
        if ctx.catalog.streams(ctx.query(side)):
            raise Refused("the statement reads a stream, and this rewriting is for tables")


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
    if len(sides[0]) != 1 or len(sides[1]) != 1:
        raise Refused("USING takes columns of more than one relation; write ON", join.match.place)
    left, right = (quote(side[0].only_name) for side in sides)
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
