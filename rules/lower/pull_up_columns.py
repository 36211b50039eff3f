"""Computes columns above a join that is rewritten, where Spark computes them for its result only."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from planner.errors import Refused
from planner.expr import Scalar, is_star
from planner.logical import (
    BandJoin,
    Join,
    LateralView,
    Logical,
    Project,
    Sort,
    Wrapped,
    nodes_of_from,
)
from planner.logical.nearest_join import NearestJoin, ShownRelation
from planner.logical.pulled_up_columns import PulledUp, PulledUpColumns
from rules.analysis.pull_up import take_out_unsafe
from rules.analysis.taken_columns import TakenOut
from rules.context import Context
from rules.query.from_items import map_sides, with_leaves
from rules.query.query_block import read_block, where
from rules.query.visible_leaves import visible_leaves
from rules.rule import rule


@rule(Project)
def pull_up_columns(project: Project, ctx: Context) -> Project | None:
    """Compute columns of subqueries that could raise an error above a join on bins, for the rows that match.

    Under ANSI ``(SELECT lo, hi, 100 / v AS share FROM i)`` may have rows with v = 0.  Spark's generated code computes
    ``share`` where it is used, which is after the join; a shuffle would compute it for every row.
    """
    block = read_block(project)
    if block is None or block.project is not project:
        return None
    if any(isinstance(node, PulledUpColumns) for node in nodes_of_from(block.tree)):  # what it has returned
        return None
    above = ctx.above.keys if isinstance(ctx.above, Sort) else ()
    if isinstance(ctx.above, Wrapped):  # an ORDER BY around parentheses
        above = (Scalar("*"),)
    tree, found = block.tree, dict[int, tuple[TakenOut, PulledUp]]()  # by the id of the relation
    for leaf in visible_leaves(tree):
        try:
            if taken := take_out_unsafe(leaf, block, ctx, above):
                found[id(leaf.relation)] = taken, _pulled_up(leaf.relation, taken, tree, project, ctx)
        except Refused as no:
            ctx.decline(no.reason, no.place, no.code)
            tree = _as_written(tree, leaf.relation)
    relations = []
    for number, (taken, pulled_up) in found.items():
        if not any(leaf.top for leaf in visible_leaves(tree) if id(leaf.relation) == number):
            continue  # its join is as written now
        tree = _with_added(with_leaves(tree, {number: taken.relation}), pulled_up.name, taken, ctx)
        if not taken.values:
            continue
        if not taken.early and not any(isinstance(node, LateralView) for node in nodes_of_from(tree)):
            relations.append(pulled_up)
        elif join := next(leaf.top for leaf in visible_leaves(tree) if leaf.relation is taken.relation):
            tree = with_leaves(tree, {id(join): PulledUpColumns(join, (pulled_up,))})
    if tree == block.tree:
        return None
    return block.over(where(PulledUpColumns(tree, tuple(relations)) if relations else tree, block.condition))


def _as_written(tree: Logical, relation: Logical) -> Logical:
    """FROM with the joins above a relation as written, where Spark can run them."""
    if not any(leaf.relation is relation for leaf in visible_leaves(tree)):
        return tree
    new = map_sides(tree, lambda side: _as_written(side, relation))
    runs = isinstance(new, NearestJoin) and (new.foreign or new.certain)
    return new.plain if isinstance(new, BandJoin | NearestJoin) and not runs else new


def _pulled_up(relation: Logical, taken: TakenOut, tree: Logical, project: Project, ctx: Context) -> PulledUp:
    """The columns as ``PulledUpColumns`` shows them."""
    fold = ctx.names.fold
    (source,) = ctx.names.sources(relation)
    name = source.names[-1] if source.names else ctx.fresh("late")
    columns = tuple(column for column in source.columns or () if fold(column.name) not in taken.unused)
    values = tuple((c.name, taken.values[fold(c.name)]) for c in columns if fold(c.name) in taken.values)
    stars = [item for item in project.items if isinstance(item.known, exp.Column) and is_star(item.known)]
    own = tuple(item.text for item in stars if ctx.names.starred(item.tree, (source,)))
    if own and any(isinstance(node, Join) and node.using for node in nodes_of_from(tree)):
        raise Refused(f"USING changes the order of the columns that {own[0]} shows")
    return PulledUp(name, values, columns, own)


def _with_added(tree: Logical, name: str, taken: TakenOut, ctx: Context) -> Logical:
    """FROM whose nearest joins show the columns that were added to a relation, and none that was taken out."""
    fold = ctx.names.fold
    gone = taken.values.keys() | taken.unused

    def shown(one: ShownRelation) -> ShownRelation:
        if fold(one.name) != fold(name) or one.values:
            return one
        return replace(one, columns=(*(c for c in one.columns if fold(c.name) not in gone), *taken.added))

    def go(node: Logical) -> Logical:
        new = map_sides(node, go)
        if not isinstance(new, NearestJoin):
            return new
        rows = new.nearest
        nearest = replace(rows, left=tuple(map(shown, rows.left)), right=tuple(map(shown, rows.right)))
        return replace(new, nearest=nearest)

    return go(tree)
