"""FROM and WHERE of a SELECT in which joins are inner: relations in order, and conjuncts in one list.

Inner joins commute, so which ON a conjunct stands in does not matter.  An outer, semi or anti join, or a join with
USING, counts as one relation, as whole as it is written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from planner.expr import Scalar
from planner.logical import Aggregate, Filter, Join, Logical, Nested, Project, Windows
from planner.sql.names import Resolver, Source
from rules.query.moving import SelectBlock, block_of

Leaf = Callable[[int, Logical], Logical]
Conjunct = Callable[[Scalar], tuple[Scalar, ...]]


@dataclass(frozen=True)
class InnerJoins:
    """``relations`` in the order of FROM; ``conjuncts`` of every ON, then of WHERE.

    ``sources`` are the names that a condition can use, ``owner`` the number of the relation that each belongs to.
    """

    block: SelectBlock
    relations: tuple[Logical, ...]
    conjuncts: tuple[Scalar, ...]
    sources: tuple[Source, ...]
    owner: tuple[int, ...]

    def rebuilt(self, leaf: Leaf, conjunct: Conjunct) -> tuple[Logical, tuple[Scalar, ...]]:
        """FROM and the conjuncts of WHERE with every relation and conjunct changed in its place.

        A join left without a condition becomes a cross join.
        """
        numbers = iter(range(len(self.relations)))

        def tree(node: Logical) -> Logical:
            if _transparent(node):
                return replace(node, child=tree(node.child))  # type: ignore[attr-defined, type-var]
            if not _inner(node):
                return leaf(next(numbers), node)
            assert isinstance(node, Join)
            left, right = tree(node.left), tree(node.right)
            condition = tuple(n for c in node.condition for n in conjunct(c))
            if node.condition and not condition:
                return replace(node, left=left, right=right, kind="cross", keyword="CROSS JOIN", condition=())
            return replace(node, left=left, right=right, condition=condition)

        where = tuple(n for c in self.block.condition for n in conjunct(c))
        return tree(self.block.tree), where


def inner_joins(query: Logical, names: Resolver) -> InnerJoins | None:
    """Read the FROM and WHERE of a query's one SELECT; None where there is no such block.  Looks up columns lazily."""
    block = block_of(query)
    if block is None:
        return None
    relations: list[Logical] = []
    conjuncts: list[Scalar] = []
    _read(block.tree, relations, conjuncts)
    sources: list[Source] = []
    owner: list[int] = []
    for number, relation in enumerate(relations):
        found = names.sources(relation)
        sources += found
        owner += [number] * len(found)
    return InnerJoins(block, tuple(relations), (*conjuncts, *block.condition), tuple(sources), tuple(owner))


def _read(node: Logical, relations: list[Logical], conjuncts: list[Scalar]) -> None:
    if _transparent(node):
        _read(node.child, relations, conjuncts)  # type: ignore[attr-defined]
    elif _inner(node):
        assert isinstance(node, Join)
        _read(node.left, relations, conjuncts)
        _read(node.right, relations, conjuncts)
        conjuncts += node.condition
    else:
        relations.append(node)


def _inner(node: Logical) -> bool:
    return isinstance(node, Join) and node.kind in ("inner", "cross") and not node.using and not node.natural


def _transparent(node: Logical) -> bool:
    """Parentheses that hide no name."""
    return isinstance(node, Nested) and node.alias is None


def where(tree: Logical, condition: tuple[Scalar, ...]) -> Logical:
    """A FROM tree under a WHERE, if there is one."""
    return Filter(tree, condition) if condition else tree


def in_block(node: Logical, inner: Logical) -> Logical:
    """A SELECT with another FROM and WHERE."""
    if isinstance(node, Project | Aggregate | Windows) or (isinstance(node, Filter) and node.clause != "WHERE"):
        return replace(node, child=in_block(node.child, inner))
    return inner
