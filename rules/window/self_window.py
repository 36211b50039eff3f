"""Rewrites a block whose subqueries aggregate its own rows: the aggregates become window columns.

A single relation becomes a subquery with the same name and additional columns:

    FROM t x                     FROM (SELECT *, avg(v) OVER (PARTITION BY x.k) AS __dt_w1 FROM t x) AS x
    WHERE x.v > (SELECT …)       WHERE x.v > (__dt_w1)

Several relations are joined inside, and get their names back by LATERAL subqueries of one row, which Spark makes
projections.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dovetail.planner.bind.names import Source
from dovetail.planner.bind.words import words_of
from dovetail.planner.errors import Refused, ShowsAddedColumn, Unsupported
from dovetail.planner.expr import Scalar, is_star, quote
from dovetail.planner.logical import Derived, Join, Logical, OneRow, Project
from dovetail.planner.logical.relations import references_left, subquery_as
from dovetail.planner.sql.to_sql import STAR_OVER_MERGED, STAR_WITHOUT_NAME, refuse_stars
from dovetail.rules.analysis.correlation_keys import equal_columns
from dovetail.rules.analysis.same_source import reading
from dovetail.rules.analysis.speculation import check_order, check_speculation
from dovetail.rules.context import Context
from dovetail.rules.query.char_columns import check_aliases, check_values
from dovetail.rules.query.decorrelation import check_deterministic
from dovetail.rules.query.inner_joins import InnerJoins
from dovetail.rules.query.query_block import where
from dovetail.rules.window.correlated_aggregate import CorrelatedAggregate, Group


@dataclass(frozen=True)
class Semi:
    """A relation of the block that is joined with the groups by their keys only: it keeps or drops whole groups.

    ``filters``: the conditions of the block on it.  ``inside``: a table, and the conditions on it inside the relation.
    """

    relation: Logical
    ties: tuple[Scalar, ...]
    filters: tuple[Scalar, ...]
    inside: tuple[Logical, tuple[Scalar, ...]] | None

    @property
    def conditions(self) -> tuple[tuple[Logical, tuple[Scalar, ...]], ...]:
        """All conditions that leave few groups, each with the relation that they are on."""
        here = ((self.relation, self.filters),) if self.filters else ()
        return (*here, self.inside) if self.inside else here


class WindowedBlock:
    """A block and its requests that aggregate rows of the same relations."""

    def __init__(self, outer: InnerJoins, requests: tuple[CorrelatedAggregate, ...], ctx: Context):
        self.project, self.outer, self.requests, self.ctx = outer.block.project, outer, requests, ctx
        self.relations = requests[0].relations
        self.value = requests[0].mapped.outer_value
        self.places: dict[Scalar, frozenset[int]] = {}
        for conjunct in outer.conjuncts:
            if not conjunct.plans and (place := self._place(conjunct)):
                self.places[conjunct] = place
        self.groups = {r.answer.relation: r.answer for r in requests if isinstance(r.answer, Group)}
        self.answers = dict(r.answer for r in requests if isinstance(r.answer, tuple))
        self.common = self._common()
        self.guards = tuple(dict.fromkeys(k.text for r in requests if r.strict for k in r.keys if k.guarded))
        self._check_speculation()

    def _check_speculation(self) -> None:
        """Raise ``UnsafeSpeculation`` for expressions that might raise an error on rows that the query filters out."""
        known = self.outer.scope.type_of
        check_order(tuple(self.common), map(self._filters_of, self.requests), known, self.ctx)
        for own in map(self._own, self.requests):  # CASE WHEN a AND b THEN … does not guard b by a
            check_speculation(map(Scalar, own if len(own) > 1 else ()), known, self.ctx, "query")

    def _filters_of(self, request: CorrelatedAggregate) -> tuple[str, ...]:
        """The conditions of a subquery, those of the block in the block's words."""
        texts = {value: conjunct.text for conjunct, value in self.common.items()}
        return tuple(texts.get(term.value, term.text) for term in request.own)

    def _place(self, conjunct: Scalar) -> frozenset[int]:
        try:
            check_deterministic(conjunct)
            return self.outer.scope.bind(conjunct).items
        except Refused:
            return frozenset()

    def _common(self) -> dict[Scalar, str]:
        """The conditions that the block and all subqueries have."""
        found = {}
        for conjunct, place in self.places.items():
            if place <= set(self.relations):
                try:
                    value = self.value(conjunct)
                except Refused:
                    continue
                if all(value in {t.value for t in r.own} for r in self.requests):
                    found[conjunct] = value
        return found

    def _own(self, request: CorrelatedAggregate) -> tuple[str, ...]:
        """Return the filters on the rows of one request.  Raises ``Refused`` if they need more than the row."""
        filters = []
        for term in request.own:
            if term.value in self.common.values():
                continue
            if isinstance(request.answer, Group):
                raise Refused(f"only the subquery filters by {term.text}")
            if len(term.relations) > 1:
                raise Refused(f"the outer query does not join its relations by {term.text}")
            filters.append(term.text)
        guarded = [k.text for k in request.keys if k.guarded and k.text not in self.guards]
        return tuple(f"({f})" for f in filters) + tuple(f"{k} IS NOT NULL" for k in dict.fromkeys(guarded))

    def semis(self) -> tuple[Semi, ...]:
        """The relations that keep or drop whole groups, and are filtered, which may make it worth while."""
        keys = set.intersection(*({k.value for k in r.keys} for r in self.requests))
        found = []
        for number, relation in enumerate(self.outer.relations):
            if number in self.relations or number in self.groups or references_left(relation):
                continue
            ties, filters = [], []
            for conjunct, place in self.places.items():
                if place == {number}:
                    filters.append(conjunct)
                elif number in place and place <= {number, *self.relations} and self._ties(conjunct, number, keys):
                    ties.append(conjunct)
            semi = Semi(relation, tuple(ties), tuple(filters), self._filtered_table(relation))
            if ties and semi.conditions and not self.ctx.nonrepeatable_reason(relation):
                found.append(semi)
        return tuple(found)

    def _filtered_table(self, relation: Logical) -> tuple[Logical, tuple[Scalar, ...]] | None:
        """The table below a relation that filters it, and the conditions; None for another relation."""
        try:
            found = reading(relation, self.ctx)
        except (Refused, Unsupported):
            return None
        return (found.base, tuple(map(Scalar, found.filters))) if found.filters else None

    def _ties(self, conjunct: Scalar, number: int, keys: set[str]) -> bool:
        """Whether a condition is an equality of a column of a relation with a key."""
        ends = equal_columns(conjunct, self.outer.scope) or ()
        inside = [end for end in ends if self.outer.scope.bind(end).items != {number}]
        return len(inside) == 1 and self.value(inside[0]) in keys

    def sources(self) -> tuple[Logical, ...]:
        """The relations that are aggregated."""
        return tuple(self.outer.relations[n] for n in self.relations)

    def filters(self) -> tuple[tuple[Scalar, ...], ...]:
        """The conditions on each of these relations."""
        return tuple(tuple(c for c in self.common if self.places[c] == {number}) for number in self.relations)

    @property
    def alone(self) -> bool:
        """Whether the block reads all of these rows, and nothing else."""
        answered = {*self.common, *self.answers}
        return len(self.outer.relations) == len(self.relations) and answered >= set(self.outer.conjuncts)

    def windowed(self, semis: tuple[Semi, ...]) -> Project:
        """The block over rows that carry the columns.  Raises ``Refused``, ``Unsupported``."""
        if len(self.relations) > 1:
            return self._flat(*self._side_by_side(semis))
        (number,) = self.relations
        query = Project(self._rows(semis), (Scalar("*"), *self._calls()))
        wrapped = subquery_as(query, self._source(number).names[-1])
        if self.groups:
            return self._flat(wrapped)
        return self._project(*self.outer.rebuilt({number: wrapped}, self._inside))

    def _flat(self, *first: Logical) -> Project:
        """The block with its relations side by side, those that carry the columns first, and the groups last."""
        known = {*self.relations, *self.groups}
        others = [r for n, r in enumerate(self.outer.relations) if n not in known]
        if any(map(references_left, others)):
            raise Refused("another relation is LATERAL")
        tree, *rest = first
        for relation in (*rest, *others, *map(self._group, self.groups.values())):
            tree = Join(tree, relation, "cross", ",")
        return self._project(tree, tuple(new for c in self.outer.filters if (new := self._inside(c)) is not None))

    def _group(self, group: Group) -> Derived:
        """Return the relation with the group of each row: a LATERAL subquery of one row."""
        check_values((self.outer.relations[group.relation],), self.project, self.ctx)
        items = tuple(Scalar(f"{value} AS {quote(name)}") for name, value in group.columns)
        check_aliases(items, self.ctx.names)
        return _one_row(items, self._source(group.relation).names[-1])

    def _rows(self, semis: tuple[Semi, ...]) -> Logical:
        """The rows that are aggregated."""
        tree, *rest = self.sources()
        for relation in rest:
            tree = Join(tree, relation, "cross", "CROSS JOIN")
        for semi in semis:
            tree = Join(tree, semi.relation, "semi", "LEFT SEMI JOIN", (*semi.ties, *semi.filters))
        guards = (Scalar(f"{key} IS NOT NULL") for key in self.guards)
        return where(tree, (*self.common, *guards))

    def _calls(self) -> Iterator[Scalar]:
        for request in self.requests:
            over = f" OVER (PARTITION BY {', '.join(dict.fromkeys(k.text for k in request.keys))})"
            for call in request.calls:
                yield Scalar(f"{call.render(self._own(request), over)} AS {call.name}")

    def _side_by_side(self, semis: tuple[Semi, ...]) -> Iterator[Logical]:
        """Join the relations under one name, and then give each its own name back."""
        check_values(self.sources(), self.project, self.ctx)
        name, mentioned = self.ctx.fresh("j"), words_of(self.project, self.ctx.names)
        inside, outside = [], []
        for number in self.relations:
            source = self._source(number)
            items = []
            for column in source.columns or ():
                if self._shown(number) or self.ctx.names.is_among(column.name, mentioned):
                    new = self.ctx.fresh("c")
                    inside.append(Scalar(f"{source.reference(column.name)} AS {new}"))
                    items.append(Scalar(f"{name}.{new} AS {quote(column.name)}"))
            if items:
                outside.append(_one_row(tuple(items), source.names[-1]))
        yield Derived(Project(self._rows(semis), (*inside, *self._calls())), name, (), f"AS {name}")
        yield from outside

    def _answered(self, scalar: Scalar) -> Scalar:
        """A conjunct or item of the block in terms of the columns."""
        return self.answers.get(scalar, scalar)

    def _inside(self, conjunct: Scalar) -> Scalar | None:
        """Drop a conjunct that the aggregated rows have already passed."""
        return None if conjunct in self.common else self._answered(conjunct)

    def _source(self, number: int) -> Source:
        return self.outer.scope.sources[self.outer.scope.items.index(number)]

    def _project(self, tree: Logical, condition: tuple[Scalar, ...]) -> Project:
        """The block over another FROM and WHERE."""
        for conjunct in condition:
            refuse_stars(conjunct)
        items = tuple(new for item in self.project.items for new in self._item(item))
        for scalar in self.outer.block.in_clauses:
            refuse_stars(scalar)
        return self.outer.block.over(where(tree, condition), items=items)

    def _item(self, item: Scalar) -> tuple[Scalar, ...]:
        """Rewrite an item of the select list; a ``*`` that would return the added columns is expanded."""
        answered = self._answered(item)
        if answered is not item:
            return (answered,)
        sources = self._starred(item)
        if sources is None:
            refuse_stars(item)
            return (item,)
        return tuple(new for source in sources for new in self._expanded(source))

    def _starred(self, item: Scalar) -> tuple[Source, ...] | None:
        """Return the relations whose columns an item returns all; None if it is not a ``*``."""
        if not is_star(item.known):
            return None
        joins = (n for r in self.outer.relations for n in r.walk() if isinstance(n, Join))
        if item.text.strip() == "*" and any(j.using or j.natural for j in joins):
            raise ShowsAddedColumn(STAR_OVER_MERGED, item.place)
        sources = self.outer.scope.sources
        return tuple(sources[n] for n in self.ctx.names.starred(item.tree, sources)) or None

    def _expanded(self, source: Source) -> Iterator[Scalar]:
        number = self.outer.scope.items[self.outer.scope.sources.index(source)]
        if number in self.relations:
            yield from (Scalar(source.reference(c.name)) for c in source.columns or ())
        elif source.names:
            yield Scalar(f"{quote(source.names[-1])}.*")
        else:
            raise ShowsAddedColumn(STAR_WITHOUT_NAME)

    def _shown(self, number: int) -> bool:
        """Whether a ``*`` returns the columns of a relation."""
        source = self._source(number)
        return any(source in (self._starred(item) or ()) for item in self.project.items)


def _one_row(items: tuple[Scalar, ...], alias: str) -> Derived:
    """A relation of one row for each row to its left."""
    return Derived(Project(OneRow(), items), alias, (), f"AS {quote(alias)}", lateral=True)
