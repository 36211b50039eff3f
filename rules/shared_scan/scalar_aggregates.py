"""ScalarAggregates: queries of one row, each of which aggregates the rows of some relations under its conditions.

    SELECT count(*) AS a FROM t x WHERE x.k = 1 AND x.n < 5
    SELECT sum(y.v) AS b FROM t y WHERE y.k = 1 AND y.n > 7

Two of the same relations, joined by the same conditions, differ in their *own* conditions only; these go to FILTER.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

from planner.errors import Place, Unsupported
from planner.expr import Scalar, column_ref, uncommented
from planner.expr.tokens import tokenize
from planner.logical import Logical, Project, Scan
from planner.sql.names import Unresolved
from planner.tree import Node
from planner.types.schema import SqlType
from rules.analysis.computed import first_said, raising_columns, surely
from rules.analysis.containment_mapping import ContainmentMapping, Term, containment_mappings, relation_numbers
from rules.analysis.respelling import never_raises
from rules.context import Context
from rules.query.aggregate_calls import Call, calls, outside, replaced
from rules.query.aggregates import without_alias
from rules.query.correlation import correlated
from rules.query.inner_joins import InnerJoins, inner_joins, where
from rules.query.moving import block_of, check_deterministic
from rules.query.operands import conjoined
from rules.query.tables import tables

_FEW_DISTINCT = 3  # so many aggregates with DISTINCT are sooner merged: Spark copies each row for each of them


@dataclass(frozen=True)
class ScalarAggregate:
    """A query of one row: ``items`` are its columns, ``joins`` what it reads."""

    query: Logical
    joins: InnerJoins
    items: tuple[Scalar, ...]
    found: tuple[tuple[Call, ...], ...]  # the aggregates of each item

    @property
    def place(self) -> Place | None:
        """Where it stands."""
        return self.items[0].place

    @property
    def distinct(self) -> bool:
        """Whether values are counted or added up once each."""
        return any(call.distinct and call.function not in ("min", "max") for own in self.found for call in own)


def may_be_scalar_aggregate(query: Node, ctx: Context) -> frozenset[str]:
    """The names of the tables of a query that may be a scalar aggregate, else nothing.  Looks nothing up."""
    block = block_of(query)
    if block is None or block.more or block.project.quantifier or block.project.hint:
        return frozenset()
    if any(item.plans or "(" not in item.text for item in block.project.items):
        return frozenset()
    if any(isinstance(node, Scan) and node.as_of for node in block.tree.walk()):
        return frozenset()
    return tables(block.tree, ctx.definitions)


def scalar_aggregate(query: Logical, ctx: Context) -> ScalarAggregate | None:
    """Read a query as a scalar aggregate; None if it returns more than one row, or is correlated."""
    joins = inner_joins(query, ctx.names)
    if joins is None or correlated(query, ctx.names):
        return None
    items = joins.block.project.items
    found = []
    try:
        for item in items:
            own = calls(item)
            if not own or any(column.parts for column in outside(item, own).columns):
                return None
            check_deterministic(item)
            found.append(own)
    except (Unresolved, Unsupported):
        return None
    return ScalarAggregate(query, joins, items, tuple(found))


@dataclass(frozen=True)
class Member:
    """A scalar aggregate that can be merged: its conditions in the names of the first of its group."""

    total: ScalarAggregate
    mapped: ContainmentMapping | None  # None for the first itself
    terms: tuple[Term, ...]

    def said(self, argument: Scalar) -> str:
        """The argument of an aggregate in the names of the first total."""
        return uncommented((self.mapped.outside(argument) if self.mapped else argument).text).strip()


def mergeable(totals: tuple[ScalarAggregate, ...], ctx: Context) -> tuple[Member, ...]:
    """The first scalar aggregate, and those of the others that read the same relations.

    Raises ``Unresolved``, ``Unsupported`` where two do, were their rows the same at every reading.
    """
    first, *others = totals
    found = [member for other in others if (member := _member(other, first, ctx))]
    if not found:
        return ()
    mapped = found[0].mapped
    assert mapped is not None
    terms = tuple(
        Term(c.text, mapped.outer_value(c), relation_numbers(c, first.joins, ctx)) for c in _deterministic(first)
    )
    return Member(first, None, terms), *found


def _member(other: ScalarAggregate, first: ScalarAggregate, ctx: Context) -> Member | None:
    """A scalar aggregate mapped to another one, with as many conditions in common as possible."""
    if len(other.joins.relations) != len(first.joins.relations):
        return None
    ways = []
    for mapped in containment_mappings(other.joins, first.joins, ctx):
        if any(theirs.filters_beyond(own) for own, theirs in mapped.readings):
            raise Unresolved("the first one reads a subquery that filters out rows of another one")
        terms = (*map(mapped.term, _deterministic(other)), *mapped.filters())
        same = {mapped.outer_value(c) for c in _deterministic(first)} & {t.value for t in terms}
        ways.append((len(same), Member(other, mapped, terms)))
    return max(ways, key=lambda way: way[0])[1] if ways else None


def _deterministic(one: ScalarAggregate) -> tuple[Scalar, ...]:
    for conjunct in one.joins.conjuncts:
        check_deterministic(conjunct)
    return one.joins.conjuncts


class Merged:
    """Scalar aggregates merged into one query.  Raises ``Unresolved`` where that is not exact, or not faster.

    Bruno et al., "Computation Reuse via Fusion in Amazon Athena", ICDE 2022.
    """

    def __init__(self, members: tuple[Member, ...], ctx: Context):
        self.members, self.ctx = members, ctx
        self.first = members[0].total
        values = [{term.value for term in member.terms} for member in members]
        self.common = frozenset.intersection(*map(frozenset, values))
        self.own = [tuple(t for t in m.terms if t.value not in self.common) for m in members]
        self.name = ctx.fresh("totals")
        self.columns: dict[str, str] = {}  # the aggregates of ``query``, and their names
        self._check()

    def _check(self) -> None:
        """Conditions that are not pushed below joins any more could make them larger, or raise."""
        if sum(member.total.distinct for member in self.members) in range(1, _FEW_DISTINCT):
            raise Unresolved("DISTINCT copies every row, so one scan is no faster than two")
        if len(frozenset().union(*(t.relations for own in self.own for t in own))) > 1:
            raise Unresolved("they differ in conditions on several relations")
        if any(not term.relations for own in self.own for term in own):
            raise Unresolved("one of them has a condition without columns")
        self._check_common()
        for number, relation in enumerate(self.first.joins.relations if any(self.own) else ()):
            if raising := raising_columns(relation, self.ctx):
                used, safe = self._words(number)
                if item := first_said(raising, used, safe):
                    raise Unresolved(f"{item.shown} could raise an error on rows that only another one reads")
        for member, own in zip(self.members, self.own, strict=True):
            said = [term.text for term in own]
            if own:
                said += [member.said(c.argument) for f in member.total.found for c in f if c.argument]
            for text in said:
                if not self._never_raises(text):
                    raise Unresolved(f"{text} could raise an error on rows that only another one reads")

    def _words(self, number: int) -> tuple[set[str], set[str]]:
        """The words of all of them, and of what one of them computes on every row of a relation in any case.

        That are its conditions up to the first that the others do not have, and all else where it has none of its own.
        """
        used, safe = set(), set()
        for member, own in zip(self.members, self.own, strict=True):
            arguments = [member.said(c.argument) for f in member.total.found for c in f if c.argument]
            terms = [t for t in member.terms if number in t.relations]
            asked = next((i for i, t in enumerate(terms, 1) if t in own), len(terms))
            used |= self._named([t.text for t in terms] + arguments)
            safe |= surely([t.text for t in terms[:asked]] + ([] if own else arguments), self.ctx.names)
        return used, safe

    def _named(self, texts: list[str]) -> set[str]:
        return {self.ctx.names.fold(token.text) for text in texts for token in tokenize(text).items}

    def _check_common(self) -> None:
        """A common condition meets all rows now, also those that an own one before it kept from it."""
        behind = bool(self.own[0]) and len(self.first.joins.relations) > 1  # Spark moves conditions below joins
        for term in self.members[0].terms:
            if term.value not in self.common:
                behind = True
            elif behind and not self._never_raises(term.text):
                raise Unresolved(f"{Scalar(term.text).shown} could raise an error on rows that none of them counts")

    def _never_raises(self, text: str) -> bool:
        return never_raises(Scalar(text).tree, self._known, ansi=self.ctx.catalog.settings.ansi)

    def _known(self, tree: exp.Expression) -> SqlType | None:
        if isinstance(tree, exp.Column):
            return self.ctx.names.resolve(column_ref(tree), self.first.joins.sources)[1].type
        return self.ctx.names.type_of(tree, ())

    def values(self, index: int) -> list[str]:
        """The items of a total over the columns of ``query``."""
        return [self._value(index, *pair) for pair in zip(*self._items(index), strict=True)]

    def _items(self, index: int) -> tuple[tuple[Scalar, ...], tuple[tuple[Call, ...], ...]]:
        found = self.members[index].total
        return found.items, found.found

    def _value(self, index: int, item: Scalar, found: tuple[Call, ...]) -> str:
        member, own = self.members[index], self.own[index]
        condition = f" FILTER (WHERE {_all(own)})" if own else ""

        def say(call: Call) -> str:
            argument = member.said(call.argument) if call.argument else "*"
            text = f"{call.function}({'DISTINCT ' if call.distinct else ''}{argument}){condition}"
            if text not in self.columns:
                self.columns[text] = self.ctx.fresh("total")
            return f"{self.name}.{self.columns[text]}"

        bare = without_alias(item)
        return replaced(bare, calls(bare), say).text if found else bare.text

    def nullable(self, index: int) -> bool:
        """Whether Spark takes the one item of a total for a value that may be NULL, as it takes every subquery."""
        (item,), (found,) = self._items(index)
        return len(found) == 1 and found[0].function != "count" and without_alias(item).text == found[0].text

    def said_of(self, index: int) -> str:
        """Which rows a total is of, on one line."""
        return Scalar(_all(self.own[index])).shown if self.own[index] else "all of them"

    @property
    def said(self) -> str:
        """What is done, on one line."""
        names = ", ".join(relation.detail or "a subquery" for relation in self.first.joins.relations)
        return f"{len(self.members)} scalar aggregates of {names} in one reading"

    @property
    def query(self) -> Project:
        """All of the aggregates, once ``values`` has been asked for each total."""
        return Project(self.rows, tuple(Scalar(f"{text} AS {name}") for text, name in self.columns.items()))

    @cached_property
    def rows(self) -> Logical:
        """The rows that at least one of the aggregates counts."""
        joins = self.first.joins
        values = dict(zip(joins.conjuncts, (t.value for t in self.members[0].terms), strict=True))
        tree, condition = joins.rebuilt(lambda _, leaf: leaf, lambda c: (c,) if values[c] in self.common else ())
        if all(self.own):
            any_of = " OR ".join(dict.fromkeys(f"({_all(own)})" for own in self.own))
            condition = (*condition, Scalar(f"({any_of})"))
        return where(tree, condition)


def _all(terms: tuple[Term, ...]) -> str:
    return conjoined([Scalar(uncommented(t.text).strip()) for t in terms])
