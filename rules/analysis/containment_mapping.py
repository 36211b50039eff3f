"""Containment mappings: the relations of a subquery as relations of the outer query, its conditions in their names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice, product

from sqlglot import exp

from planner.conditions.compared import compared
from planner.errors import Unsupported
from planner.expr import ColumnRef, Scalar, canonical, column_ref, quote, sql
from planner.logical import Logical
from planner.sql.names import Source, Unresolved
from rules.analysis.same_source import SourceRows, bound, over_base, same_source
from rules.context import Context
from rules.query.inner_joins import InnerJoins
from rules.query.moving import Home, home, homes, moved
from rules.query.tables import tables

_MOST = 24  # so many ways of laying the relations of a query over those of a block are looked at


@dataclass(frozen=True)
class Term:
    """A condition on rows of the block: ``text`` in its names, ``value`` in one spelling for all who say the same.

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
    readings: tuple[tuple[SourceRows, SourceRows], ...]
    ctx: Context

    @cached_property
    def _outer_readings(self) -> tuple[SourceRows | None, ...]:
        found = dict(zip(self.to, (r[1] for r in self.readings), strict=True))
        return tuple(found.get(relation) for relation in self.outer.owner)

    @cached_property
    def _as_outer(self) -> tuple[tuple[Source, ...], tuple[SourceRows | None, ...]]:
        """The sources of the query in the places of those they are laid over."""
        sources = [Source((), ()) for _ in self.outer.sources]
        readings: list[SourceRows | None] = [None for _ in self.outer.sources]
        for relation, target, pair in zip(range(len(self.to)), self.to, self.readings, strict=True):
            sources[self._at(target)] = self.inner.sources[self.inner.owner.index(relation)]
            readings[self._at(target)] = pair[0]
        return tuple(sources), tuple(readings)

    def _at(self, relation: int) -> int:
        return self.outer.owner.index(relation)

    def scopes(self, scalar: Scalar) -> set[int]:
        """Whose columns an expression of the query names: 0 for its own, 1 for the block's."""
        return homes(scalar, (self.inner.sources, self.outer.sources), self.ctx.names)

    def inner_value(self, scalar: Scalar) -> str:
        """One spelling of an expression over the query's relations.  Raises ``Unresolved``."""
        sources, readings = self._as_outer
        return _ordered(over_base(scalar, readings, sources, self.ctx))

    def outer_value(self, scalar: Scalar) -> str:
        """The same of an expression over the block's relations: equal where both mean the same."""
        return _ordered(over_base(scalar, self._outer_readings, self.outer.sources, self.ctx))

    def outside(self, scalar: Scalar) -> Scalar:
        """An expression of the query over the columns of the block.  Raises ``Unresolved``."""
        scopes = (self.inner.sources, self.outer.sources)
        return moved(scalar, scopes, self.outer.sources, self._target, self.ctx.names)

    def home(self, ref: ColumnRef) -> Home:
        """Where a column of the query comes from; scope 1 is the block."""
        return home(ref, (self.inner.sources, self.outer.sources), self.ctx.names)

    def _target(self, found: Home) -> tuple[int, str]:
        if found.scope:
            return found.relation, found.column
        relation = self.inner.owner[found.relation]
        own, theirs = self.readings[relation]
        name = theirs.named(own.value(found.column, self.ctx.names.fold))
        if name is None:
            raise Unresolved(f"{found.column} is not shown by the relation outside")
        return self._at(self.to[relation]), name

    def term(self, scalar: Scalar) -> Term:
        """A condition of the query on its own rows, for the block."""
        relations = set()
        for ref in scalar.columns:
            relations.add(self.to[self.inner.owner[self.home(ref).relation]])
        return Term(self.outside(scalar).text, self.inner_value(scalar), frozenset(relations))

    def filters(self) -> Iterator[Term]:
        """What a relation of the query filters that the one of the block does not.  Raises ``Unresolved``."""
        for target, (own, theirs) in zip(self.to, self.readings, strict=True):
            if theirs.filters_beyond(own):
                raise Unresolved("the outer query filters out rows that the subquery reads")
            for value in own.filters_beyond(theirs):
                scalar = Scalar(sql(bound(Scalar(value).tree, partial(self._shown, target, theirs))))
                yield Term(scalar.text, self.outer_value(scalar), frozenset((target,)))

    def _shown(self, target: int, theirs: SourceRows, ref: ColumnRef) -> exp.Expression:
        """A column of a base by its name in the block."""
        name = theirs.named(sql(exp.column(ref.parts[-1], quoted=True)))
        if name is None:
            raise Unresolved(f"{ref.text} is filtered, and not shown by the relation outside")
        alias = self.outer.sources[self._at(target)].names[-1:]
        return Scalar(".".join(map(quote, (*alias, name)))).tree


def relation_numbers(scalar: Scalar, outer: InnerJoins, ctx: Context) -> frozenset[int]:
    """The numbers of the relations that an expression of a block names.  Raises ``Unresolved``, ``Unsupported``."""
    return frozenset(outer.owner[ctx.names.resolve(ref, outer.sources)[0]] for ref in scalar.columns)


def containment_mappings(inner: InnerJoins, outer: InnerJoins, ctx: Context) -> Iterator[ContainmentMapping]:
    """Every way in which the relations of a query are relations of the block, each another one.

    Raises ``Unresolved`` where they would be, were their rows the same at every reading.
    """
    found: dict[tuple[int, int], tuple[SourceRows, SourceRows]] = {}
    for (i, own), (j, theirs) in product(enumerate(inner.relations), enumerate(outer.relations)):
        alone = inner.owner.count(i) == outer.owner.count(j) == 1
        if (
            alone
            and tables(own, ctx.definitions) == tables(theirs, ctx.definitions)
            and (pair := same_source(own, theirs, ctx))
        ):
            found[i, j] = pair
    ways = product(*([j for i, j in found if i == own] for own in range(len(inner.relations))))
    for to in islice((to for to in ways if len(set(to)) == len(to)), _MOST):
        yield ContainmentMapping(inner, outer, to, tuple(found[pair] for pair in enumerate(to)), ctx)


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


def is_column(tree: exp.Expression) -> bool:
    """Whether an expression is a column and nothing else."""
    return isinstance(tree, exp.Column) and not isinstance(tree.this, exp.Star) and bool(column_ref(tree).parts)


def same_tables(one: Logical, other: Logical, ctx: Context) -> bool:
    """Whether two relations are written over the same tables."""
    return tables(one, ctx.definitions) == tables(other, ctx.definitions)
