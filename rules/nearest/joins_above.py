"""Joins behind a join with the nearest row: ``FROM t LEFT JOIN q ON q.ts <= t.ts JOIN s ON s.id = t.store``.

A later join that reads nothing of the nearest row joins each pair of a left row to the same rows.  So the pair that is
nearest among all joined rows is nearest among the pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from planner.errors import Refused
from planner.expr import Scalar
from planner.logical import Join, Logical
from rules.context import Context
from rules.query.correlation import leans_on_left
from rules.query.from_items import with_leaves
from rules.query.query_block import QueryBlock

_LATER = ("inner", "cross", "left")


@dataclass(frozen=True)
class BottomJoin:
    """A join at the bottom of a block's FROM, and the joins ``above`` it, the last one first."""

    join: Join
    above: tuple[Join, ...]
    whole: QueryBlock

    @property
    def readers(self) -> tuple[Scalar, ...]:
        """The conditions of the joins above."""
        return tuple(conjunct for join in self.above for conjunct in join.condition)

    def block(self, ctx: Context) -> QueryBlock:
        """The block over this join alone, with the conditions of WHERE that only read it.

        Raises ``Refused`` for a name that is not known.
        """
        if not self.above:
            return self.whole
        scope, count = ctx.scope(self.whole.tree), len(ctx.names.sources(self.join))
        own = (c for c in self.whole.condition if all(number < count for number in scope.bind(c).relations))
        return replace(self.whole, tree=self.join, condition=tuple(own))

    def check_later_joins(self, ctx: Context) -> None:
        """Raise ``Refused`` where a later join, or a condition over one, reads the right side of this join."""
        scope, first = ctx.scope(self.whole.tree), len(ctx.names.sources(self.join.left))
        right = range(first, len(ctx.names.sources(self.join)))
        for conjunct in (*self.readers, *self.whole.condition) if self.above else ():
            relations = scope.bind(conjunct).relations
            of_where = conjunct not in self.readers and all(number < right.stop for number in relations)
            if not of_where and not relations.isdisjoint(right):
                raise Refused(f"{conjunct.shown} of a later join reads the nearest row", conjunct.place)

    def is_fixed(self, part: Scalar, ctx: Context) -> bool:
        """Whether an expression reads only relations that are joined later: it has one value for all pairs of a row."""
        if not self.above or part.plans:
            return False
        start = len(ctx.names.sources(self.join))
        relations = ctx.scope(self.whole.tree).bind(part).relations
        return bool(relations) and all(number >= start for number in relations)

    def over(self, nearest: Logical) -> Logical:
        """FROM with another relation in the place of the join."""
        return with_leaves(self.whole.tree, {id(self.join): nearest})


def bottom_joins(block: QueryBlock) -> Iterator[BottomJoin]:
    """Yield the joins that a block's FROM begins with, the last one first."""
    join: Logical = block.tree
    above: tuple[Join, ...] = ()
    while isinstance(join, Join):
        if not above or join.kind != "right":
            yield BottomJoin(join, above, block)
        if join.kind not in _LATER or join.using or join.natural or leans_on_left(join.right):
            return
        above = (*above, join)
        join = join.left
