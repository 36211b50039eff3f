"""How many rows of either side are left by the conditions on that side alone, which Spark does not estimate."""

from __future__ import annotations

from dataclasses import replace

from dovetail.planner.catalog.stats import Statistics
from dovetail.planner.expr import Scalar
from dovetail.planner.logical import Filter, Logical
from dovetail.planner.logical.nearest_join import Nearest
from dovetail.rules.context import Context

Conditions = tuple[Scalar, ...]
Sizes = tuple[Statistics, ...]


def own_conditions(nearest: Nearest, *, outer: bool) -> tuple[Conditions, Conditions]:
    """The conditions on the left and on the right side alone; ``outer``: left rows without a match are kept."""
    return (*nearest.kept, *(() if outer else nearest.filters[0])), nearest.filters[1]


def filtered_sizes(
    sides: tuple[Logical, Logical], conditions: tuple[Conditions, Conditions], sizes: Sizes, ctx: Context
) -> Sizes:
    """The sizes of both sides after their own conditions, which may leave a row or all of them.

    They are counted where that costs about a scan, which is far less than a sort.
    """
    filtered = [
        Filter(side, own) if own and size.rows and size.plain and size.cheap and not any(c.plans for c in own) else None
        for side, own, size in zip(sides, conditions, sizes, strict=True)
    ]
    if not any(filtered):
        return sizes
    counted = zip(sizes, ctx.counts(*filtered), strict=True)
    return tuple(size if count is None else replace(size, rows=count) for size, count in counted)
