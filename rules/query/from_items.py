"""FROM as a list of relations, each with the kind of its join; rebuilds FROM after some of them have changed.

    FROM a JOIN (b LEFT JOIN c ON q) ON p        a inner   b inner   c left, on q       conjuncts: p

Inner joins commute, also with the outer, semi and anti joins that preserve their rows; so their conditions may move to
WHERE.  The caller names the kinds of join that it can move conditions across; any other join, and one with USING,
counts as one relation and stays as written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from dovetail.planner.expr import Scalar
from dovetail.planner.logical import BandJoin, Derived, Join, JoinKind, LateralView, Logical, Nested
from dovetail.planner.logical.nearest_join import NearestJoin
from dovetail.planner.logical.relations import alias_clause

Kind = Literal["inner", "left", "semi", "anti"]
Kinds = frozenset[JoinKind]

INNER: Kinds = frozenset(("inner", "cross"))
PRESERVING: Kinds = INNER | {"left", "semi", "anti"}


@dataclass(frozen=True)
class FromItem:
    """A relation in FROM; ``on`` is the condition of the outer, semi or anti join that adds it.

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
    """The relations of a FROM in order, and the conjuncts of its inner joins; ``through`` has the kinds of join read.

    ``outer`` are the relations of outer, semi and anti joins, in the order in which they are joined.
    """

    tree: Logical
    found: tuple[FromItem, ...]
    conjuncts: tuple[Scalar, ...]
    outer: tuple[FromItem, ...]
    through: Kinds

    @property
    def relations(self) -> tuple[Logical, ...]:
        """The relations, without parentheses."""
        return tuple(bare(item.relation) for item in self.found)

    @property
    def outer_conjuncts(self) -> tuple[Scalar, ...]:
        """The conjuncts of outer, semi and anti joins."""
        return tuple(conjunct for item in self.outer for conjunct in item.on)

    def rebuilt(
        self,
        instead: Mapping[int, Logical],
        conjunct: Callable[[Scalar], Scalar | None],
        *,
        keeps_on: bool = False,
    ) -> tuple[Logical, tuple[Scalar, ...]]:
        """FROM with other relations, and with other conditions of inner joins.

        A relation put in the place of another has no condition, unless it ``keeps_on``; those there were are the
        second thing returned.  An inner join left without a condition becomes a cross join.
        """
        moved: list[Scalar] = []
        passed = 0

        def go(node: Logical) -> Logical:
            nonlocal passed
            if self._is_item(node):
                passed += 1
                return instead.get(passed - 1, node)
            if isinstance(node, Nested):
                return replace(node, child=go(node.child))
            assert isinstance(node, Join)
            assert node.kind != "right", "the replacement of its left side would be joined last"
            left, number = go(node.left), passed
            alone = node.kind not in INNER
            if alone:
                passed += 1
                right = instead.get(number, node.right)
            else:
                right = go(node.right)
            if number in instead and not keeps_on and (alone or self._is_item(node.right)):
                moved.extend(() if alone else node.condition)
                return _crossed(node, left, right)
            if alone:
                return replace(node, left=left, right=right)
            condition = tuple(new for c in node.condition if (new := conjunct(c)) is not None)
            if node.condition and not condition:
                return _crossed(node, left, right)
            return replace(node, left=left, right=right, condition=condition)

        return go(self.tree), tuple(moved)

    def _is_item(self, node: Logical) -> bool:
        return _is_item(node, self.through)


def read_from_items(tree: Logical, through: Kinds = PRESERVING) -> FromItems:
    """Read a FROM tree; joins of kinds that are not in ``through`` stay whole.

    A right join is a left join of its left side, which stands before what it is joined with.
    """
    found: list[FromItem] = []
    outer: list[FromItem] = []
    conjuncts: list[Scalar] = []

    def add(node: Logical, kind: Kind, on: tuple[Scalar, ...], first: int, free: bool) -> FromItem:
        found.append(FromItem(len(found), node, kind, on, first, free))
        return found[-1]

    def go(node: Logical, first: int, free: bool) -> None:
        if _is_item(node, through):
            add(node, "inner", (), first, free)
        elif isinstance(node, Nested):
            go(node.child, len(found), False)
        elif isinstance(node, Join) and node.kind == "right":
            item = add(node.left, "left", node.condition, first, False)
            go(node.right, first, False)
            outer.append(item)
        elif isinstance(node, Join):
            go(node.left, first, free)
            if node.kind == "left" or node.kind == "semi" or node.kind == "anti":
                outer.append(add(node.right, node.kind, node.condition, first, True))
            else:
                alone = isinstance(node.right, Join)  # a join on the right side, in parentheses or behind a comma
                go(node.right, len(found) if alone else first, not alone)
                conjuncts.extend(node.condition)

    go(tree, 0, False)
    return FromItems(tree, tuple(found), tuple(conjuncts), tuple(outer), through)


def leaves(tree: Logical, *, named: bool = False) -> list[Logical]:
    """All relations of a FROM tree, in any kind of join; a LATERAL VIEW comes after those that it reads.

    With ``named``, only those whose columns can be named above FROM, one for each source of names.
    """
    match tree:
        case Join():
            hides = named and tree.kind in ("semi", "anti")
            return leaves(tree.left, named=named) + ([] if hides else leaves(tree.right, named=named))
        case Nested() if tree.alias is None:
            return leaves(tree.child, named=named)
        case LateralView():
            return [*leaves(tree.child, named=named), tree]
    return [tree]


def with_leaves(tree: Logical, instead: Iterable[tuple[Logical, Logical]]) -> Logical:
    """A FROM tree with other relations or joins: each pair is one of the tree, and what comes in its place."""
    for old, new in instead:
        tree = _with_leaf(tree, old, new)
    return tree


def _with_leaf(tree: Logical, old: Logical, new: Logical) -> Logical:
    return new if tree is old else map_sides(tree, lambda side: _with_leaf(side, old, new))


def map_sides(tree: Logical, fn: Callable[[Logical], Logical]) -> Logical:
    """A join of any kind in FROM with ``fn`` applied to each tree that it reads; a relation as it is."""
    match tree:
        case Join() | BandJoin() | NearestJoin():
            return replace(tree, left=fn(tree.left), right=fn(tree.right))
        case Nested(alias=None) | LateralView():
            return replace(tree, child=fn(tree.child))
    return tree


def name_subqueries(tree: Logical, fresh: Callable[[str], str]) -> Logical:
    """A FROM tree whose subqueries have names; ``fresh`` makes those that are missing."""
    if not isinstance(tree, Derived) or tree.alias:
        return map_sides(tree, lambda side: name_subqueries(side, fresh))
    alias = fresh("t")
    return replace(tree, alias=alias, suffix=alias_clause(alias))


def bare(node: Logical) -> Logical:
    """A relation without the parentheses around it, which hide no name."""
    while isinstance(node, Nested) and node.alias is None:
        node = node.child
    return node


def _is_item(node: Logical, through: Kinds) -> bool:
    inner = bare(node)
    return not (isinstance(inner, Join) and inner.kind in through and not inner.using and not inner.natural)


def _crossed(join: Join, left: Logical, right: Logical) -> Join:
    keyword = join.keyword if join.keyword == "," else "CROSS JOIN"
    return replace(join, left=left, right=right, kind="cross", keyword=keyword, condition=())
