"""Joins behind a join with the nearest row: ``FROM t LEFT JOIN q ON q.ts <= t.ts JOIN s ON s.id = t.store``.

A later join that reads nothing of the nearest row joins each pair of a left row to the same rows.  So the pair that is
nearest among all joined rows is nearest among the pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dovetail.planner.bind.words import words_of
from dovetail.planner.errors import Place, Refused
from dovetail.planner.expr import Scalar
from dovetail.planner.expr.functions import VOLATILE
from dovetail.planner.expr.tokens import called
from dovetail.planner.logical import Derived, Join, LateralView, Logical, Opaque
from dovetail.planner.logical.relations import references_left
from dovetail.rules.context import Context
from dovetail.rules.nearest.shown_columns import readers_of_join
from dovetail.rules.query.decorrelation import check_deterministic, outer_relations
from dovetail.rules.query.from_items import with_leaves
from dovetail.rules.query.query_block import QueryBlock

_FILLS_LEFT = ("right", "full")  # with NULL, so that WHERE may find other left rows than those below


@dataclass(frozen=True)
class BottomJoin:
    """A join at the bottom of a block's FROM, and the joins ``above`` it, the last one first.

    ``tested``: conditions over the relations of the block that its pairs fulfill as well.
    """

    join: Join
    above: tuple[Join | LateralView, ...]
    whole: QueryBlock
    ctx: Context
    tested: tuple[Scalar, ...]

    @property
    def readers(self) -> tuple[Scalar, ...]:
        """What the joins above read."""
        return tuple(scalar for join in self.above for scalar in readers_of_join(join))

    def block(self) -> QueryBlock:
        """The block over this join alone, with the conditions of WHERE that its pairs have to fulfill.

        Raises ``Refused`` where the joins above, or a condition over them, read the right side of this join.
        """
        for join in self.above:
            self._check(join)
        condition = (*filter(self._tests_pairs, self.whole.condition), *self.tested)
        return replace(self.whole, tree=self.join, condition=condition)

    def _tests_pairs(self, conjunct: Scalar) -> bool:
        """Whether a condition of WHERE is one of the pairs.  Any other has one value for all pairs of a left row."""
        if not self.above and not conjunct.plans:
            return True
        tree, ctx = self.whole.tree, self.ctx
        check_deterministic(Scalar(conjunct.text, (), conjunct.place), lambda call: ctx.volatile_call(call, tree))
        scope = ctx.scope(tree)
        inside = (outer_relations(plan, scope, ctx) for plan in conjunct.plans)
        relations = scope.bind(conjunct).relations.union(*inside)
        fills = any(isinstance(join, Join) and join.kind in _FILLS_LEFT for join in self.above)
        is_below = not fills and all(number < len(ctx.names.sources(self.join)) for number in relations)
        if relations.isdisjoint(self._right()):
            return is_below and not conjunct.plans
        if not is_below:
            raise _read_by(conjunct.shown, conjunct.place)
        return True

    def over(self, nearest: Logical) -> Logical:
        """FROM with another relation in the place of the join."""
        return with_leaves(self.whole.tree, [(self.join, nearest)])

    def _right(self) -> range:
        """The numbers of the relations of the side that has the nearest rows."""
        first, last = (len(self.ctx.names.sources(side)) for side in (self.join.left, self.join))
        return range(first) if self.join.kind == "right" else range(first, last)

    def _check(self, join: Join | LateralView) -> None:
        """Raise ``Refused`` where a join above may read the right side of this join."""
        right, ctx = self._right(), self.ctx
        if isinstance(join, LateralView):
            self._check_words(join.text)
            return
        if join.using or join.natural:
            raise Refused(
                f"USING or NATURAL of the {join.keyword} behind it may read the nearest row; write ON", join.place
            )
        if isinstance(join.right, Opaque) and join.right.lateral:
            self._check_words(join.right.text)
        elif isinstance(join.right, Derived) and join.right.lateral:
            if not outer_relations(join.right.query, ctx.scope(join.left), ctx).isdisjoint(right):
                raise _read_by("LATERAL", join.place)
        elif references_left(join.right):
            raise _read_by("LATERAL in parentheses", join.place)
        scope = ctx.scope(join.left, join.right)
        both = replace(join, kind="cross", condition=())
        for conjunct in join.condition:
            check_deterministic(conjunct, lambda tree: ctx.volatile_call(tree, both))
            if not scope.bind(conjunct).relations.isdisjoint(right):
                raise _read_by(conjunct.shown, conjunct.place)

    def _check_words(self, text: Scalar) -> None:
        """The same for a relation that is kept as text: it has no name of the right side, and of no column there."""
        names = self.ctx.names
        sources = [names.sources(self.join)[number] for number in self._right()]
        words = words_of(text, names)
        own = {name for source in sources for name in (*source.folded_names, *source.columns_by_name)}
        if "*" in words or not words.isdisjoint(own):
            raise _read_by(text.shown, text.place)
        if not called(text.text).isdisjoint(VOLATILE):
            raise Refused(f"{text.shown} is not deterministic", text.place)


def bottom_joins(block: QueryBlock, ctx: Context, tested: tuple[Scalar, ...] = ()) -> Iterator[BottomJoin]:
    """Yield the joins that a block's FROM begins with, the last one first."""
    tree: Logical = block.tree
    above: tuple[Join | LateralView, ...] = ()
    while isinstance(tree, Join | LateralView):
        if isinstance(tree, Join) and (not above or tree.kind != "right"):
            yield BottomJoin(tree, above, block, ctx, tested)
        above = (*above, tree)
        tree = tree.left if isinstance(tree, Join) else tree.child


def _read_by(what: str, place: Place | None) -> Refused:
    return Refused(f"{what} of a later join reads the nearest row; join it to the result of a subquery", place)
