"""Containment mappings: map the relations of a subquery to those of the outer query, and rewrite its conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice, product
from typing import TypeVar

from dovetail.planner.bind.names import Source
from dovetail.planner.bind.scope import BoundColumn, Scope
from dovetail.planner.conditions.compared import compared
from dovetail.planner.errors import Refused, Unsupported
from dovetail.planner.expr import Scalar, canonical
from dovetail.planner.logical import Logical
from dovetail.rules.analysis.same_source import RelationLineage, over_base, rewrite_over_output, same_source
from dovetail.rules.context import Context
from dovetail.rules.query.inner_joins import InnerJoins
from dovetail.rules.query.tables import tables

T = TypeVar("T")
_MOST = 24  # so many ways of laying the relations of a query over those of a block are looked at


@dataclass(frozen=True)
class Term:
    """A condition on rows of the block: ``text`` in its names, ``value`` in canonical form.

    ``relations`` are the numbers of those it names.
    """

    text: str
    value: str
    relations: frozenset[int]


@dataclass(frozen=True)
class ContainmentMapping:
    """A mapping of the relations of ``inner`` to those of ``outer``: relation ``to[i]`` reads all rows of relation i.

    Chandra and Merlin, "Optimal Implementation of Conjunctive Queries in Relational Data Bases", STOC 1977.
    """

    inner: InnerJoins
    outer: InnerJoins
    to: tuple[int, ...]
    readings: tuple[tuple[RelationLineage, RelationLineage], ...]
    ctx: Context

    @cached_property
    def _outer_readings(self) -> tuple[RelationLineage | None, ...]:
        found = dict(zip(self.to, (r[1] for r in self.readings), strict=True))
        return tuple(found.get(relation) for relation in self.outer.scope.items)

    @cached_property
    def _as_outer(self) -> tuple[Scope, tuple[RelationLineage | None, ...]]:
        """The sources of the query in the places of those they are laid over."""
        sources = [Source((), ()) for _ in self.outer.scope.sources]
        readings: list[RelationLineage | None] = [None for _ in sources]
        for relation, target, pair in zip(range(len(self.to)), self.to, self.readings, strict=True):
            sources[self._at(target)] = self.inner.scope.sources[self.inner.scope.items.index(relation)]
            readings[self._at(target)] = pair[0]
        return replace(self.outer.scope, sources=tuple(sources)), tuple(readings)

    def _at(self, relation: int) -> int:
        return self.outer.scope.items.index(relation)

    @cached_property
    def scope(self) -> Scope:
        """The names of the query; level 1 is the block."""
        return replace(self.inner.scope, outer=self.outer.scope)

    def inner_value(self, scalar: Scalar) -> str:
        """Return the canonical form of an expression over the subquery's relations.  Raises ``Refused``."""
        scope, readings = self._as_outer
        return _ordered(over_base(scope.bind(scalar), readings))

    def outer_value(self, scalar: Scalar) -> str:
        """Return the canonical form of an expression over the block's relations, comparable with ``inner_value``."""
        return _ordered(over_base(self.outer.scope.bind(scalar), self._outer_readings))

    def outside(self, scalar: Scalar) -> Scalar:
        """An expression of the query over the columns of the block.  Raises ``Refused``."""
        return self.scope.bind(scalar).rebind(self.outer.scope, self._target)

    def _target(self, found: BoundColumn) -> tuple[tuple[int, int], str]:
        if found.level:
            return (0, found.relation), found.column.name
        relation = self.inner.scope.item(found)
        own, theirs = self.readings[relation]
        name = theirs.output_name(own.value(found))
        if name is None:
            raise Refused(f"{found.column.name} is not a column of the matching relation of the outer query")
        return (0, self._at(self.to[relation])), name

    def term(self, scalar: Scalar) -> Term:
        """Translate a condition of the subquery on its own rows to the block."""
        relations = frozenset(self.to[number] for number in self.scope.bind(scalar).items)
        return Term(self.outside(scalar).text, self.inner_value(scalar), relations)

    def filters(self) -> Iterator[Term]:
        """Yield the filters of the subquery's relations that the block's relations lack.  Raises ``Refused``."""
        for target, (own, theirs) in zip(self.to, self.readings, strict=True):
            if theirs.filters_beyond(own):
                raise Refused("the outer query filters out rows that the subquery reads")
            for value in own.filters_beyond(theirs):
                alias = self.outer.scope.sources[self._at(target)].names[-1:]
                scalar = Scalar(rewrite_over_output(theirs, alias, value))
                yield Term(scalar.text, self.outer_value(scalar), frozenset((target,)))


def containment_mappings(inner: InnerJoins, outer: InnerJoins, ctx: Context) -> Iterator[ContainmentMapping]:
    """Every way in which the relations of a query are relations of the block, each another one.

    Raises ``Refused`` where they would be, were their rows the same at every reading.
    """
    found: dict[tuple[int, int], tuple[RelationLineage, RelationLineage]] = {}
    for (i, own), (j, theirs) in product(enumerate(inner.relations), enumerate(outer.relations)):
        alone = inner.scope.items.count(i) == outer.scope.items.count(j) == 1
        if alone and same_tables(own, theirs, ctx) and (pair := same_source(own, theirs, ctx)):
            found[i, j] = pair
    ways = product(*([j for i, j in found if i == own] for own in range(len(inner.relations))))
    for to in islice((to for to in ways if len(set(to)) == len(to)), _MOST):
        yield ContainmentMapping(inner, outer, to, tuple(found[pair] for pair in enumerate(to)), ctx)


def read_first(mappings: Iterable[ContainmentMapping], read: Callable[[ContainmentMapping], T | None]) -> T | None:
    """What is read by the first mapping that is not refused; raises the first ``Refused`` where all are."""
    refused: Refused | None = None
    for mapped in mappings:
        try:
            return read(mapped)
        except Refused as no:
            refused = refused or no
    if refused:
        raise refused
    return None


@lru_cache(maxsize=4_096)
def _ordered(value: str) -> str:
    """A comparison with its sides in order."""
    try:
        comparison = compared(Scalar(value))
    except Unsupported:
        return value
    if comparison is None:
        return value
    ends = [canonical(end) for end in comparison.operands]
    if ends[0] > ends[1]:
        ends, comparison = ends[::-1], comparison.turned
    return f"{ends[0]} {comparison.sign} {ends[1]}"


def same_tables(one: Logical, other: Logical, ctx: Context) -> bool:
    """Whether two relations are written over the same tables."""
    return tables(one, ctx.definitions) == tables(other, ctx.definitions)
