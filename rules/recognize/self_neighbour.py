"""Recognizes self-joins with the previous or next row: ``x.k = y.k AND y.rn = x.rn - 1`` is lag() by row number."""

from __future__ import annotations

from dovetail.planner.errors import Refused
from dovetail.planner.logical import Logical, Project
from dovetail.rules.context import Context
from dovetail.rules.query.char_columns import check_values
from dovetail.rules.query.correlation import check_not_correlated
from dovetail.rules.query.query_block import read_block, where
from dovetail.rules.rule import rule
from dovetail.rules.self_join.neighbour_rows import NeighbourRows
from dovetail.rules.self_join.neighbours import NeighbourFinder, steps_in


@rule(Project)
def self_neighbour(project: Project, ctx: Context) -> Logical | None:
    """Replace a self-join with the row a fixed number of steps before or after by lag() or lead().

    The second relation becomes lag() or lead() over the numbers.  A unique key must be among the columns that the
    rows are partitioned and ordered by: then no two rows tie, and every reading gives the same numbers.
    """
    block = read_block(project)
    if block is None:
        return None
    from_items = block.from_items
    every = (*block.conjuncts, *from_items.outer_conjuncts)
    if len(from_items.found) < 2 or not any(
        "=" in c.text and not c.plans and c.known and steps_in(c.known) for c in every
    ):
        return None
    found = NeighbourFinder(block, ctx)
    neighbours = found.find()
    if not neighbours:
        return None
    rows = NeighbourRows(found)
    try:
        if project.hint:
            raise Refused("the SELECT has a hint")
        check_not_correlated(ctx)
        rows.check_others(neighbours)
        check_values((r for n in neighbours for r in (n.x.relation, n.y.relation)), project, ctx)
        tree, moved = from_items.rebuilt({**rows.instead(neighbours)}, lambda c: c)
    except Refused as no:
        return ctx.decline(f"the join with a next or previous row stays a join: {no}")
    return block.over(where(tree, (*block.condition, *moved)))
