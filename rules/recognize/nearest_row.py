"""Recognizes joins of which a query keeps the nearest row: ``row_number() OVER (…) = 1``, ``max_by(q.price, q.ts)``.

Where rows that tie are kept, they have the nearest time of their left row.  So each left row is joined with this time
first, and then with the right rows of this time:

    t JOIN q ON q.k = t.k AND q.ts <= t.ts   →   (t with the last q.ts) JOIN q ON q.k = t.k AND q.ts = the last q.ts

The bounds on the time hold of the nearest one.  Left out, they make no band beside the equality.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from dovetail.planner.band.comparisons import looks_like_band
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar
from dovetail.planner.expr.substitution import operand
from dovetail.planner.logical import Derived, Join, LateralView, Logical, Opaque, Project, Scan, Sort, Verbatim, With
from dovetail.planner.logical.nearest_join import Joins, Nearest, NearestJoin, NearestTies, ShownRelation
from dovetail.planner.types.schema import Column
from dovetail.rules.context import Context
from dovetail.rules.nearest.extremes import may_take_a_distance, wanted_by_aggregates
from dovetail.rules.nearest.first_row import (
    FirstRow,
    keeps_first,
    keeps_ties,
    read_first_row,
    sorts_by_distance,
    wanted_by,
)
from dovetail.rules.nearest.joins_above import BottomJoin, bottom_joins
from dovetail.rules.nearest.kept_rows import kept_above
from dovetail.rules.nearest.pairs import Pairs, Wanted, may_be_nearest, nearest_join
from dovetail.rules.nearest.ranked_subquery import ranked_subquery
from dovetail.rules.nearest.shown_columns import all_readers_of, readers_of
from dovetail.rules.query.from_items import bare, with_leaves
from dovetail.rules.query.grouping import grouping_expressions
from dovetail.rules.query.query_block import QueryBlock, read_block, where
from dovetail.rules.query.subquery_columns import over_subquery
from dovetail.rules.rule import rule


class _Rewritten(NamedTuple):
    """A block over nearest rows; ``timed``: the join with the nearest time, where all rows of this time are joined."""

    block: Project
    timed: NearestJoin | None = None

    def in_place(self, block: QueryBlock) -> Logical:
        """The query of a block with this one in its place."""
        new = block.put(self.block)
        if self.timed is None:
            return new
        return NearestTies(block.query, new, "the rows of the nearest time instead of all pairs", Joins((self.timed,)))


@rule(Project, Sort, With, needs=("window",))
def nearest_row(node: Project | Sort | With, ctx: Context) -> Logical | None:
    """Join each row only with its nearest rows, where the query keeps the first of them by a ranking.

    The ranking stays, over fewer rows: the first of all pairs is the first of the nearest pairs.  So nothing needs to
    be unique, and of rows that tie any may be kept, as before.
    """
    if isinstance(node, With):
        return _definitions(node, ctx)
    block = None if isinstance(ctx.above, Sort) else read_block(node)
    if block is None:
        return None
    found = read_first_row(block, ctx)
    if found is not None:
        new = _nearest(block, found, ctx) if found.count else None
        return new and new.in_place(block)
    instead: list[tuple[Logical, Logical]] = []
    for relation, tests in _tested(block):
        if isinstance(relation, Derived) and not relation.lateral:
            query = _kept(relation.query, relation.alias or "", tests, ctx, relation.renames)
            if query is not None:
                instead.append((relation, replace(relation, query=query)))
    if not instead:
        return None
    return block.put(block.over(where(with_leaves(block.tree, instead), block.condition)))


def _definitions(node: With, ctx: Context) -> Logical | None:
    """The same for definitions that are read once, where the first rows are kept."""
    if any(isinstance(n, Verbatim | Opaque) for n in node.walk()):
        return None  # what is only text may read a definition as well
    changed = []
    for definition in node.definitions:
        readers = [n for n in node.walk() if isinstance(n, Scan) and n.cte == definition.key]
        tests = [
            (relation.alias, tests)
            for project in node.walk()
            if len(readers) == 1 and isinstance(project, Project) and (block := read_block(project))
            for relation, tests in _tested(block)
            if relation is readers[0]
        ]
        query = None
        if len(tests) == 1 and not definition.renames and not readers[0].renames:
            query = _kept(definition.query, tests[0][0] or "", tests[0][1], ctx)
        changed.append(definition if query is None else replace(definition, query=query))
    return replace(node, definitions=tuple(changed)) if tuple(changed) != node.definitions else None


def _tested(block: QueryBlock) -> Iterator[tuple[Derived | Scan, tuple[Scalar, ...]]]:
    """The relations of a block that are subqueries or names of WITH, each with the conditions on its rows.

    Without samples, which count rows.
    """
    for item in block.from_items.found:
        match bare(item.relation):
            case Derived(suffix=suffix) as relation if "TABLESAMPLE" not in suffix.upper():
                yield relation, block.conjuncts if item.kind == "inner" else item.on
            case Scan(plain=True) as relation if relation.cte:
                yield relation, block.conjuncts if item.kind == "inner" else item.on


def _kept(
    query: Logical, alias: str, tests: tuple[Scalar, ...], ctx: Context, renames: tuple[str, ...] = ()
) -> Logical | None:
    """A query of which only the first rows of a ranking are kept, over nearest rows; None if it is none.

    ``renames``: the names by which ``tests`` know its columns, if they are others.
    """
    block = read_block(query)
    if block is None or (found := read_first_row(block, ctx)) is None:
        return None
    name = found.ranking.name
    if renames:
        names = [item.tree.alias_or_name for item in block.project.items]
        name = renames[names.index(name)] if len(names) == len(renames) and names.count(name) == 1 else ""
    if not found.count and name:
        found = replace(found, count=keeps_first(tests, alias, name, ctx.names))
    new = _nearest(block, found, ctx) if found.count else None
    return new and new.in_place(block)


def _nearest(block: QueryBlock, found: FirstRow, ctx: Context, above: tuple[Scalar, ...] = ()) -> _Rewritten | None:
    """The block over the nearest rows; None with a reason where it needs other pairs as well.

    ``above``: conditions that its pairs are tested for before they are ranked, over its relations.
    """
    if not isinstance(block.tree, Join | LateralView):
        return _nearest_inside(block, found, ctx)
    new = (_nearest_of(bottom, found) for bottom in bottom_joins(block, ctx, above))
    return next((one for one in new if one is not None), None)


def _nearest_of(bottom: BottomJoin, found: FirstRow) -> _Rewritten | None:
    """The block over the nearest rows of one of its joins."""
    ranking = found.ranking
    if not may_be_nearest(bottom.whole, bottom.join, by_distance=sorts_by_distance(ranking)):
        return None
    ties = ranking.function if keeps_ties(ranking) else ""
    fixed = (*ranking.partition, *found.fixed)
    return _over_nearest(bottom, lambda pairs: wanted_by(ranking, pairs, found.count), lambda: fixed, ties)


def _over_nearest(
    bottom: BottomJoin, read: Callable[[Pairs], Wanted | None], fixed: Callable[[], Iterable[Scalar]], ties: str = ""
) -> _Rewritten | None:
    """The block over the nearest rows of one of its joins; None, with a reason, where it needs other pairs as well.

    ``read``: what it wants of the pairs.  ``fixed``: expressions that have one value for all pairs of a left row.
    ``ties``: the ranking that keeps all rows of the nearest time.
    """
    block, join, ctx = bottom.whole, bottom.join, bottom.ctx
    if bottom.above and (ties or not any(map(looks_like_band, (*join.condition, *block.condition)))):
        return None
    try:
        whole = block.tree if bottom.above else None
        every = Pairs.of_block(replace(block, condition=(*block.condition, *bottom.tested)), join, ctx, whole)
        wanted = read(every)
        if wanted is None or not every.finds(wanted):
            return None
        inner = bottom.block()
        pairs = Pairs.of_block(inner, join, ctx, whole)
        pairs.check_where(inner)
        readers = tuple(all_readers_of(block)) if ties else (*readers_of(block), *bottom.readers)
        excluded = () if bottom.above or ties else pairs.excluded()
        nearest = replace(pairs.nearest(wanted, readers, excluded), kept=kept_above(inner, pairs.join, ctx))
        for part in fixed():
            pairs.check_fixed(part)
        if ties:
            tied, timed = tied_rows(join, pairs, wanted, nearest, ties)
            return _Rewritten(block.over(where(tied, block.condition)), timed)
    except Refused as no:
        return ctx.decline(f"not only the nearest rows: {no.reason}", no.place)
    tested = (*block.condition, *(c for c in excluded if c not in block.condition))
    return _Rewritten(block.over(where(bottom.over(nearest_join(join, nearest)), tested)))


def _nearest_inside(block: QueryBlock, found: FirstRow, ctx: Context) -> _Rewritten | None:
    """A block over a subquery whose rows it ranks, which joins only the nearest rows; None for any other."""
    try:
        inside = ranked_subquery(block, found.ranking, ctx)
    except Refused:
        return None
    if inside is None:
        return None
    try:
        above = inside.conditions(block.condition, ctx)
    except Refused as no:
        join = inside.block.tree
        if isinstance(join, Join) and may_be_nearest(inside.block, join, by_distance=sorts_by_distance(inside.ranking)):
            ctx.decline(f"not only the nearest rows: {no.reason}", no.place or block.condition[0].place)
        return None
    new = _nearest(inside.block, replace(found, ranking=inside.ranking), ctx, above)
    if new is None:
        return None
    leaf = over_subquery(inside.relation, new.block, ctx)
    over = where(with_leaves(block.tree, [(inside.relation, leaf)]), block.condition)
    return _Rewritten(block.over(over), new.timed)


@rule(Project, Sort, block=True, needs=("aggregate",))
def nearest_groups(block: QueryBlock, ctx: Context) -> Logical | None:
    """Join each row only with its nearest row, where aggregates take the last or the first of them.

    The aggregates stay, over fewer rows: the greatest time of all pairs is the greatest of the nearest pairs, and so is
    the least distance.
    """
    if not block.is_grouped or not isinstance(block.tree, Join | LateralView):
        return None
    for bottom in bottom_joins(block, ctx):
        if may_be_nearest(block, bottom.join, by_distance=may_take_a_distance(block)):
            groups = partial(grouping_expressions, block, ctx.scope(block.tree))
            if new := _over_nearest(bottom, partial(wanted_by_aggregates, block), groups):
                return new.in_place(block)
    return None


def tied_rows(written: Join, pairs: Pairs, wanted: Wanted, nearest: Nearest, function: str) -> tuple[Join, NearestJoin]:
    """A join with all rows of the nearest time, and the join with this time on its left side.

    Raises ``Refused`` where the right side may have other rows when it is read again.
    """
    join, ctx = pairs.join, pairs.ctx
    if reason := ctx.nonrepeatable_reason(join.right):
        raise Refused(f"{function}() needs a second read of the right side, and {reason}")
    alias, time = ctx.fresh("nearest"), nearest.times[1]
    name = f"{alias}_time"
    shown = ShownRelation(alias, (Column(name, nearest.time_type),), (time,), hidden=True)
    outer = join.kind == "left"
    timed = NearestJoin(
        join.left,
        join.right,
        "left" if outer else "inner",
        "LEFT JOIN" if outer else "JOIN",
        join.condition,
        replace(nearest, right=(shown,)),
        certain=True,
    )
    rest = (conjunct for conjunct in join.condition if not pairs.only_bounds_time(conjunct, wanted))
    tied = Scalar(f"{operand(time)} = {alias}.{name}")
    condition = (*rest, tied)
    if written.kind == "right":
        return Join(join.right, timed, "right", written.keyword, condition), timed
    return Join(timed, join.right, timed.kind, timed.keyword, condition), timed
