"""FROM and WHERE of a block over inner joins: its relations in order, its conjuncts in one list, and their names.

A conjunct of an inner join may stand in any ON.  Any other join counts as one relation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dovetail.planner.bind.names import Resolver
from dovetail.planner.bind.scope import Scope
from dovetail.planner.expr import Scalar
from dovetail.planner.logical import Logical
from dovetail.rules.query.from_items import INNER, FromItems, read_from_items
from dovetail.rules.query.query_block import QueryBlock


@dataclass(frozen=True)
class InnerJoins:
    """A block and its relations; ``scope`` are the names that a condition can use."""

    block: QueryBlock
    from_items: FromItems
    relations: tuple[Logical, ...]
    scope: Scope

    @property
    def conjuncts(self) -> tuple[Scalar, ...]:
        """The conjuncts of every ON, then of WHERE."""
        return (*self.from_items.conjuncts, *self.block.condition)

    @property
    def filters(self) -> tuple[Scalar, ...]:
        """The same in the order in which Spark evaluates them, each guarding the next: WHERE, then ON."""
        return (*self.block.condition, *self.from_items.conjuncts)

    def rebuilt(
        self, instead: Mapping[int, Logical], conjunct: Callable[[Scalar], Scalar | None]
    ) -> tuple[Logical, tuple[Scalar, ...]]:
        """FROM and WHERE with other relations, and with every conjunct changed in its place, or left out."""
        tree, _ = self.from_items.rebuilt(instead, conjunct, keeps_on=True)
        return tree, tuple(new for c in self.block.condition if (new := conjunct(c)) is not None)


def inner_joins(block: QueryBlock, names: Resolver) -> InnerJoins:
    """Read the FROM and WHERE of a block.  Looks up columns lazily."""
    from_items = read_from_items(block.tree, INNER)
    return InnerJoins(block, from_items, from_items.relations, Scope.of(names, *from_items.relations))
