"""Writes ``* EXCEPT (a)`` over a band join as the columns that it shows."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dovetail.planner.band.comparisons import looks_like_band
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, is_star
from dovetail.planner.logical import Filter, Join, Logical, Project
from dovetail.rules.context import Context
from dovetail.rules.query.query_block import QueryBlock
from dovetail.rules.query.star_columns import expand_items
from dovetail.rules.rule import rule


@rule(Project, block=True, needs=("star",), streams="one")
def star_except(block: QueryBlock, ctx: Context) -> Logical | None:
    """Write ``* EXCEPT (a)`` as columns where the block has a band, whose bins the star would show as well."""
    node = block.project
    if not any(map(_excepts, node.items)) or not isinstance(block.tree, Join):
        return None
    conditions = (c for n in node.child.walk() if isinstance(n, Join | Filter) for c in n.condition)
    if not any(map(looks_like_band, conditions)):
        return None
    try:
        items = expand_items(node.items, block.tree, ctx.names)
    except Refused as no:
        item = next(filter(_excepts, node.items))
        return ctx.decline(f"{item.shown} stays a star: {no}; name its columns", item.place)
    return replace(node, items=items, names=node.output)


def _excepts(item: Scalar) -> bool:
    if "*" not in item.text or item.known is None or not is_star(item.known):
        return False
    tree = item.known
    star = tree.this if isinstance(tree, exp.Column) else tree
    return any(star.args.values())
