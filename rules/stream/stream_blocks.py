"""Writes the statements of an epoch: the SELECT of the query over versions of its two sides.

inner            new A ⋈ all B      A before ⋈ new B
left, full       the same, and      rows of A that became final and match no row of B
anti             the latter alone
semi             new A ⋉ all B      rows of A before that new B matches, and B before did not
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.errors import Unsupported
from planner.expr import Scalar, quote
from planner.logical import JOIN_KEYWORDS, Join, JoinKind, Logical, Project
from planner.logical.relations import Scan
from planner.sql.to_sql import to_sql
from planner.state.spec import EpochStatements, view
from rules.query.from_items import INNER, bare, read_from_items
from rules.query.query_block import QueryBlock, read_block, where

COLUMNS = "USING and NATURAL are left to Spark"
_NOT_INNER = "it joins more than two relations, and not all of them by inner joins"
_PRESERVED: dict[str, tuple[int, ...]] = {"left": (0,), "anti": (0,), "right": (1,), "full": (0, 1)}


@dataclass(frozen=True)
class Shape:
    """A SELECT over a join of relations: the conjuncts of the join condition (``on``), and of WHERE (``where``).

    Inner joins have all conjuncts in ``on`` and may have more than two relations.  ``lefts`` are the relations of left
    joins among inner ones, by number, with the conjuncts of their ON, which also end ``on``.
    """

    block: QueryBlock
    kind: JoinKind
    relations: tuple[Logical, ...]
    on: tuple[Scalar, ...]
    where: tuple[Scalar, ...]
    lefts: tuple[tuple[int, tuple[Scalar, ...]], ...] = ()

    @property
    def preserved(self) -> tuple[int, ...]:
        """The preserved sides: their rows are returned without a match, too."""
        return _PRESERVED.get(self.kind, ())

    @property
    def inner_on(self) -> tuple[Scalar, ...]:
        """The conjuncts that hold for all rows, also for those without a match in a left join."""
        return self.on[: len(self.on) - sum(len(conjuncts) for _, conjuncts in self.lefts)]

    def bounding(self, pair: tuple[int, int]) -> tuple[Scalar, ...]:
        """Return the conjuncts that may bound the distance of the rows of two sides.

        Those between two left joins do not: either may have NULLs in the place of its row.
        """
        if not self.lefts:
            return self.on
        of_lefts = [on for number, on in self.lefts if number in pair]
        return self.inner_on if not of_lefts else of_lefts[0] if len(of_lefts) == 1 else ()

    @property
    def match_tracked(self) -> tuple[int, ...]:
        """The sides whose rows must be tracked as matched or unmatched."""
        return (0,) if self.kind == "semi" else self.preserved

    def filters(self, side: int) -> tuple[Scalar, ...]:
        """Return the conjuncts that filter the rows of a side if they name this side alone."""
        if self.lefts:
            return dict(self.lefts).get(side, self.inner_on)
        if side not in self.preserved:
            other = 1 - side in self.preserved and self.kind != "anti"
            return self.on if other else (*self.on, *self.where)
        return () if self.kind == "full" else self.where

    def blocks(self) -> EpochStatements:
        """Write the statements of a join of two relations."""
        answers = [self._unmatched_answer(side) if side in self.preserved else "" for side in (0, 1)]
        unmatched = [self._unmatched(side) if side in self.preserved else "" for side in (0, 1)]
        pairs: tuple[str, ...] = ()
        again: tuple[str, ...] = ()
        if self.kind == "semi":
            pairs = (self._over(self._scan("d", 0), self._scan("curr", 1)), self._alone("first", 0))
            again = (self._filtered("prev", "d", "semi"), self._filtered("again", "prev", "anti"))
        elif self.kind != "anti":
            pairs = tuple(
                self._over(self._scan(a, 0), self._scan(b, 1), "inner") for a, b in (("d", "curr"), ("prev", "d"))
            )
        return EpochStatements(pairs, again, tuple(unmatched), tuple(answers))

    def _alias(self, side: int) -> str:
        return alias_of(self.relations[side])

    def _scan(self, version: str, side: int) -> Scan:
        name, alias = view(version, side), self._alias(side)
        return Scan((name,), name, alias, (), f"AS {quote(alias)}")

    def _over(self, left: Logical, right: Logical, kind: JoinKind | None = None) -> str:
        """Write the query over other relations; an outer join may become an inner one."""
        if self.kind == "inner":
            tree, _ = self.block.from_items.rebuilt({0: left, 1: right}, lambda c: c, keeps_on=True)
            return to_sql(self.block.over(where(tree, self.block.condition)))
        return self._select(_join(left, right, kind or self.kind, self.on))

    def _select(self, tree: Logical) -> str:
        return to_sql(self.block.over(where(tree, self.where)))

    def _alone(self, version: str, side: int) -> str:
        """Write the query over the rows of one side, if it returns no columns of the other."""
        return self._select(self._scan(version, side))

    def _unmatched_answer(self, side: int) -> str:
        """Write the query over rows of one side without a match."""
        if self.kind == "anti":
            return self._alone("lone", side)
        sides = [self._scan("lone" if n == side else "none", n) for n in (0, 1)]
        return self._select(_join(sides[0], sides[1], "left" if side == 0 else "right", self.on))

    def _unmatched(self, side: int) -> str:
        return self._matching(self._scan("final", side), self._scan("curr", 1 - side), side, "anti")

    def _filtered(self, version: str, other: str, kind: JoinKind) -> str:
        return self._matching(self._scan(version, 0), self._scan(other, 1), 0, kind)

    def _matching(self, left: Logical, right: Logical, side: int, kind: JoinKind) -> str:
        """Write the query for the rows of a version with a match in another, or without one."""
        items = (Scalar(f"{quote(self._alias(side))}.*"),)
        return to_sql(Project(_join(left, right, kind, self.on), items))


def shape_of(query: Logical) -> Shape | str:
    """Read a query as a SELECT over a join of two relations, or an inner join of more; or return why it is none."""
    block = read_block(query)
    if block is None:
        return "it is more than one SELECT … FROM … WHERE"
    tree = bare(block.tree)
    if isinstance(tree, Join) and (tree.using or tree.natural):
        return COLUMNS
    if isinstance(tree, Join) and tree.kind not in ("inner", "cross"):
        if any(isinstance(bare(side), Join) for side in (tree.left, tree.right)):
            return _NOT_INNER
        return Shape(block, tree.kind, (bare(tree.left), bare(tree.right)), tree.condition, block.condition)
    from_items = read_from_items(block.tree, INNER)
    relations = tuple(bare(item.relation) for item in from_items.found)
    if len(relations) < 2:
        return "it is no join of relations"
    if whole := next((r for r in relations if isinstance(r, Join)), None):
        return COLUMNS if whole.using or whole.natural else _NOT_INNER
    return Shape(block, "inner", relations, (*from_items.conjuncts, *block.condition), ())


def alias_of(relation: Logical) -> str:
    """Return the name of a relation.  Raises ``Unsupported`` if it has none."""
    name = getattr(relation, "alias", None) or next(iter(getattr(relation, "name", ())[-1:]), None)
    if not name:
        raise Unsupported("one of its relations has no name")
    return str(name)


def _join(left: Logical, right: Logical, kind: JoinKind, on: tuple[Scalar, ...]) -> Join:
    return Join(left, right, kind, JOIN_KEYWORDS[kind], on)
