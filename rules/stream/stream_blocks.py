"""The statements of an epoch: the query's own block over versions of its two sides.

inner            new A ⋈ all B      A before ⋈ new B
left, full       the same, and      rows of A that have become final and match nothing of B
anti             those alone
semi             new A ⋉ all B      rows of A before that new B matches, and B before did not
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.errors import Unsupported
from planner.expr import Scalar, quote
from planner.logical import JOIN_KEYWORDS, Join, JoinKind, Logical, Nested, Project
from planner.logical.relations import Scan
from planner.sql.names import Resolver, Unresolved
from planner.sql.to_sql import to_sql
from planner.state.spec import Blocks, view
from rules.query.inner_joins import InnerJoins, in_block, inner_joins, where
from rules.query.moving import SelectBlock, block_of

COLUMNS = "USING and NATURAL are left to Spark"
_NOT_INNER = "it joins more than two relations, and not all of them by inner joins"
_LONE: dict[str, tuple[int, ...]] = {"left": (0,), "anti": (0,), "right": (1,), "full": (0, 1)}


class NotTaken(Exception):
    """A join of streams that state modules do not take; the text says why."""


@dataclass(frozen=True)
class Shape:
    """A SELECT over a join of relations: conjuncts that decide about pairs (``on``), and those above (``where``).

    Inner joins have all of them in ``on``, and may be of more than two.  ``inner`` is there for these.  ``lefts`` are
    the relations of left joins among inner ones, by number, with the conjuncts of their ON, which also end ``on``.
    """

    block: SelectBlock
    kind: JoinKind
    relations: tuple[Logical, ...]
    on: tuple[Scalar, ...]
    where: tuple[Scalar, ...]
    inner: InnerJoins | None = None
    lefts: tuple[tuple[int, tuple[Scalar, ...]], ...] = ()

    @property
    def lone(self) -> tuple[int, ...]:
        """The sides whose rows are returned without a match."""
        return _LONE.get(self.kind, ())

    @property
    def inner_on(self) -> tuple[Scalar, ...]:
        """The conjuncts that all rows fulfil, also those without a match in a left join."""
        return self.on[: len(self.on) - sum(len(own) for _, own in self.lefts)]

    def bounding(self, pair: tuple[int, int]) -> tuple[Scalar, ...]:
        """The conjuncts that bound how far apart the rows of two sides lie, of those that name both.

        Those between two left joins do not: either may have NULLs in the place of its row.
        """
        if not self.lefts:
            return self.on
        own = [on for number, on in self.lefts if number in pair]
        return self.inner_on if not own else own[0] if len(own) == 1 else ()

    @property
    def kept(self) -> tuple[int, ...]:
        """The sides of whose rows it must be known whether they have had a match."""
        return (0,) if self.kind == "semi" else self.lone

    def filters(self, side: int) -> tuple[Scalar, ...]:
        """The conjuncts that, where they name one side alone, tell of its rows which are needed."""
        if self.lefts:
            return dict(self.lefts).get(side, self.inner_on)
        if side not in self.lone:
            other = 1 - side in self.lone and self.kind != "anti"
            return self.on if other else (*self.on, *self.where)
        return () if self.kind == "full" else self.where

    def blocks(self) -> Blocks:
        """The statements of a join of two, by the names of their views."""
        lone = [self._lone(side) if side in self.lone else "" for side in (0, 1)]
        unmatched = [self._unmatched(side) if side in self.lone else "" for side in (0, 1)]
        pairs: tuple[str, ...] = ()
        again: tuple[str, ...] = ()
        if self.kind == "semi":
            pairs = (self._over(self._scan("d", 0), self._scan("curr", 1)), self._alone("first", 0))
            again = (self._filtered("prev", "d", "semi"), self._filtered("again", "prev", "anti"))
        elif self.kind != "anti":
            pairs = tuple(
                self._over(self._scan(a, 0), self._scan(b, 1), "inner") for a, b in (("d", "curr"), ("prev", "d"))
            )
        return Blocks(pairs, again, tuple(unmatched), tuple(lone))

    def _alias(self, side: int) -> str:
        return alias_of(self.relations[side])

    def _scan(self, version: str, side: int) -> Scan:
        name, alias = view(version, side), self._alias(side)
        return Scan((name,), name, alias, (), f"AS {quote(alias)}")

    def _over(self, left: Logical, right: Logical, kind: JoinKind | None = None) -> str:
        """The query with other relations; of an outer join also as an inner one."""
        if self.inner is not None:
            tree, condition = self.inner.rebuilt(lambda n, _: (left, right)[n], lambda c: (c,))
            return to_sql(in_block(self.block.project, where(tree, condition)))
        kind = kind or self.kind
        return self._select(_join(left, right, kind, self.on))

    def _select(self, tree: Logical) -> str:
        return to_sql(in_block(self.block.project, where(tree, self.where)))

    def _alone(self, version: str, side: int) -> str:
        """The query over the rows of one side, where it shows no others."""
        return self._select(self._scan(version, side))

    def _lone(self, side: int) -> str:
        """The query over rows of one side that match nothing."""
        if self.kind == "anti":
            return self._alone("lone", side)
        sides = [self._scan("lone" if n == side else "none", n) for n in (0, 1)]
        return self._select(_join(sides[0], sides[1], "left" if side == 0 else "right", self.on))

    def _unmatched(self, side: int) -> str:
        return self._matching(self._scan("final", side), self._scan("curr", 1 - side), side, "anti")

    def _filtered(self, version: str, other: str, kind: JoinKind) -> str:
        return self._matching(self._scan(version, 0), self._scan(other, 1), 0, kind)

    def _matching(self, left: Logical, right: Logical, side: int, kind: JoinKind) -> str:
        """The rows of a version with a match in another, or without one."""
        items = (Scalar(f"{quote(self._alias(side))}.*"),)
        return to_sql(Project(_join(left, right, kind, self.on), items))


def shape_of(query: Logical, names: Resolver) -> Shape | str:
    """Read a query as a SELECT over a join of two relations, or an inner one of more; or the reason why it is none."""
    block = block_of(query)
    if block is None:
        return "it is more than one SELECT … FROM … WHERE"
    tree = bare(block.tree)
    if isinstance(tree, Join) and (tree.using or tree.natural):
        return COLUMNS
    if isinstance(tree, Join) and tree.kind not in ("inner", "cross"):
        if any(isinstance(bare(side), Join) for side in (tree.left, tree.right)):
            return _NOT_INNER
        return Shape(block, tree.kind, (bare(tree.left), bare(tree.right)), tree.condition, block.condition)
    try:
        joins = inner_joins(query, names)
    except (Unresolved, Unsupported) as no:
        return str(no)
    if joins is None or len(joins.relations) < 2:
        return "it is no join of relations"
    if whole := next((r for r in joins.relations if isinstance(r, Join)), None):
        return COLUMNS if whole.using or whole.natural else _NOT_INNER
    relations = tuple(map(bare, joins.relations))
    return Shape(block, "inner", relations, joins.conjuncts, (), joins)


def alias_of(relation: Logical) -> str:
    """The name by which the columns of a relation go.  Raises ``Unsupported`` where it has none."""
    name = getattr(relation, "alias", None) or next(iter(getattr(relation, "name", ())[-1:]), None)
    if not name:
        raise Unsupported("one of its relations has no name")
    return str(name)


def bare(node: Logical) -> Logical:
    """A relation without the parentheses around it."""
    while isinstance(node, Nested) and node.alias is None:
        node = node.child
    return node


def _join(left: Logical, right: Logical, kind: JoinKind, on: tuple[Scalar, ...]) -> Join:
    return Join(left, right, kind, JOIN_KEYWORDS[kind], on)
