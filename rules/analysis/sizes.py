"""The rows of the sides of a join that count: those that conditions on one side leave, and no guesses.

Spark does not estimate what a filter leaves, and guesses the rows of a file from its bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from dovetail.planner.bind.scope import Scope
from dovetail.planner.catalog.stats import Statistics
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar
from dovetail.planner.logical import BandJoin, Filter, Join, KeyedJoin, Limit, Logical, Project
from dovetail.planner.logical.nearest_join import Nearest
from dovetail.planner.tree import Node
from dovetail.rules.context import Context

T = TypeVar("T")
Conditions = tuple[Scalar, ...]
Sizes = tuple[Statistics, Statistics]
_BOTH = ("inner", "cross")  # joins after which WHERE filters both sides
_LEFT = ("left", "semi", "anti")  # joins after which it filters the left side
_WIDEST_GUESS = 16
"""A guess of rows is at most so many times their number, about: rows of a few columns that compress badly."""


def own_conditions(nearest: Nearest, *, outer: bool) -> tuple[Conditions, Conditions]:
    """The conditions on the left and on the right side alone; ``outer``: left rows without a match are kept."""
    return (*nearest.kept, *(() if outer else nearest.filters[0])), nearest.filters[1]


def sizes_of(sides: tuple[Logical, Logical], ctx: Context) -> Sizes:
    """The statistics of both sides, without a count."""
    left, right = ctx.statistics_of(*sides)
    return left, right


def where_above(join: Node, ctx: Context) -> Conditions:
    """The conditions in WHERE above a join, and above the joins that keep or drop its rows and add no NULLs to them."""
    found: Conditions = ()
    below = join
    for node in reversed(ctx.ancestors):
        if isinstance(node, Filter) and node.clause == "WHERE":
            found += node.condition
        elif not _filters(node, below):
            break
        below = node
    return found


def _filters(node: Node, below: Node) -> bool:
    """Whether WHERE above a join filters one of its sides as well."""
    if not isinstance(node, Join | BandJoin | KeyedJoin):
        return False
    return node.kind in _BOTH or (node.kind in _LEFT and below is node.left)


def limit_above(ctx: Context) -> int | None:
    """The number of rows of the current join after which its query has all that it needs; None if it reads them all."""
    for node in reversed(ctx.ancestors):
        match node:
            case Limit() if node.keeps_a_row:
                return int(node.count.text)
            case Filter(clause="WHERE"):
                continue
            case Project() if not node.quantifier and not any("(" in item.text for item in node.items):
                continue  # it has no aggregate and no window
        return None
    return None


def conditions_of_sides(join: BandJoin, where: Conditions, ctx: Context) -> tuple[Conditions, Conditions]:
    """The conditions on either side of a join alone, in ON and in a WHERE above it."""
    scope, found = ctx.scope(join.left, join.right), join.condition
    return (
        tuple(c for c in (*found, *(where if join.kind in (*_BOTH, *_LEFT) else ())) if _side(c, scope) == "left"),
        tuple(c for c in (*found, *(where if join.kind in (*_BOTH, "right") else ())) if _side(c, scope) == "right"),
    )


def _side(conjunct: Scalar, scope: Scope) -> str | None:
    """The side that a conjunct reads; None where that is not known, or for a subquery."""
    try:
        return None if conjunct.plans else scope.bind(conjunct).side
    except Refused:
        return None


def estimated(
    sides: tuple[Logical, Logical],
    conditions: tuple[Conditions, Conditions],
    sizes: Sizes,
    decide: Callable[[Sizes], T | None],
    ctx: Context,
) -> tuple[T | None, Sizes]:
    """Decide by the sizes of two sides, and count rows where that may change the decision; return these sizes, too.

    ``decide`` returns None for many rows.  A count costs about a scan, or less where nothing is filtered.
    """
    if found := decide(sizes):
        return found, sizes
    least = _least(conditions[0], sizes[0]), _least(conditions[1], sizes[1])
    if least == sizes or not decide(least):
        return None, sizes
    changed = zip(sides, conditions, sizes, least, strict=True)
    counts = ctx.counts(*(None if few == size else _rows(side, own) for side, own, size, few in changed))
    left, right = (
        size if rows is None else replace(size, rows=rows, guessed=False)
        for size, rows in zip(sizes, counts, strict=True)
    )
    return decide((left, right)), (left, right)


def _least(own: Conditions, size: Statistics) -> Statistics:
    """The fewest rows that a count may find; the size itself where a count is not needed or not cheap."""
    if not size.rows or not (size.plain and size.cheap) or any(c.plans for c in own):
        return size
    if own:
        return replace(size, rows=1)
    return replace(size, rows=-(-size.rows // _WIDEST_GUESS)) if size.guessed else size


def _rows(side: Logical, own: Conditions) -> Logical:
    return Filter(side, own) if own else side
