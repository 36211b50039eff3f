"""Which columns of a relation in FROM a query block uses: above FROM, in the joins that it is in, or in later ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from planner.errors import Refused
from planner.expr import Scalar, column_ref, columns_in, has_star, is_star, quote
from planner.expr.tokens import mentioned
from planner.logical import Join, Logical, Relation, expressions, nodes_of_from
from planner.logical.nearest_join import NearestJoin
from planner.sql.names import Source
from planner.tree import Node
from rules.analysis.speculation import EVERY
from rules.context import Context
from rules.query.correlation import leans_on_left, words_of
from rules.query.query_block import QueryBlock
from rules.query.visible_leaves import visible_leaves


class UsedColumns:
    """What a block uses of the relations in its FROM."""

    def __init__(self, block: QueryBlock, ctx: Context, keys: tuple[Scalar, ...] = ()) -> None:
        self.block, self.names, self.keys = block, ctx.names, keys
        self.scope = ctx.scope(block.tree)

    def columns_of(self, relation: Logical) -> set[str]:
        """The folded names of the columns that are used above FROM."""
        above = (*self.block.project.items, *self.block.condition, *self.block.in_clauses, *self.keys)
        return self._named(relation, above)

    def in_joins(self, relation: Logical, top: Logical | None) -> set[str]:
        """The folded names of the columns that a join, and those in it, need."""
        return self._named(relation, _read_in_joins(nodes_of_from(top)) if top else ())

    def in_later_joins(self, relation: Logical, top: Logical | None) -> set[str]:
        """The folded names of the columns that other joins of FROM need."""
        inside = {id(node) for node in nodes_of_from(top)} if top else set()
        return self._named(relation, _read_in_joins(n for n in nodes_of_from(self.block.tree) if id(n) not in inside))

    def breaking_ties(self, relation: Logical, top: Logical | None) -> set[str]:
        """The folded names of the columns by which right rows of one time are ranked, and no condition compares."""
        if not isinstance(top, NearestJoin):
            return set()
        ties = self._named(relation, (Scalar(tie.text) for tie in top.nearest.ties))
        return ties - self._named(relation, top.condition)

    def filters_optional(self) -> bool:
        """Whether WHERE may leave out rows by what an outer join adds to them."""
        optional = (leaf.relation for leaf in visible_leaves(self.block.tree) if leaf.optional)
        return any(self._named(relation, self.block.condition) for relation in optional)

    def _named(self, relation: Logical, scalars: Iterable[Scalar]) -> set[str]:
        """The folded names of the columns of a relation that expressions name, or may name; ``EVERY`` if not known."""
        found: set[str] = set()
        scalars = tuple(scalars)
        for source in self.names.sources(relation):
            if source.columns is None and scalars:
                return {EVERY}
            columns = {self.names.fold(column.name) for column in source.columns or ()}
            found = found.union(*(self._in(scalar, source, columns) for scalar in scalars))
        return found

    def _in(self, scalar: Scalar, source: Source, columns: set[str]) -> set[str]:
        """The columns of a relation that an expression names, or may name."""
        fold = self.names.fold
        if scalar.plans or scalar.known is None:
            inside = (words_of(plan, self.names) for plan in scalar.plans)
            words = set(map(fold, mentioned(scalar.text))).union(*inside)
            return columns if EVERY in words else words & columns
        if is_star(scalar.tree):
            with suppress(Refused):
                shown = [self.scope.sources[number] for number in self.names.starred(scalar.tree, self.scope.sources)]
                return set() if shown and all(one is not source for one in shown) else columns
        if has_star(scalar.tree):
            return columns
        found: set[str] = set()
        for tree in columns_in(scalar.tree):
            bound = self.scope.find(tree)
            if bound is None:
                found |= set(map(fold, column_ref(tree).parts)) & columns
            elif self.scope.source(bound) is source:
                found.add(fold(bound.column.name))
        return found


def _read_in_joins(nodes: Iterable[Node]) -> Iterator[Scalar]:
    """Yield the conditions of joins, and the expressions of what reads the relations before it in FROM."""
    for node in nodes:
        if isinstance(node, NearestJoin):
            yield from map(Scalar, node.nearest.texts)
        if isinstance(node, Join | NearestJoin):
            yield from (Scalar(quote(name)) for name in node.using)
        if leans_on_left(node):
            yield from (scalar for below in node.walk() for scalar in expressions(below))
        elif not isinstance(node, Relation):
            yield from expressions(node)
