"""Where the relations of a FROM stand: how each is joined, and which of them LATERAL could see from there.

Inner joins commute, also with the outer, semi and anti joins that preserve their rows; so a condition of theirs may
move to WHERE.  A right or full join, or one with USING, counts as one relation, as whole as it is written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from planner.expr import Scalar
from planner.logical import Join, Logical, Nested
from planner.sql.names import Unresolved

Kind = Literal["inner", "left", "semi", "anti"]


@dataclass(frozen=True)
class FromItem:
    """A relation in FROM; ``on`` is the condition of its own outer, semi or anti join.

    It sees the relations from number ``first`` up to its own; ``free``: LATERAL can be written there.
    """

    number: int
    relation: Logical
    kind: Kind
    on: tuple[Scalar, ...]
    first: int
    free: bool


@dataclass(frozen=True)
class FromItems:
    """The relations of a FROM in order, and the conjuncts of its inner joins."""

    tree: Logical
    found: tuple[FromItem, ...]
    conjuncts: tuple[Scalar, ...]

    def rebuilt(
        self, instead: dict[int, Logical | None], conjunct: Callable[[Scalar], Scalar | None]
    ) -> tuple[Logical, tuple[Scalar, ...]]:
        """FROM with other relations, None for one that goes, and the conditions of inner joins with them.

        A relation put in the place of another has no condition; those there were are the second thing returned.
        """
        moved: list[Scalar] = []
        passed = 0

        def go(node: Logical) -> Logical | None:
            nonlocal passed
            if _is_leaf(node):
                passed += 1
                return instead.get(passed - 1, node)
            if isinstance(node, Nested):
                child = go(node.child)
                return child and replace(node, child=child)
            assert isinstance(node, Join)
            left, number = go(node.left), passed
            alone = node.kind != "inner" and node.kind != "cross"
            if alone:
                passed += 1
                right = instead.get(number, node.right)
            else:
                right = go(node.right)
            if number in instead and (alone or _is_leaf(node.right)):
                moved.extend(() if alone else node.condition)
                return _crossed(node, left, right) if left and right else left or right
            if left is None or right is None:
                if alone:
                    raise Unresolved("the relation to remove is the left side of an outer, semi or anti join")
                moved.extend(node.condition)
                return left or right
            if alone:
                return replace(node, left=left)
            condition = tuple(new for c in node.condition if (new := conjunct(c)) is not None)
            if node.condition and not condition:
                return _crossed(node, left, right)
            return replace(node, left=left, right=right, condition=condition)

        tree = go(self.tree)
        assert tree is not None
        return tree, tuple(moved)


def read_from_items(tree: Logical) -> FromItems:
    """Read a FROM tree."""
    found: list[FromItem] = []
    conjuncts: list[Scalar] = []

    def add(node: Logical, kind: Kind, on: tuple[Scalar, ...], first: int, free: bool) -> None:
        found.append(FromItem(len(found), node, kind, on, first, free))

    def go(node: Logical, first: int, free: bool) -> None:
        if _is_leaf(node):
            add(node, "inner", (), first, free)
        elif isinstance(node, Nested):
            go(node.child, len(found), False)
        elif isinstance(node, Join):
            go(node.left, first, free)
            if node.kind in ("left", "semi", "anti"):
                add(node.right, node.kind, node.condition, first, True)
            else:
                alone = isinstance(node.right, Join)  # a join on the right side, in parentheses or behind a comma
                go(node.right, len(found) if alone else first, not alone)
                conjuncts.extend(node.condition)

    go(tree, 0, False)
    return FromItems(tree, tuple(found), tuple(conjuncts))


def _is_leaf(node: Logical) -> bool:
    if isinstance(node, Nested):
        return node.alias is not None or _is_leaf(node.child)
    plain = isinstance(node, Join) and not node.using and not node.natural
    return not (plain and node.kind in ("inner", "cross", "left", "semi", "anti"))  # type: ignore[attr-defined]


def _crossed(join: Join, left: Logical, right: Logical) -> Join:
    keyword = join.keyword if join.keyword == "," else "CROSS JOIN"
    return replace(join, left=left, right=right, kind="cross", keyword=keyword, condition=())
