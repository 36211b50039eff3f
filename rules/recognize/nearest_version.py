"""Recognizes joins with the valid version of a key: ``lead(ts) OVER … AS until``, ``t.ts >= ts AND t.ts < until``."""

from __future__ import annotations

from dataclasses import replace

from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar
from dovetail.planner.logical import Join, Logical, Project, Sort
from dovetail.planner.logical.nearest_join import Joins, NearestJoin, NearestVersions
from dovetail.rules.context import Context
from dovetail.rules.nearest.shown_columns import all_readers_of, joins_of
from dovetail.rules.nearest.versions import nearest_version, read_versions
from dovetail.rules.query.from_items import with_leaves
from dovetail.rules.query.query_block import QueryBlock, block_with_order, in_place, where
from dovetail.rules.rule import rule


@rule(Project, Sort, needs=("window",))
def nearest_versions(node: Project | Sort, ctx: Context) -> Logical | None:
    """Join each row with the version that is valid at its time, which is the last one that is not after it.

    Spark compares each row with every version of its key.
    """
    block = block_with_order(node, ctx)
    if block is None or block.project.hint:
        return None
    found: list[tuple[Join, NearestJoin]] = []
    condition = block.condition
    joins = [join for join in joins_of(block.tree) if isinstance(join, Join)]
    for join in reversed(joins):  # the innermost first
        if new := _over_versions(join, block, tuple(old for old, _ in found), ctx):
            found.append((join, new[0]))
            condition = new[1]
    if not found:
        return None
    rows = where(with_leaves(block.tree, reversed(found)), condition)
    new_query = in_place(node, block.project, block.over(rows))
    description = "the last version instead of all versions of a key"
    return NearestVersions(node, new_query, description, Joins(tuple(join for _, join in found)))


def _over_versions(
    join: Join, block: QueryBlock, done: tuple[Join, ...], ctx: Context
) -> tuple[NearestJoin, tuple[Scalar, ...]] | None:
    """A join with versions, and WHERE above it; None for any other, and where its condition is another.

    ``done``: the joins inside it that have been found, whose conditions it need not read.
    """
    if join.kind not in ("inner", "cross", "left") or join.using or join.natural:
        return None
    versions = read_versions(join.right, ctx)
    if versions is None or ctx.catalog.streams(ctx.query(join.left)):
        return None
    is_whole = join is block.tree
    above = block.condition if is_whole and join.kind != "left" else ()
    readers = tuple(all_readers_of(replace(block, condition=()) if above else block, (*done, join)))
    try:
        found = nearest_version(join, versions, above, readers, ctx)
    except Refused:
        return None
    if found is None or (found[1] and not is_whole):
        return None
    return found if above else (found[0], (*found[1], *block.condition))
