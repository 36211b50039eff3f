"""One SELECT and its clauses: the query block of System R, the select box of Starburst's query graph model.

    WITH w AS (…) SELECT /*+ hint */ DISTINCT items FROM … WHERE … GROUP BY … HAVING … ORDER BY … LIMIT …

A block is a view of the nodes that the reader made, which are nested from LIMIT down to FROM:

    above         With, Limit, Sort: the clauses that take what the select list returns, the outermost first
    project       the select list, with its hint and quantifier
    below         Filter (QUALIFY, HAVING), Windows, Aggregate: the clauses between select list and WHERE
    condition     the conjuncts of WHERE
    tree          FROM as it is written: a relation, or joins of relations
    query         the outermost of these nodes

``from_items`` reads ``tree`` as a list of relations, each with the way in which it is joined.  Nothing is copied:
``over`` puts the select list and the clauses below it over another FROM and WHERE, and what was not changed prints as
it was.  A set operation, a SELECT without FROM and a query that is kept as text are no block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from dovetail.planner.expr import Scalar
from dovetail.planner.expr.aggregate_calls import aggregates_rows
from dovetail.planner.logical import (
    Aggregate,
    Derived,
    Filter,
    Join,
    Limit,
    Logical,
    OneRow,
    Project,
    Sort,
    Windows,
    With,
    Wrapped,
    expressions,
)
from dovetail.planner.tree import Node
from dovetail.rules.query.from_items import FromItems, read_from_items


@dataclass(frozen=True)
class QueryBlock:
    """One SELECT; see the module for the fields."""

    above: tuple[With | Sort | Limit, ...]
    project: Project
    below: tuple[Filter | Windows | Aggregate, ...]
    condition: tuple[Scalar, ...]
    tree: Logical
    query: Logical

    @property
    def clauses(self) -> tuple[Logical, ...]:
        """All that is more than SELECT … FROM … WHERE, the outermost first."""
        return (*self.above, *self.below)

    @property
    def is_plain(self) -> bool:
        """Whether this is SELECT … FROM … WHERE, without hint, DISTINCT or ALL."""
        return not (self.clauses or self.project.quantifier or self.project.hint)

    @property
    def aggregate(self) -> Aggregate | None:
        """GROUP BY."""
        return next((n for n in self.below if isinstance(n, Aggregate)), None)

    @property
    def having(self) -> tuple[Scalar, ...]:
        """The conjuncts of HAVING."""
        return tuple(c for n in self.below if isinstance(n, Filter) and n.clause == "HAVING" for c in n.condition)

    @property
    def is_grouped(self) -> bool:
        """Whether between select list and WHERE there is nothing but GROUP BY and HAVING, if at all."""
        return all(isinstance(n, Aggregate) or (isinstance(n, Filter) and n.clause == "HAVING") for n in self.below)

    @property
    def is_aggregated(self) -> bool:
        """Whether it groups or aggregates rows, and does no more with them."""
        return self.is_grouped and (self.aggregate is not None or any(map(aggregates_rows, self.project.items)))

    @property
    def sort(self) -> Sort | None:
        """ORDER BY, SORT BY, DISTRIBUTE BY or CLUSTER BY."""
        return next((n for n in self.above if isinstance(n, Sort)), None)

    @property
    def in_clauses(self) -> Iterator[Scalar]:
        """The expressions of all clauses but the select list, FROM and WHERE."""
        return (scalar for node in self.clauses for scalar in expressions(node))

    @property
    def subqueries(self) -> Iterator[Node]:
        """The subqueries of the select list and of WHERE, and the LATERAL ones that FROM joins, the last one first."""
        for scalar in (*self.project.items, *self.condition):
            yield from scalar.plans
        tree = self.tree
        while isinstance(tree, Join):
            if isinstance(tree.right, Derived) and tree.right.lateral:
                yield tree.right.query
            tree = tree.left

    @cached_property
    def from_items(self) -> FromItems:
        """FROM as relations, and the ways in which they are joined."""
        return read_from_items(self.tree)

    @property
    def conjuncts(self) -> tuple[Scalar, ...]:
        """The conjuncts of inner joins, then of WHERE: all that each row fulfils."""
        return (*self.from_items.conjuncts, *self.condition)

    def over(self, rows: Logical, **changes: Any) -> Project:
        """The select list and the clauses below it over another FROM and WHERE; ``changes`` are of the select list."""
        for clause in reversed(self.below):
            rows = replace(clause, child=rows)
        return replace(self.project, child=rows, **changes)

    def put(self, new: Logical) -> Logical:
        """The query with another SELECT in the place of this one."""

        def put(query: Logical) -> Logical:
            return new if query is self.project else replace(query, child=put(query.child))  # type: ignore[attr-defined, type-var]

        return put(self.query)


def read_block(query: Node) -> QueryBlock | None:
    """Read the one SELECT … FROM … of a query; None where there is none, or more than one."""
    above: list[With | Sort | Limit] = []
    below: list[Filter | Windows | Aggregate] = []
    node = query
    while isinstance(node, With | Sort | Limit | Wrapped):
        if not isinstance(node, Wrapped):
            above.append(node)
        node = node.child
    if not isinstance(node, Project):
        return None
    project, node = node, node.child
    while isinstance(node, Aggregate | Windows) or (isinstance(node, Filter) and node.clause != "WHERE"):
        below.append(node)
        node = node.child
    condition, node = (node.condition, node.child) if isinstance(node, Filter) else ((), node)
    if isinstance(node, OneRow):
        return None
    return QueryBlock(tuple(above), project, tuple(below), condition, node, query)  # type: ignore[arg-type]


def move_conjuncts(node: Filter, moved: Callable[[Scalar, Logical], Logical | None]) -> Logical | None:
    """FROM under its WHERE, with the conjuncts in FROM for which ``moved`` returns another tree.

    None if it returns one for none.
    """
    if node.clause != "WHERE" or isinstance(node.child, OneRow):
        return None
    tree, kept = node.child, []
    for conjunct in node.condition:
        found = moved(conjunct, tree)
        if found is None:
            kept.append(conjunct)
        else:
            tree = found
    return None if tree is node.child else where(tree, tuple(kept))


def where(tree: Logical, condition: tuple[Scalar, ...]) -> Logical:
    """A FROM tree under a WHERE, if there is one."""
    return Filter(tree, condition) if condition else tree
