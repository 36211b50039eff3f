"""Recognizes joins with the valid version of a key: ``lead(ts) OVER … AS until``, ``t.ts >= ts AND t.ts < until``."""

from __future__ import annotations

from dataclasses import replace

from dovetail.planner.errors import Refused
from dovetail.planner.logical import Join, LateralView, Logical, Nested, Project, Sort, expressions
from dovetail.planner.logical.nearest_join import Joins, NearestJoin, NearestVersions
from dovetail.rules.context import Context
from dovetail.rules.nearest.shown_columns import all_readers_of, joins_of
from dovetail.rules.nearest.versions import VersionJoin, nearest_version, read_versions
from dovetail.rules.query.query_block import QueryBlock, block_with_order, in_place, where
from dovetail.rules.rule import rule


@rule(Project, Sort)
def nearest_versions(node: Project | Sort, ctx: Context) -> Logical | None:
    """Join each row with the version that is valid at its time, which is the last one that is not after it.

    Spark compares each row with every version of its key.
    """
    block = block_with_order(node, ctx)
    if block is None or block.project.hint:
        return None
    found: dict[int, NearestJoin] = {}
    condition = block.condition
    joins = [join for join in joins_of(block.tree) if isinstance(join, Join)]
    gone = set[int]()  # the conditions of those found, which the joins around them need not read
    for join in reversed(joins):  # the innermost first
        if new := _over_versions(join, block, gone, ctx):
            found[id(join)], rest, done = new
            gone |= {id(scalar) for scalar in expressions(join)}
            condition = (*rest, *(c for c in condition if id(c) not in done))
    if not found:
        return None
    rows = where(_with_joins(block.tree, found), condition)
    new_query = in_place(node, block.project, block.over(rows))
    description = "the last version instead of all versions of a key"
    return NearestVersions(node, new_query, description, Joins(tuple(found.values())))


def _over_versions(join: Join, block: QueryBlock, gone: set[int], ctx: Context) -> VersionJoin | None:
    """A join with versions; None for any other, and where its condition is another."""
    if join.kind not in ("inner", "cross", "left") or join.using or join.natural:
        return None
    versions = read_versions(join.right, ctx)
    if versions is None or ctx.catalog.streams(ctx.query(join.left)):
        return None
    is_whole = join is block.tree
    above = block.condition if is_whole and join.kind != "left" else ()
    own = gone | {id(scalar) for scalar in (*expressions(join), *above)}
    readers = tuple(scalar for scalar in all_readers_of(block) if id(scalar) not in own)
    try:
        found = nearest_version(join, versions, above, readers, ctx)
    except Refused:
        return None
    return found if found and (is_whole or not found.rest) else None


def _with_joins(tree: Logical, instead: dict[int, NearestJoin]) -> Logical:
    """A FROM tree with other joins, by the IDs of those in whose places they come."""
    if isinstance(tree, Join):
        left, right = _with_joins(tree.left, instead), _with_joins(tree.right, instead)
        return replace(instead.get(id(tree), tree), left=left, right=right)
    if isinstance(tree, LateralView) or (isinstance(tree, Nested) and tree.alias is None):
        return replace(tree, child=_with_joins(tree.child, instead))
    return tree
