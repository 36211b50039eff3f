"""Context of a rule: names, statistics and thresholds; it also collects reasons, warnings and choices."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, NoReturn, TypeVar

from sqlglot import exp

from dovetail.planner.bind.correlation import is_correlated
from dovetail.planner.bind.names import Resolver
from dovetail.planner.bind.scope import Scope
from dovetail.planner.catalog import Catalog, Numbers
from dovetail.planner.catalog.cost import Thresholds
from dovetail.planner.catalog.measure import (
    extent_sql,
    is_expensive,
    length_classes_sql,
    read_length_classes,
    scale_classes,
)
from dovetail.planner.catalog.stats import UNKNOWN, LengthClass, Statistics
from dovetail.planner.deadline import may_measure
from dovetail.planner.errors import Place, QueryError, ReasonCode, Refused, Unsupported
from dovetail.planner.explain.records import CandidatePlan, Choice, CostNote, Declined, PlanWarning
from dovetail.planner.expr import Scalar, quote, sql
from dovetail.planner.expr.calls import KNOWN, repeated_otherwise, volatile
from dovetail.planner.expr.tokens import called
from dovetail.planner.logical import Cte, Filter, Logical, Project, Scan
from dovetail.planner.logical.sampled_side import sampled_side
from dovetail.planner.logical.self_join import HiddenRelation
from dovetail.planner.rendered import PREFIX, next_free_number
from dovetail.planner.tree import Node
from dovetail.planner.types.schema import SqlType

T = TypeVar("T")
_ONE_OF = 32  # a computed relation is measured on one in so many rows
_MORE = 4  # times the wanted rows are sampled, since the number of all rows may be less than is guessed
_GRAMMAR = frozenset(("WHEN", "THEN", "ELSE", "AND", "OR", "NOT", "IN", "BETWEEN"))


class Intervals(NamedTuple):
    """Intervals whose bounds are expressions over the columns of a relation.

    ``cheap``: reading the relation completely costs one scan.
    """

    relation: Logical
    low: str
    high: str
    cheap: bool = False


@dataclass
class Context:
    """Names, statistics and thresholds for a rule, and the reasons, warnings and choices that rules record."""

    catalog: Catalog
    thresholds: Thresholds
    force: bool = False
    definitions: dict[str, Cte] = field(default_factory=dict)
    generic_plan: bool = False  # the plan must suit any data, so nothing is measured
    scanned: frozenset[tuple[str, ...]] = frozenset()  # the tables and views that the statement references
    words: frozenset[str] = frozenset()  # names in the statement with the prefix of generated names
    statement: str = ""  # the text before the query: INSERT INTO t, CREATE VIEW v AS
    enclosing: tuple[Node, ...] = ()  # the expression and LATERAL subqueries around the current node
    ancestors: tuple[Node, ...] = ()  # the nodes above the current one, outermost first, before their rules ran
    rule: str = ""
    declined: dict[Declined, None] = field(default_factory=dict)
    warnings: dict[PlanWarning, None] = field(default_factory=dict)
    decisions: list[Choice | CostNote] = field(default_factory=list)
    unique: dict[tuple[Node, bool], frozenset[frozenset[str]]] = field(default_factory=dict)  # a cache of unique keys
    named: int = 0  # how many names ``fresh`` has generated
    written: dict[str, str] = field(default_factory=dict)  # what the user wrote for columns of such names, for reasons

    @property
    def above(self) -> Node | None:
        """The parent of the current node."""
        return self.ancestors[-1] if self.ancestors else None

    @cached_property
    def names(self) -> Resolver:
        """The name resolver of this statement."""
        return Resolver(self.catalog, self.definitions)

    def scope(self, *relations: Node, outer: Scope | None = None) -> Scope:
        """The scope of a condition over these relations; ``outer`` is that of the query around a subquery."""
        return Scope.of(self.names, *relations, outer=outer)

    @property
    def is_in_correlated_subquery(self) -> bool:
        """Whether the query of the current node stands in a correlated subquery, or may do so."""
        return any(is_correlated(query, self.names) for query in self.enclosing)

    def check_not_correlated(self) -> None:
        """Raise ``Refused`` where that is so."""
        if self.is_in_correlated_subquery:
            raise Refused("it is in a correlated subquery")

    def define(self, definitions: dict[str, Cte]) -> None:
        """Replace the WITH definitions after the plan has changed, and clear the resolver."""
        self.definitions.clear()
        self.definitions.update(definitions)
        self.__dict__.pop("names", None)

    def decline(self, reason: str, place: Place | None = None, code: ReasonCode | None = None) -> None:
        """Record why the rule declines, for the trace, with the user's words for columns that a rewriting adds."""
        reason = re.sub(rf"{PREFIX}\w*\.{PREFIX}\w*", lambda name: self.written.get(name[0], name[0]), reason)
        self.declined.setdefault(Declined(self.rule, reason, place, code))

    def warn(self, reason: str, place: Place | None = None) -> None:
        """Record a warning that a part of the user's text has no effect."""
        self.warnings.setdefault(PlanWarning(self.rule, reason, place))

    def fail(self, reason: str, place: Place | None = None) -> NoReturn:
        """Stop planning a statement that Spark could not run either.  Raises ``QueryError``."""
        raise QueryError(reason, place)

    def choose(self, chosen: str | CandidatePlan, *rejected: str | CandidatePlan) -> None:
        """Record the chosen and the rejected candidate plans with their estimates, for ``explain("cost")``."""
        first, *others = (CandidatePlan(plan) if isinstance(plan, str) else plan for plan in (chosen, *rejected))
        self.decisions.append(Choice(self.rule, first, tuple(others)))

    def note_cost(self, text: str) -> None:
        """Record what was measured or estimated for a choice, for ``explain("cost")``."""
        self.decisions.append(CostNote(self.rule, text))

    def fresh(self, what: str) -> str:
        """Generate a name for a relation or column of a rewriting that is unique in the statement."""
        self.named = next_free_number(f"{PREFIX}_{what}", self.named, self.taken)
        return f"{PREFIX}_{what}{self.named}"

    @property
    def taken(self) -> frozenset[str]:
        """Lower-case names with our prefix: in the statement, or columns of the tables that it scans."""
        columns = (c.name.lower() for name in self.scanned for c in self.catalog.columns(name) or ())
        return self.words | frozenset(name for name in columns if name.startswith(PREFIX))

    def spark_type(self, expression: str, relation: Logical) -> SqlType | None:
        """The type of an expression over the columns of ``relation``, from the catalog."""
        try:
            typed = self._typed(relation, expression)
            columns = self.catalog.schema(typed) if typed else None
            columns = columns or self.catalog.schema(self.query(relation, expression))
        except Unsupported:
            return None
        return columns[0].type if columns else None

    def volatile_call(self, tree: exp.Expr, relation: Logical) -> exp.Expr | None:
        """Return the first call over the columns of ``relation`` that may be volatile; Spark knows users' functions."""
        call = volatile(tree)
        if call is None or repeated_otherwise(tree):
            return call
        try:
            typed = self._typed(relation, sql(tree))
        except Unsupported:
            return call
        return None if typed is not None and self.catalog.is_deterministic(typed) else call

    def _typed(self, relation: Logical, expression: str) -> str | None:
        """Build ``SELECT expression`` over a row of typed NULLs, which Spark analyzes quickly.

        None if the expression references anything else.
        """
        scope = self.scope(relation)
        used: dict[int, dict[str, str]] = {}
        scalar = Scalar(expression)
        if scalar.plans or scalar.tree.find(exp.Star):
            return None
        for ref in scalar.columns:
            if (found := scope.find(ref)) is None:
                return None
            source = scope.source(found)
            whole = next((c for c in source.columns or () if c.name == found.column.name), None)
            if whole is None or whole.type is None or whole.type.name == "char" or len(source.names) > 1:
                return None
            used.setdefault(found.relation, {})[quote(whole.name)] = whole.type.sql
        rows = (
            f"(SELECT {', '.join(f'CAST(NULL AS {type_}) AS {name}' for name, type_ in columns.items())})"
            + "".join(f" AS {quote(name)}" for name in scope.sources[index].names)
            for index, columns in used.items()
        )
        return f"SELECT {expression}" + (f" FROM {' CROSS JOIN '.join(rows)}" if used else "")

    def statistics(self, relation: Logical) -> Statistics:
        """Return the statistics of a relation in FROM; unknown if it cannot be queried alone."""
        return self.statistics_of(relation)[0]

    def statistics_of(self, *relations: Logical) -> tuple[Statistics, ...]:
        """Statistics of several relations, with one request to the catalog."""
        if self.generic_plan:
            return (UNKNOWN,) * len(relations)
        queries = [self._standalone_query(_without_alias(relation)) for relation in relations]
        return tuple(found or UNKNOWN for found in _run_distinct(queries, self.catalog.statistics_all))

    @property
    def measures(self) -> bool:
        """Whether small queries may run over the data, and their results stay valid as long as the plan."""
        return self.thresholds.measure_lengths and not self.enclosing and not self.generic_plan

    def measure(self, query: str) -> tuple[Numbers, ...] | None:
        """Run a small query over the data; None if that is not possible or not allowed by the options."""
        return self.measure_all(query)[0]

    def measure_all(self, *queries: str) -> tuple[tuple[Numbers, ...] | None, ...]:
        """Run several small queries over the data; None for each one that cannot run."""
        if not self.measures:
            return (None,) * len(queries)
        found = self.catalog.measure_all(queries)
        if None in found and not may_measure():
            self.note_cost("planned without measurements that took longer than planning_seconds")
        return found

    def lengths(self, *intervals: Intervals) -> tuple[tuple[LengthClass, ...] | None, ...]:
        """Measure interval lengths of several relations at once; None for each that is not possible or too expensive.

        A measurement costs at most one scan.  A computed relation is measured on a sample, if that costs no more.
        """
        measured = [self._length_query(one) for one in intervals] if self.measures else [(None, 1)] * len(intervals)
        queries = [text and length_classes_sql(text) for text, _ in measured]
        rows = _run_distinct(queries, lambda texts: self.measure_all(*texts))
        return tuple(
            None if one is None or (one_of > 1 and not one) else scale_classes(read_length_classes(one), one_of)
            for one, (_, one_of) in zip(rows, measured, strict=True)
        )

    def _length_query(self, one: Intervals) -> tuple[str | None, int]:
        """The query for the bounds of intervals, and its sampling rate (one row in n); None if it is too expensive."""
        item = f"{one.low} AS low, {one.high} AS high"
        text = self._standalone_query(one.relation, item)
        cheap = self.force or (
            one.cheap and not is_expensive(item) and {n for n in called(item) if n.isidentifier()} <= KNOWN | _GRAMMAR
        )
        if text is None or cheap or self.catalog.statistics(text).cheap:
            return text, 1
        part = sampled_side(one.relation, self.definitions, _ONE_OF)
        sampled = part and self._standalone_query(part, item)
        self.note_cost(
            "lengths measured on a sample, since the intervals are computed"
            if sampled
            else "lengths not measured, since the intervals are computed and that costs as much as the query"
        )
        return sampled or None, _ONE_OF

    def counts(self, *relations: Logical | None) -> tuple[int | None, ...]:
        """Count the rows of several relations, a scan each; None for each that is None or cannot be counted."""
        queries = [None if one is None else self._standalone_query(one, "count(*) AS n") for one in relations]
        found = _run_distinct(queries, lambda texts: self.measure_all(*texts))
        return tuple(None if rows is None or rows[0][0] is None else int(rows[0][0]) for rows in found)

    def extent(self, relation: Logical, at: str) -> tuple[float, float] | None:
        """The minimum and maximum of the finite positions of a relation; None if there is none, or it is unknown."""
        query = self._standalone_query(relation, f"{at} AS at")
        found = self.measure(extent_sql(query)) if query else None
        if not found or None in found[0]:
            return None
        first, last = found[0]
        return first, last  # type: ignore[return-value]

    def sample(self, relation: Logical, expression: str, rows: int) -> list[float | None] | None:
        """Read a number from each of the first rows of a relation; None if that is not possible."""
        found = self.measure(f"{self.query(relation, expression)} LIMIT {rows}")
        return None if found is None else [row[0] for row in found]

    def samples(
        self, sides: tuple[tuple[Logical, str, Statistics], ...], rows: int
    ) -> tuple[tuple[Numbers, ...], ...] | None:
        """Read numbers from some rows of several relations; None if that is not possible.

        They are random ones of a small relation, and the first ones of a large one, which may be sorted.
        """
        try:
            queries = [
                f"{self.query(self._some(relation, rows, size, seed), items)} LIMIT {rows}"
                for seed, (relation, items, size) in enumerate(sides, 1)
            ]
        except Unsupported:
            return None
        found = self.measure_all(*queries)
        return None if None in found else found  # type: ignore[return-value]

    def _some(self, relation: Logical, rows: int, size: Statistics, seed: int) -> Logical:
        """A small relation with a random part of its rows, more than so many; a large one as it is."""
        is_small = size.plain and size.bytes is not None and size.bytes < self.thresholds.one_task_bytes
        share = _MORE * rows / size.rows if is_small and size.rows else 1.0
        return Filter(relation, (Scalar(f"rand({seed}) < {share:.2g}D"),)) if share < 1 else relation

    def nonrepeatable_reason(self, *relations: Logical) -> str | None:
        """The reason why a second read of these relations in one statement might return other rows, or None."""
        for relation in dict.fromkeys(map(_without_alias, relations)):
            try:
                item = "1 AS n" if isinstance(relation, HiddenRelation) else "*"  # which shows none of its columns
                reason = self.catalog.nonrepeatable_reason(self.query(relation, item))
            except Unsupported as no:
                return no.reason
            if reason:
                return reason
        return None

    def query(self, relation: Logical, item: str = "*") -> str:
        """Build ``SELECT item FROM relation`` as a standalone statement.  Raises ``Unsupported``."""
        return self.names.standalone_query(Project(relation, (Scalar(item),)))

    def _standalone_query(self, relation: Logical, item: str = "*") -> str | None:
        try:
            return self.query(relation, item)
        except Unsupported:
            return None


def _without_alias(relation: Logical) -> Logical:
    """Drop the alias of a table."""
    if isinstance(relation, Scan) and relation.plain:
        return replace(relation, alias=None, renames=(), suffix="")
    return relation


def _run_distinct(queries: list[str | None], run: Callable[[tuple[str, ...]], Iterable[T | None]]) -> list[T | None]:
    """Run all queries in one request, without duplicates; None for a missing query."""
    distinct = tuple(dict.fromkeys(query for query in queries if query))
    known = dict(zip(distinct, run(distinct), strict=True))
    return [known[query] if query else None for query in queries]
