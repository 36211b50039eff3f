"""Decides whether a subquery is correlated: whether it uses columns of the outer query."""

from collections.abc import Iterator

from dovetail.planner.bind.names import Resolver
from dovetail.planner.bind.scope import Scope
from dovetail.planner.bind.select_list import items_named
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar
from dovetail.planner.logical import Derived, OneRow, Project, Relation, expressions
from dovetail.planner.tree import Node


def is_correlated(query: Node, names: Resolver) -> bool:
    """Whether a subquery is correlated with the outer query; True also if that is unknown."""
    return any(isinstance(n, Project) and not _closed(n, names) for n in query.walk())


def _closed(block: Project, names: Resolver) -> bool:
    """Whether every column of one SELECT belongs to its own relations or its own select list."""
    scalars: list[Scalar] = [*block.items]
    node: Node = block.child
    while not isinstance(node, Relation | OneRow) and len(node.children) == 1:
        scalars += expressions(node)
        node = node.children[0]
    # a semi join does not show what its condition reads
    parts = [(scalars, (node,)), *((expressions(join), join.children) for join in _joins(node))]
    try:
        for texts, relations in parts:
            scope = Scope.of(names, *relations)
            for column in (c for text in texts for c in text.columns):
                is_alias = texts is scalars and items_named(column, block.items, names)
                if column.parts[-1] != "*" and not is_alias:
                    scope.column(column)
    except Refused:
        return False
    return True


def _joins(node: Node) -> Iterator[Node]:
    """The joins of one FROM, of any kind; those inside subqueries are looked at with these."""
    if len(node.children) > 1:
        yield node
    for child in () if isinstance(node, Derived | Project) else node.children:
        yield from _joins(child)
