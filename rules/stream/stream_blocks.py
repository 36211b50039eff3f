"""Writes the program of an epoch for a join of two relations: the SELECT of the query over versions of its sides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dovetail.planner.expr import Scalar, quote
from dovetail.planner.logical import JOIN_KEYWORDS, Join, JoinKind, Logical, Project
from dovetail.planner.logical.relations import Scan, hint_name
from dovetail.planner.sql.to_sql import to_sql
from dovetail.planner.state.program import EpochProgram, Flow, Probe, Read, Step, Version
from dovetail.rules.context import Context
from dovetail.rules.query.from_items import INNER, bare, name_subqueries, read_from_items
from dovetail.rules.query.query_block import QueryBlock, read_block, where

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

    @property
    def condition(self) -> str:
        """All conjuncts, for a reader."""
        return " AND ".join(c.shown for c in (*self.on, *self.where))

    def program(self) -> EpochProgram:
        """Write the program of a join of two relations."""
        steps = [*self._matches()]
        for side in self.preserved:
            final, unmatched = Read(Version.FINAL, side), Read(Version.UNMATCHED, side)
            steps.append(self._step(self._probe(final, Read(Version.ALL, 1 - side), "anti"), unmatched))
            steps.append(self._step(self._unmatched_rows(unmatched)))
        return EpochProgram(tuple(steps))

    def _matches(self) -> Iterator[Step]:
        """Write the steps that return rows with a match."""
        new, before = ([Read(version, side) for side in (0, 1)] for version in (Version.NEW, Version.BEFORE))
        if self.kind == "semi":
            matched, first = Read(Version.MATCHED, 0), Read(Version.FIRST, 0)
            yield self._step(self._probe(new[0], Read(Version.ALL, 1), "semi"))
            yield self._step(self._probe(before[0], new[1], "semi"), matched)
            yield self._step(self._probe(matched, before[1], "anti"), first)
            yield self._step(first)
        elif self.kind != "anti":
            yield self._step(self._probe(new[0], Read(Version.ALL, 1), "inner"))
            yield self._step(self._probe(before[0], new[1], "inner"))

    def _unmatched_rows(self, unmatched: Read) -> Flow:
        """Return rows of a side without a match, as the query sees them: next to no rows of the other side."""
        if self.kind == "anti":
            return unmatched
        none = Read(Version.EMPTY, 1 - unmatched.side)
        return self._probe(none, unmatched, "right") if unmatched.side else self._probe(unmatched, none, "left")

    def _probe(self, left: Read, right: Read, kind: JoinKind) -> Probe:
        return Probe(left, right, kind, self.condition)

    def _step(self, flow: Flow, into: Read | None = None) -> Step:
        """Write the statement of a dataflow: the query over it, or the rows that become a version of a side."""
        tree = self._tree(flow)
        if into:
            items = (Scalar(f"{quote(self._alias(into))}.*"),)
            return Step(flow, to_sql(Project(tree, items)), into)
        if self.kind == "inner" and isinstance(tree, Join):
            tree, _ = self.block.from_items.rebuilt({0: tree.left, 1: tree.right}, lambda c: c, keeps_on=True)
            return Step(flow, to_sql(self.block.over(where(tree, self.block.condition))))
        return Step(flow, to_sql(self.block.over(where(tree, self.where))))

    def _tree(self, flow: Flow) -> Logical:
        if isinstance(flow, Read):
            return scan_of(flow, self._alias(flow))
        return Join(self._tree(flow.left), self._tree(flow.right), flow.kind, JOIN_KEYWORDS[flow.kind], self.on)

    def _alias(self, read: Read) -> str:
        return alias_of(self.relations[read.side])


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
    relations = from_items.relations
    if len(relations) < 2:
        return "it is no join of relations"
    if whole := next((r for r in relations if isinstance(r, Join)), None):
        return COLUMNS if whole.using or whole.natural else _NOT_INNER
    return Shape(block, "inner", relations, (*from_items.conjuncts, *block.condition), ())


def with_names(query: Logical, ctx: Context) -> Logical:
    """A query with names for the subqueries that it joins."""
    if (block := read_block(query)) is None:
        return query
    return block.put(block.over(where(name_subqueries(block.tree, ctx.fresh), block.condition)))


def alias_of(relation: Logical) -> str:
    """Return the name of a table or subquery; ``name_subqueries`` has named it."""
    return hint_name(relation) or ""


def scan_of(read: Read, alias: str) -> Scan:
    """Return a version of a side as a relation, under the name of the side."""
    return Scan((read.view,), read.view, alias, (), f"AS {quote(alias)}")
