"""Recognizes a self-join within a band whose pairs are only aggregated.

SELECT x.id, count(*), sum(y.v) FROM t x JOIN t y ON x.k = y.k AND y.ts BETWEEN x.ts - 600 AND x.ts GROUP BY x.id
"""

from __future__ import annotations

from contextlib import suppress

from dovetail.planner.band.comparisons import looks_like_band
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar
from dovetail.planner.logical import Derived, Join, Logical, Project, Scan, Sort
from dovetail.rules.analysis.containment_mapping import same_tables
from dovetail.rules.analysis.same_source import RelationLineage, same_source
from dovetail.rules.context import Context
from dovetail.rules.query.query_block import QueryBlock
from dovetail.rules.rule import rule
from dovetail.rules.window.self_groups import Groups


@rule(Project, Sort, block=True, needs=("aggregate",))
def band_groups(block: QueryBlock, ctx: Context) -> Logical | None:
    """Recognize a self-join whose only use is to count and aggregate the rows within a band of each row.

    The pairs are never needed: a window with a RANGE frame counts and aggregates the rows within the band of each
    row, and the groups add up its results.
    """
    found = _read(block, ctx)
    if found is None:
        return None
    try:
        return found.choice()
    except Refused as no:
        return ctx.decline(f"it cannot become a window: {no}", block.sort.keys[0].place if block.sort else None)


def _read(block: QueryBlock, ctx: Context) -> Groups | None:
    join = block.tree
    if len(block.above) > 1 or not isinstance(join, Join) or join.using or join.natural:
        return None
    conjuncts = (*join.condition, *block.condition)
    if join.kind not in ("inner", "cross", "left") or not conjuncts or not block.is_aggregated:
        return None
    bound = next(filter(looks_like_band, conjuncts), None)
    if bound is None:
        return _report_self_joins(join, conjuncts, ctx)
    try:
        readings = same_source(join.left, join.right, ctx)
        return None if readings is None or block.project.hint else _groups(block, join, readings, ctx)
    except Refused as no:
        return ctx.decline(f"it cannot become a window: {no.reason}", no.place or bound.place) if no.reason else None


def _groups(block: QueryBlock, join: Join, readings: tuple[RelationLineage, RelationLineage], ctx: Context) -> Groups:
    """The windows over the rows of the left side, or else of the right one.  Raises ``Refused`` of the former."""
    try:
        return Groups(block, join, readings, 0, ctx)
    except Refused as no:
        if join.kind == "left":
            raise
        with suppress(Refused):
            return Groups(block, join, readings[::-1], 1, ctx)
        raise no from None


def _report_self_joins(join: Join, conjuncts: tuple[Scalar, ...], ctx: Context) -> None:
    """Decline for a table that is joined with itself by no band, and aggregated."""
    if isinstance(join.left, Scan | Derived) and isinstance(join.right, Scan | Derived):
        try:
            if same_tables(join.left, join.right, ctx) and same_source(join.left, join.right, ctx):
                ctx.decline("it cannot become a window: the aggregated self-join has no band", conjuncts[0].place)
        except Refused:
            return
