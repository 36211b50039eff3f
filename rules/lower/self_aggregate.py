"""Choose between subqueries that read the block's rows once more, and windows over these rows."""

from __future__ import annotations

from math import prod

from sqlglot import exp

from planner.errors import NotCarried
from planner.expr import Scalar
from planner.logical import Logical
from planner.physical.base import Rewriting
from planner.self_aggregate import Kept, SelfAggregate
from rules.rule import Context, rule


@rule(SelfAggregate)
def lower_self_aggregate(node: SelfAggregate, ctx: Context) -> Logical | Rewriting:
    """Compute aggregates of a block's own rows as windows over them, where that is sooner than to read them again.

    A window sorts every row, an aggregate only its groups: it pays where other relations leave few of the rows, where
    the rows are themselves computed, and for EXISTS, whose join compares all rows of a key.
    """
    window = Rewriting(node.other, "SelfWindow", node.said, node.output)
    if ctx.force:
        return window
    share = prod(_share(kept, ctx) for kept in node.kept)
    return window if share <= 1 else node.written


def _share(kept: Kept, ctx: Context) -> float:
    """What part of a relation's rows passes its conditions: measured, else as textbooks guess it."""
    return prod(_guess(c) for c in kept.condition)


def _guess(condition: Scalar) -> float:
    try:
        tree = condition.tree
    except NotCarried:
        return 1.0
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return 0.1 if isinstance(tree, exp.EQ) else 1 / 3
