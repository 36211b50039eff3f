"""A block whose subqueries ask for aggregates of its own rows, with these as columns of the rows.

One relation is read in parentheses, under its own name, with the columns beside its own:

    FROM t x                     FROM (SELECT *, avg(v) OVER (PARTITION BY x.k) AS __dt_w1 FROM t x) AS x
    WHERE x.v > (SELECT …)       WHERE x.v > (__dt_w1)

Several are joined inside, and get their names back by LATERAL subqueries of one row, which Spark makes projections.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from planner.errors import Unsupported
from planner.expr import Scalar, quote
from planner.logical import Aggregate, Derived, Filter, Join, Logical, OneRow, Project, Windows
from planner.sql.names import Source, Unresolved
from planner.sql.to_sql import refuse_stars
from rules.analysis.computed import first_said, raising_columns, surely
from rules.analysis.containment_mapping import relation_numbers
from rules.analysis.correlation_keys import equal_columns
from rules.context import Context
from rules.query.correlation import leans_on_left, scalars, words_of
from rules.query.inner_joins import InnerJoins, where
from rules.query.moving import check_deterministic
from rules.query.padded import check_aliases, check_values
from rules.window.correlated_aggregate import CorrelatedAggregate, Group


@dataclass(frozen=True)
class Semi:
    """A relation of the block that is tied to the groups by their keys alone: it keeps or drops whole groups."""

    relation: Logical
    ties: tuple[Scalar, ...]
    filters: tuple[Scalar, ...]


class WindowedBlock:
    """One block and the requests that ask for the rows of the same relations."""

    def __init__(self, project: Project, outer: InnerJoins, requests: tuple[CorrelatedAggregate, ...], ctx: Context):
        self.project, self.outer, self.requests, self.ctx = project, outer, requests, ctx
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
        self._check_computed()

    def _check_computed(self) -> None:
        """Raise ``Unresolved`` where rows that the block leaves out would raise an error."""
        everywhere = (r for r in self.requests if not self._own(r))
        safe = surely((c.text for r in everywhere for c in r.calls), self.ctx.names)
        for number in self.relations:
            relation = self.outer.relations[number]
            if not (raising := raising_columns(relation, self.ctx)):
                continue
            used = raising if self._shown(number) else words_of(self.project, self.ctx.names, but=relation)
            if item := first_said(raising, used, safe):
                raise Unresolved(f"{item.shown} could raise an error on rows that the query filters out")

    def _place(self, conjunct: Scalar) -> frozenset[int]:
        try:
            check_deterministic(conjunct)
            return relation_numbers(conjunct, self.outer, self.ctx)
        except (Unresolved, Unsupported):
            return frozenset()

    def _common(self) -> dict[Scalar, str]:
        """The conditions that the block and all subqueries have."""
        found = {}
        for conjunct, place in self.places.items():
            if place <= set(self.relations):
                try:
                    value = self.value(conjunct)
                except (Unresolved, Unsupported):
                    continue
                if all(value in {t.value for t in r.own} for r in self.requests):
                    found[conjunct] = value
        return found

    def _own(self, request: CorrelatedAggregate) -> tuple[str, ...]:
        """What a row must meet to count for one request.  Raises ``Unresolved`` where that is no matter of a row."""
        said = []
        for term in request.own:
            if term.value in self.common.values():
                continue
            if isinstance(request.answer, Group):
                raise Unresolved(f"only the subquery filters by {term.text}")
            if len(term.relations) > 1:
                raise Unresolved(f"the outer query does not join its relations by {term.text}")
            said.append(term.text)
        guarded = [k.text for k in request.keys if k.guarded and k.text not in self.guards]
        return tuple(f"({s})" for s in said) + tuple(f"{k} IS NOT NULL" for k in dict.fromkeys(guarded))

    def semis(self) -> tuple[Semi, ...]:
        """The relations that keep or drop whole groups, and have a filter that may make it worth while."""
        keys = set.intersection(*({k.value for k in r.keys} for r in self.requests))
        found = []
        for number, relation in enumerate(self.outer.relations):
            if number in self.relations or number in self.groups or leans_on_left(relation):
                continue
            ties, filters = [], []
            for conjunct, place in self.places.items():
                if place == {number}:
                    filters.append(conjunct)
                elif number in place and place <= {number, *self.relations} and self._ties(conjunct, number, keys):
                    ties.append(conjunct)
            if ties and filters and not self.ctx.unrepeatable(relation):
                found.append(Semi(relation, tuple(ties), tuple(filters)))
        return tuple(found)

    def _ties(self, conjunct: Scalar, number: int, keys: set[str]) -> bool:
        """Whether a condition is an equality of a column of a relation with a key."""
        ends = equal_columns(conjunct, self.outer.sources, self.ctx) or ()
        inside = [end for end in ends if relation_numbers(end, self.outer, self.ctx) != {number}]
        return len(inside) == 1 and self.value(inside[0]) in keys

    def sources(self) -> tuple[Logical, ...]:
        """The relations that are aggregated."""
        return tuple(self.outer.relations[n] for n in self.relations)

    @property
    def alone(self) -> bool:
        """Whether the block reads all of these rows, and nothing else."""
        asked = {*self.common, *self.answers}
        return len(self.outer.relations) == len(self.relations) and asked >= set(self.outer.conjuncts)

    def windowed(self, semis: tuple[Semi, ...]) -> Project:
        """The block over rows that carry the columns.  Raises ``Unresolved``, ``Unsupported``."""
        if len(self.relations) > 1:
            return self._flat(*self._side_by_side(semis))
        (number,) = self.relations
        alias = self._source(number).names[-1:]
        query = Project(self._rows(semis), (Scalar("*"), *self._calls()))
        wrapped = Derived(query, alias[0], (), f"AS {quote(alias[0])}") if alias else Derived(query, None)
        if self.groups:
            return self._flat(wrapped)
        tree, condition = self.outer.rebuilt(lambda n, relation: wrapped if n == number else relation, self._inside)
        return self._project(tree, condition)

    def _flat(self, *first: Logical) -> Project:
        """The block with its relations side by side, those that carry the columns first, and the groups last."""
        known = {*self.relations, *self.groups}
        others = [r for n, r in enumerate(self.outer.relations) if n not in known]
        if any(map(leans_on_left, others)):
            raise Unresolved("another relation is LATERAL")
        tree, *rest = first
        for relation in (*rest, *others, *map(self._group, self.groups.values())):
            tree = Join(tree, relation, "cross", ",")
        met = self.outer.block.condition  # WHERE first, as Spark has it: it may keep ON from raising
        on = self.outer.conjuncts[: len(self.outer.conjuncts) - len(met)]
        return self._project(tree, tuple(n for c in (*met, *on) for n in self._inside(c)))

    def _group(self, group: Group) -> Derived:
        """The relation that shows the group of each row, as one row beside it."""
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
                yield Scalar(f"{call.said(self._own(request), over)} AS {call.name}")

    def _side_by_side(self, semis: tuple[Semi, ...]) -> Iterator[Logical]:
        """The relations joined under one name, and then each under its own."""
        check_values(self.sources(), self.project, self.ctx)
        name, mentioned = self.ctx.fresh("j"), words_of(self.project, self.ctx.names)
        inside, outside = [], []
        for number in self.relations:
            source = self._source(number)
            items = []
            for column in source.columns or ():
                if self._shown(number) or self.ctx.names.fold(column.name) in mentioned:
                    new = self.ctx.fresh("c")
                    inside.append(Scalar(f"{_of(source, column.name)} AS {new}"))
                    items.append(Scalar(f"{name}.{new} AS {quote(column.name)}"))
            if not source.names or not items:
                raise Unresolved("a relation without a name is joined with another")
            outside.append(_one_row(tuple(items), source.names[-1]))
        yield Derived(Project(self._rows(semis), (*inside, *self._calls())), name, (), f"AS {name}")
        yield from outside

    def _answered(self, scalar: Scalar) -> tuple[Scalar, ...]:
        """A conjunct or item of the block in terms of the columns."""
        return (self.answers.get(scalar, scalar),)

    def _inside(self, conjunct: Scalar) -> tuple[Scalar, ...]:
        """The same where the rows that are aggregated have met what all ask of them."""
        return () if conjunct in self.common else self._answered(conjunct)

    def _source(self, number: int) -> Source:
        return self.outer.sources[self.outer.owner.index(number)]

    def _project(self, tree: Logical, condition: tuple[Scalar, ...]) -> Project:
        """The block over another FROM and WHERE."""

        def over(node: Logical) -> Logical:
            if isinstance(node, Aggregate | Windows) or (isinstance(node, Filter) and node.clause != "WHERE"):
                for scalar in scalars(node):
                    refuse_stars(scalar)
                return replace(node, child=over(node.child))
            return where(tree, condition)

        for conjunct in condition:
            refuse_stars(conjunct)
        items = tuple(new for item in self.project.items for new in self._item(item))
        return replace(self.project, child=over(self.project.child), items=items)

    def _item(self, item: Scalar) -> tuple[Scalar, ...]:
        """An item of the select list; a ``*`` that would show the columns is spelt out."""
        answered = self._answered(item)[0]
        if answered is not item:
            return (answered,)
        sources = self._starred(item)
        if sources is None:
            refuse_stars(item)
            return (item,)
        return tuple(new for source in sources for new in self._spelt(source))

    def _starred(self, item: Scalar) -> tuple[Source, ...] | None:
        """The relations all of whose columns an item shows; None where it is no ``*``."""
        words = item.text.replace("`", "").split(".")
        if words[-1].strip() != "*":
            return None
        if len(words) == 1:
            joins = (n for r in self.outer.relations for n in r.walk() if isinstance(n, Join))
            if any(j.using or j.natural for j in joins):
                raise Unsupported("* over USING or NATURAL would show a column that the rewriting adds", item.place)
            return self.outer.sources
        fold = self.ctx.names.fold
        name = fold(words[-2].strip())
        return tuple(s for s in self.outer.sources if s.names and fold(s.names[-1]) == name) or None

    def _spelt(self, source: Source) -> Iterator[Scalar]:
        number = self.outer.owner[self.outer.sources.index(source)]
        if number in self.relations:
            yield from (Scalar(_of(source, c.name)) for c in source.columns or ())
        elif source.names:
            yield Scalar(f"{quote(source.names[-1])}.*")
        else:
            raise Unsupported("a relation without a name stands where * would show a column that the rewriting adds")

    def _shown(self, number: int) -> bool:
        """Whether a ``*`` shows a relation."""
        source = self._source(number)
        return any(source in (self._starred(item) or ()) for item in self.project.items)


def _one_row(items: tuple[Scalar, ...], alias: str) -> Derived:
    """A relation of one row for each row to its left."""
    return Derived(Project(OneRow(), items), alias, (), f"AS {quote(alias)}", lateral=True)


def _of(source: Source, column: str) -> str:
    return ".".join(map(quote, (*source.names[-1:], column)))
