"""ScalarAggregates: queries of one row, each of which aggregates the rows of some relations under its conditions.

    SELECT count(*) AS a FROM t x WHERE x.k = 1 AND x.n < 5
    SELECT sum(y.v) AS b FROM t y WHERE y.k = 1 AND y.n > 7

If two queries read the same relations and join them by the same conditions, only their *own* conditions differ; these
become FILTER clauses.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

from dovetail.planner.bind.correlation import is_correlated
from dovetail.planner.errors import Place, Refused
from dovetail.planner.expr import Scalar
from dovetail.planner.expr.aggregate_calls import Call, calls, outside, replaced
from dovetail.planner.expr.substitution import without_alias
from dovetail.planner.logical import Logical, Project, Scan
from dovetail.planner.tree import Node
from dovetail.rules.analysis.containment_mapping import ContainmentMapping, Term, containment_mappings
from dovetail.rules.analysis.speculation import check_order, check_speculation
from dovetail.rules.context import Context
from dovetail.rules.query.decorrelation import check_deterministic
from dovetail.rules.query.inner_joins import InnerJoins, inner_joins
from dovetail.rules.query.operands import conjoined
from dovetail.rules.query.query_block import read_block, where
from dovetail.rules.query.tables import tables

_FEW_DISTINCT = 3  # so many aggregates with DISTINCT are sooner merged: Spark copies each row for each of them
_NAME_FIELDS = ("struct", "arrays_zip")  # whose fields have the names of their arguments


@dataclass(frozen=True)
class ScalarAggregate:
    """A query of one row: ``items`` are its columns, ``joins`` the relations that it reads."""

    query: Logical
    joins: InnerJoins
    items: tuple[Scalar, ...]
    found: tuple[tuple[Call, ...], ...]  # the aggregates of each item

    @property
    def place(self) -> Place | None:
        """Return the place of the first item in the SQL."""
        return self.items[0].place

    @property
    def distinct(self) -> bool:
        """Whether values are counted or added up once each."""
        return any(call.distinct and call.function not in ("min", "max") for own in self.found for call in own)


def may_be_scalar_aggregate(query: Node, ctx: Context) -> frozenset[str]:
    """The names of the tables of a query that may be a scalar aggregate, else nothing.  Looks nothing up."""
    block = read_block(query)
    if block is None or not block.is_plain:
        return frozenset()
    if any(item.plans or "(" not in item.text for item in block.project.items):
        return frozenset()
    if any(isinstance(node, Scan) and node.as_of for node in block.tree.walk()):
        return frozenset()
    return tables(block.tree, ctx.definitions)


def scalar_aggregate(query: Logical, ctx: Context) -> ScalarAggregate | None:
    """Read a query as a scalar aggregate; None if it returns more than one row, or is correlated."""
    block = read_block(query)
    if block is None or is_correlated(query, ctx.names):
        return None
    joins, items = inner_joins(block, ctx.names), block.project.items
    found = []
    try:
        for item in items:
            own = calls(item)
            if not own or any(column.parts for column in outside(item, own).columns):
                return None
            check_deterministic(item)
            found.append(own)
    except Refused:
        return None
    return ScalarAggregate(query, joins, items, tuple(found))


def _name_fields(outside_calls: Scalar) -> bool:
    """Whether an aggregate, NULL here, is an argument of a function that takes names of fields from its arguments."""
    functions = outside_calls.tree.find_all(exp.Anonymous)
    naming = (f for f in functions if f.name.lower() in _NAME_FIELDS)
    return any(isinstance(argument, exp.Null) for f in naming for argument in f.expressions)


@dataclass(frozen=True)
class Member:
    """A scalar aggregate that can be merged: its conditions in the names of the first of its group."""

    total: ScalarAggregate
    mapped: ContainmentMapping | None  # None for the first itself
    terms: tuple[Term, ...]

    def argument(self, argument: Scalar) -> str:
        """The argument of an aggregate in the names of the first total."""
        return (self.mapped.outside(argument) if self.mapped else argument).without_comments.text

    def filters(self, common: dict[str, str]) -> tuple[str, ...]:
        """Its conditions in order; ``common``: the text of those that others have as well, by their values."""
        return tuple(common.get(term.value, term.text) for term in self.terms)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of its aggregates."""
        return tuple(self.argument(c.argument) for found in self.total.found for c in found if c.argument)


def mergeable(totals: tuple[ScalarAggregate, ...], ctx: Context) -> tuple[Member, ...]:
    """The first scalar aggregate, and those of the others that read the same relations.

    Raises ``Refused``, ``Unsupported`` where two do, were their rows the same at every reading.
    """
    first, *others = totals
    found = [member for other in others if (member := _member(other, first, ctx))]
    if not found:
        return ()
    mapped = found[0].mapped
    assert mapped is not None
    terms = tuple(Term(c.text, mapped.outer_value(c), first.joins.scope.bind(c).items) for c in _deterministic(first))
    return Member(first, None, terms), *found


def _member(other: ScalarAggregate, first: ScalarAggregate, ctx: Context) -> Member | None:
    """A scalar aggregate mapped to another one, with as many conditions in common as possible."""
    if len(other.joins.relations) != len(first.joins.relations):
        return None
    ways = []
    for mapped in containment_mappings(other.joins, first.joins, ctx):
        if any(theirs.filters_beyond(own) for own, theirs in mapped.readings):
            raise Refused("the first one reads a subquery that filters out rows of another one")
        terms = (*mapped.filters(), *map(mapped.term, _deterministic(other)))
        same = {mapped.outer_value(c) for c in _deterministic(first)} & {t.value for t in terms}
        ways.append((len(same), Member(other, mapped, terms)))
    return max(ways, key=lambda way: way[0])[1] if ways else None


def _deterministic(one: ScalarAggregate) -> tuple[Scalar, ...]:
    for conjunct in one.joins.conjuncts:
        check_deterministic(conjunct)
    return one.joins.conjuncts


class Merged:
    """Scalar aggregates merged into one query.  Raises ``Refused`` if that is not exact, or not faster.

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
            raise Refused("DISTINCT copies every row, so one scan is no faster than two")
        totals = [member.total for member in self.members]
        if any(_name_fields(outside(*each)) for total in totals for each in zip(total.items, total.found, strict=True)):
            raise Refused("struct() and arrays_zip() name their fields after the aggregates in them")
        if len(frozenset().union(*(t.relations for own in self.own for t in own))) > 1:
            raise Refused("they differ in conditions on several relations")
        if any(not term.relations for own in self.own for term in own):
            raise Refused("one of them has a condition without columns")
        if not any(self.own):
            return
        texts = {t.value: t.text for t in self.members[0].terms if t.value in self.common}
        filters = (member.filters(texts) for member in self.members)
        check_order(tuple(map(Scalar, texts.values())), filters, self.first.joins.scope.type_of, self.ctx)
        for member, own in zip(self.members, self.own, strict=True):
            guarded = (*(term.text for term in own), *member.arguments) if own else ()
            check_speculation(map(Scalar, guarded), self.first.joins.scope.type_of, self.ctx, "query")

    def values(self, index: int) -> list[str]:
        """The items of a total over the columns of ``query``."""
        return [self._value(index, *pair) for pair in zip(*self._items(index), strict=True)]

    def _items(self, index: int) -> tuple[tuple[Scalar, ...], tuple[tuple[Call, ...], ...]]:
        found = self.members[index].total
        return found.items, found.found

    def _value(self, index: int, item: Scalar, found: tuple[Call, ...]) -> str:
        member, own = self.members[index], self.own[index]
        condition = f" FILTER (WHERE {_all(own)})" if own else ""

        def substitute(call: Call) -> str:
            argument = member.argument(call.argument) if call.argument else "*"
            text = f"{call.function}({'DISTINCT ' if call.distinct else ''}{argument}){condition}"
            if text not in self.columns:
                self.columns[text] = self.ctx.fresh("total")
            return f"{self.name}.{self.columns[text]}"

        bare = without_alias(item)
        return replaced(bare, calls(bare), substitute).text if found else bare.text

    def nullable(self, index: int) -> bool:
        """Whether Spark takes the one item of a total for a value that may be NULL, as it takes every subquery."""
        (item,), (found,) = self._items(index)
        return len(found) == 1 and found[0].function != "count" and without_alias(item).text == found[0].text

    def describe_rows(self, index: int) -> str:
        """Which rows a total is of, on one line."""
        return Scalar(_all(self.own[index])).shown if self.own[index] else "all of them"

    @property
    def description(self) -> str:
        """Describe the merge in one line."""
        names = ", ".join(relation.detail or "a subquery" for relation in self.first.joins.relations)
        return f"{len(self.members)} scalar aggregates of {names} in one reading"

    @property
    def query(self) -> Project:
        """All of the aggregates, after ``values`` has been called for each total."""
        return Project(self.rows, tuple(Scalar(f"{text} AS {name}") for text, name in self.columns.items()))

    @cached_property
    def rows(self) -> Logical:
        """The rows that at least one of the aggregates counts."""
        joins = self.first.joins
        values = dict(zip(joins.conjuncts, (t.value for t in self.members[0].terms), strict=True))
        tree, condition = joins.rebuilt({}, lambda c: c if values[c] in self.common else None)
        if all(self.own):
            any_of = " OR ".join(dict.fromkeys(f"({_all(own)})" for own in self.own))
            condition = (*condition, Scalar(f"({any_of})"))
        return where(tree, condition)


def _all(terms: tuple[Term, ...]) -> str:
    return conjoined([Scalar(t.text).without_comments for t in terms])
