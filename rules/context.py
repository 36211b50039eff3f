"""What a rule may ask, and where it says why it held back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, NoReturn, TypeVar

from sqlglot import exp

from planner.catalog import Catalog, Numbers
from planner.catalog.cost import Thresholds
from planner.catalog.measure import extent, length_classes, read_length_classes
from planner.catalog.stats import UNKNOWN, LengthClass, Statistics
from planner.errors import Place, QueryError, Unsupported
from planner.expr import Scalar, quote
from planner.logical import Cte, Logical, Project, Scan
from planner.sql.names import Resolver, Unresolved
from planner.tree import Node
from planner.types.schema import SqlType

T = TypeVar("T")


@dataclass(frozen=True)
class Refusal:
    """Why a rule held back, and where in the SQL."""

    rule: str
    reason: str
    place: Place | None = None


@dataclass(frozen=True)
class Notice:
    """What a rule warns of, and where in the SQL."""

    rule: str
    reason: str
    place: Place | None = None


class Intervals(NamedTuple):
    """Intervals whose ends are expressions over the columns of a relation; ``few``: it is small enough for one task."""

    relation: Logical
    low: str
    high: str
    few: bool


@dataclass
class Context:
    """What a rule may ask: names, statistics, thresholds.  And where it says why it held back."""

    catalog: Catalog
    thresholds: Thresholds
    force: bool = False
    definitions: dict[str, Cte] = field(default_factory=dict)
    lasting: bool = False  # the plan outlives what could be found out about its rows now
    scanned: frozenset[tuple[str, ...]] = frozenset()  # the tables and views that the statement names
    statement: str = ""  # what stands before the query: INSERT INTO t, CREATE VIEW v AS
    enclosing: tuple[Node, ...] = ()  # the subqueries in expressions, and LATERAL ones, around the node at hand
    above: Node | None = None  # the node that holds the one at hand, as it was before the rules came to it
    rule: str = ""
    refusals: dict[Refusal, None] = field(default_factory=dict)
    warnings: dict[Notice, None] = field(default_factory=dict)
    choices: list[str] = field(default_factory=list)
    unique: dict[tuple[Node, bool], frozenset[frozenset[str]]] = field(default_factory=dict)  # keys that were asked for
    named: int = 0  # how many names ``fresh`` has given

    @cached_property
    def names(self) -> Resolver:
        """The resolver of names for this statement."""
        return Resolver(self.catalog, self.definitions)

    def define(self, definitions: dict[str, Cte]) -> None:
        """Take over the WITH definitions of a plan that has changed, and forget what was told by the old ones."""
        self.definitions.clear()
        self.definitions.update(definitions)
        self.__dict__.pop("names", None)

    def decline(self, reason: str, place: Place | None = None) -> None:
        """Hold back, and say why to the person whose query it is."""
        self.refusals.setdefault(Refusal(self.rule, reason, place))

    def warn(self, reason: str, place: Place | None = None) -> None:
        """Tell the person whose query it is that something they wrote does not do what they asked for."""
        self.warnings.setdefault(Notice(self.rule, reason, place))

    def fail(self, reason: str, place: Place | None = None) -> NoReturn:
        """Stop the planning of a statement that Spark could not run either.  Raises ``QueryError``."""
        raise QueryError(reason, place)

    def choose(self, chosen: str, *rejected: str) -> None:
        """Write down a choice and what else there was, with their estimates: for ``explain("cost")`` only."""
        self.choices += [f"chosen: {chosen}", *(f"  rejected: {other}" for other in rejected)]

    def fresh(self, what: str) -> str:
        """A name for a relation or column that a rewriting adds, given to nobody else in the statement."""
        self.named += 1
        return f"__dt_{what}{self.named}"

    def type_of(self, expression: str, relation: Logical) -> SqlType | None:
        """The type of an expression over the columns of ``relation``, as the catalog tells it."""
        try:
            typed = self._typed(relation, expression)
            columns = self.catalog.schema(typed) if typed else None
            columns = columns or self.catalog.schema(self.query(relation, expression))
        except Unsupported:
            return None
        return columns[0].type if columns else None

    def _typed(self, relation: Logical, expression: str) -> str | None:
        """``SELECT expression`` over a row of NULLs with the types of a relation's columns, which Spark reads at once.

        None where it names what cannot be said so.
        """
        sources = self.names.sources(relation)
        used: dict[int, dict[str, str]] = {}
        scalar = Scalar(expression)
        if scalar.plans or scalar.tree.find(exp.Star):
            return None
        for ref in scalar.columns:
            try:
                index, column = self.names.resolve(ref, sources)
            except Unresolved:
                return None
            source, name = sources[index], self.names.fold(column.name)
            whole = next((c for c in source.columns or () if self.names.fold(c.name) == name), None)
            if whole is None or whole.type is None or whole.type.name == "char" or len(source.names) > 1:
                return None
            used.setdefault(index, {})[quote(whole.name)] = whole.type.sql
        rows = (
            f"(SELECT {', '.join(f'CAST(NULL AS {type_}) AS {name}' for name, type_ in columns.items())})"
            + "".join(f" AS {quote(name)}" for name in sources[index].names)
            for index, columns in used.items()
        )
        return f"SELECT {expression}" + (f" FROM {' CROSS JOIN '.join(rows)}" if used else "")

    def statistics(self, relation: Logical) -> Statistics:
        """What is known about the rows of a relation in FROM; unknown for one that cannot stand alone."""
        return self.statistics_of(relation)[0]

    def statistics_of(self, *relations: Logical) -> tuple[Statistics, ...]:
        """The same for several relations, asked at once."""
        if self.lasting:
            return (UNKNOWN,) * len(relations)
        queries = [self._alone(_unnamed(relation)) for relation in relations]
        return tuple(found or UNKNOWN for found in _each(queries, self.catalog.statistics_all))

    @property
    def measures(self) -> bool:
        """Whether small queries may run over the data, and their answers hold for as long as the plan does."""
        return self.thresholds.measure_lengths and not self.enclosing and not self.lasting

    def measure(self, query: str) -> tuple[Numbers, ...] | None:
        """Run a small query over the data; None when that cannot be done or the user does not want it."""
        return self.measure_all(query)[0]

    def measure_all(self, *queries: str) -> tuple[tuple[Numbers, ...] | None, ...]:
        """Run several small queries over the data; None for each that cannot be done."""
        if not self.measures:
            return (None,) * len(queries)
        return self.catalog.measure_all(queries)

    def lengths(self, *intervals: Intervals) -> tuple[tuple[LengthClass, ...] | None, ...]:
        """Measure intervals of several relations at once; None for each where that cannot be done."""
        ends = [(self._alone(relation, f"{low} AS low, {high} AS high"), few) for relation, low, high, few in intervals]
        queries = [text and length_classes(text, few=few) for text, few in ends]
        rows = _each(queries, lambda asked: self.measure_all(*asked))
        return tuple(None if one is None else read_length_classes(one) for one in rows)

    def extent(self, relation: Logical, at: str) -> tuple[float, float] | None:
        """From where to where the finite positions of a relation lie; None where there is none, or it is not known."""
        query = self._alone(relation, f"{at} AS at")
        found = self.measure(extent(query)) if query else None
        if not found or None in found[0]:
            return None
        first, last = found[0]
        return first, last  # type: ignore[return-value]

    def sample(self, relation: Logical, expression: str, rows: int) -> list[float | None] | None:
        """A number for each of the first rows of a relation, as Spark finds them; None when that cannot be done."""
        found = self.measure(f"{self.query(relation, expression)} LIMIT {rows}")
        return None if found is None else [row[0] for row in found]

    def samples(self, sides: tuple[tuple[Logical, str], ...], rows: int) -> tuple[tuple[Numbers, ...], ...] | None:
        """Select numbers from the first rows of relations, as Spark finds them; None when that cannot be done."""
        try:
            queries = [f"{self.query(relation, items)} LIMIT {rows}" for relation, items in sides]
        except Unsupported:
            return None
        found = self.measure_all(*queries)
        return None if None in found else found  # type: ignore[return-value]

    def unrepeatable(self, *relations: Logical) -> str | None:
        """Why reading these relations twice in one statement might give other rows, or None when it cannot."""
        for relation in dict.fromkeys(map(_unnamed, relations)):
            try:
                reason = self.catalog.unrepeatable(self.query(relation))
            except Unsupported as no:
                return no.reason
            if reason:
                return reason
        return None

    def query(self, relation: Logical, item: str = "*") -> str:
        """``SELECT item FROM relation`` as a statement of its own.  Raises ``Unsupported`` where it cannot be one."""
        return self.names.standing_alone(Project(relation, (Scalar(item),)))

    def _alone(self, relation: Logical, item: str = "*") -> str | None:
        try:
            return self.query(relation, item)
        except Unsupported:
            return None


def _unnamed(relation: Logical) -> Logical:
    """A table without the name that it goes by in a query."""
    if isinstance(relation, Scan) and relation.plain:
        return replace(relation, alias=None, renames=(), suffix="")
    return relation


def _each(queries: list[str | None], ask: Callable[[tuple[str, ...]], Iterable[T | None]]) -> list[T | None]:
    """What is found out by each query, asked all at once, each text once; None where there is no query."""
    asked = tuple(dict.fromkeys(query for query in queries if query))
    known = dict(zip(asked, ask(asked), strict=True))
    return [known[query] if query else None for query in queries]
