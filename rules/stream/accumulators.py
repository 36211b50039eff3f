"""A query that groups joined rows, over a row of accumulators for each group in the place of the joined rows.

    SELECT d.region, count(*), avg(f.amount) FROM … GROUP BY d.region HAVING count(*) > 2

    of rows    SELECT d.region AS __dt_g0, count(*) AS __dt_p0, sum(CAST(f.amount AS DECIMAL(38, 2))) AS __dt_p1, …
    merged     SELECT __dt_g0, sum(__dt_p0) AS __dt_p0, … GROUP BY __dt_g0
    above      SELECT __dt_g0, __dt_a0, __dt_a1 FROM (SELECT __dt_g0, sum(__dt_p0) AS __dt_a0, … GROUP BY __dt_g0)
               WHERE __dt_a0 > 2

Taken are aggregates whose value is the same however their rows are divided: counts, sums and averages of integers and
decimals, and minima and maxima of rows that only come.  Sums of floating numbers hang on the order of their rows.
(Gupta and Mumick, Maintenance of Materialized Views, 1995: self-maintainable aggregates.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from planner.errors import Unsupported
from planner.expr import Scalar, column_ref, columns_in, parse, quote, sql
from planner.expr.calls import volatile
from planner.expr.of_the_query import of_the_query
from planner.expr.tokens import tokenize
from planner.logical import Aggregate, Filter, Logical, Project, Sort
from planner.logical.clauses import Windows
from planner.logical.relations import Opaque
from planner.sql.names import Resolver, Source, Unresolved
from planner.sql.to_sql import to_sql
from planner.state.changes import COUNT
from planner.types.schema import SqlType
from planner.types.trying import may_raise
from rules.query.aggregate_calls import Call, calls, replaced
from rules.query.inner_joins import where
from rules.query.moving import check_deterministic
from rules.query.sort_keys import sort_keys

Types = Callable[[Sequence[str]], Sequence[SqlType]]
_GROUP, _PART, _ANSWER, _THERE = "__dt_g", "__dt_p", "__dt_a", "__dt_there"
_AVERAGED = 15  # digits of a decimal whose average is rounded as Spark does it, for groups of less than a billion rows
_ADDED = 28  # digits of a decimal whose sum has ten more, as many as there can be; Spark negates up to 34 exactly
_WORDS = ("ROLLUP", "CUBE", "SETS", "ALL")


@dataclass(frozen=True)
class Accumulators:
    """Three queries: ``of_rows`` over joined rows, the others over what it returns, all by the name of the rows."""

    of_rows: str
    merged: str
    above: str


@dataclass(frozen=True)
class _Part:
    """A column of accumulators: its value over rows, and the function that merges it."""

    name: str
    of_rows: str
    merge: str = "sum"

    @property
    def merged(self) -> str:
        """Its value over accumulators."""
        return f"{self.merge}({self.name})"


def accumulators(
    clauses: Sequence[Logical],
    rows: str,
    joined: str,
    names: Resolver,
    sources: tuple[Source, ...],
    types: Types,
    *,
    changes: bool,
) -> Accumulators:
    """Say a query with accumulators.

    ``clauses`` are its clauses above FROM and WHERE, from the outermost in; ``rows`` stands for its joined rows, which
    count in ``COUNT`` if they are ``changes``, and ``joined`` is the name of what is kept; ``types`` tells the types of
    expressions over ``rows``.  Raises ``Unresolved``, ``Unsupported`` where it takes the rows themselves.
    """
    said = _Query(names, sources, types, changes)
    project = next(n for n in clauses if isinstance(n, Project))
    grouped = next((n for n in clauses if isinstance(n, Aggregate)), None)
    if any(isinstance(n, Windows) for n in clauses):
        raise Unsupported("it has named windows")
    if not names.catalog.settings.ansi:
        raise Unsupported("without ANSI mode a sum that overflows is another value")
    said.read_groups(grouped)
    said.aliases = {names.fold(item.tree.alias) for item in project.items if item.tree.alias}
    items = tuple(map(said.over_groups, project.items))
    if not said.parts and grouped is None:
        raise Unsupported("it aggregates nothing")
    conditions = tuple(c for n in clauses if isinstance(n, Filter) for c in n.condition)
    for condition in conditions:
        if any(map(said.is_alias, columns_in(condition.tree))):
            raise Unsupported(f"{condition.shown} names an item of the select list")
    having = tuple(map(said.over_groups, conditions))
    if said.there:
        having = (Scalar(f"{_THERE} > 0"), *having)
    orders = {n: said.sorted(n.clause) for n in clauses if isinstance(n, Sort)}
    query: Any = where(Opaque(Scalar(f"({said.answers(joined)})")), having)
    for clause in reversed(clauses):
        match clause:
            case Project():
                query = replace(clause, child=query, items=items, hint=None)
            case Sort():
                query = replace(clause, child=query, clause=orders[clause])
            case Aggregate() | Filter():
                continue
            case _:
                query = replace(clause, child=query)  # type: ignore[type-var]
    return Accumulators(said.of_rows(rows), said.merged(joined), to_sql(query))


class _Query:
    """The groups of a query, and the accumulators that its aggregates need."""

    def __init__(self, names: Resolver, sources: tuple[Source, ...], types: Types, changes: bool):
        self.names, self.sources, self.types, self.changes = names, sources, types, changes
        self.groups: dict[str, str] = {}  # by what they mean, as written
        self.parts: list[_Part] = []
        self.found: dict[tuple[str, str], str] = {}  # the value of an aggregate over accumulators
        self.aliases: set[str] = set()
        self.there = False

    def read_groups(self, grouped: Aggregate | None) -> None:
        """Take the expressions of GROUP BY."""
        if grouped is None:
            return
        t = tokenize(grouped.groups.text)
        if any(t[n].word in _WORDS for n in range(len(t))):
            raise Unsupported(f"GROUP BY {grouped.groups.shown} is more than expressions")
        for low, high in t.split(0, len(t)):
            text = t.slice(low, high)
            self._check(Scalar(text))
            if not list(columns_in(parse(text))):
                raise Unsupported(f"GROUP BY {text} names no column")
            self.groups.setdefault(self._meaning(parse(text)), text)
        if self.changes:
            self.there = True
            self.parts.append(_Part(_THERE, f"sum({COUNT})"))

    def over_groups(self, item: Scalar) -> Scalar:
        """An expression over groups and aggregates, in terms of their columns."""
        text = sql(self._grouped(item))
        return Scalar(f"{text} AS {quote(item.tree.name)}" if isinstance(item.tree, exp.Column) else text)

    def sorted(self, clause: Scalar) -> Scalar:
        """ORDER BY over the columns of groups; names of items stay, and come before columns of that name."""
        head, found = sort_keys(clause)
        keys = []
        for key, direction in found:
            columns = list(columns_in(key.tree))
            plain = not calls(key) and all(self.is_alias(c) or self._unknown(c) for c in columns)
            if not plain and any(map(self.is_alias, columns)):
                raise Unsupported(f"ORDER BY {key.shown} names an item beside something else")
            if plain and (odd := volatile(key.tree)):
                raise Unsupported(f"{sql(odd)} is not known to be a function of one row")
            said = key.text if plain else sql(self._grouped(key))
            keys.append(f"{said} {direction}".strip())
        return Scalar(f"{head} {', '.join(keys)}")

    def is_alias(self, column: exp.Expression) -> bool:
        """Whether a column is, or may be, an item of the select list by its name."""
        parts = column_ref(column).parts
        return len(parts) == 1 and self.names.fold(parts[0]) in self.aliases

    def _grouped(self, scalar: Scalar) -> exp.Expr:
        """An expression with the columns of groups and aggregates in their places."""
        tree = replaced(scalar, calls(scalar), self._answer).tree.transform(self._by_group)
        if odd := volatile(tree):
            raise Unsupported(f"{sql(odd)} is not known to be a function of one row")
        return tree

    def of_rows(self, rows: str) -> str:
        """The accumulators of joined rows."""
        items = [f"{text} AS {_GROUP}{n}" for n, text in enumerate(self.groups.values())]
        items += [f"{part.of_rows} AS {part.name}" for part in self.parts]
        return f"SELECT {', '.join(items)} FROM {rows}{_by(self.groups.values())}"

    def merged(self, joined: str) -> str:
        """The accumulators of several times, as one; groups that add up to nothing are left out."""
        own = [f"{_GROUP}{n}" for n in range(len(self.groups))]
        items = [*own, *(f"{part.merged} AS {part.name}" for part in self.parts)]
        left = [f"coalesce({part.merged}, 0) <> 0" for part in self.parts] if self.changes else []
        having = f" HAVING {' OR '.join(left)}" if left else ""
        return f"SELECT {', '.join(items)} FROM {joined}{_by(own)}{having}"

    def answers(self, joined: str) -> str:
        """The groups with the values of their aggregates."""
        own = [f"{_GROUP}{n}" for n in range(len(self.groups))]
        items = [*own, *(f"{value} AS {_ANSWER}{n}" for n, value in enumerate(self.found.values()))]
        if self.there:
            items.append(f"sum({_THERE}) AS {_THERE}")
        return f"SELECT {', '.join(items)} FROM {joined}{_by(own)}"

    def _answer(self, call: Call) -> str:
        """The column of an aggregate; its accumulators are added where it is new."""
        if call.distinct:
            raise Unsupported(f"{call.text} needs the rows themselves")
        meaning = (call.function, self._meaning(call.argument.tree) if call.argument else "*")
        if meaning not in self.found:
            self.found[meaning] = self._value(call)
        return f"{_ANSWER}{list(self.found).index(meaning)}"

    def _value(self, call: Call) -> str:
        if call.argument is None:
            return f"coalesce({self._part(f'sum({COUNT})' if self.changes else 'count(*)')}, 0)"
        self._check(call.argument)
        said = call.argument.text
        if call.function in ("min", "max"):
            if self.changes:
                raise Unsupported(f"{call.text} of rows that go needs the rows themselves")
            return self._part(f"{call.function}({said})", call.function)
        count = self._part(
            f"sum(CASE WHEN ({said}) IS NOT NULL THEN {COUNT} END)" if self.changes else f"count({said})"
        )
        if call.function == "count":
            return f"coalesce({count}, 0)"
        return self._sum(call, said, count)

    def _sum(self, call: Call, said: str, count: str) -> str:
        """A sum or an average, NULL of nothing; accumulated with as many digits as there can be."""
        (type_,) = self.types([said])
        if type_.integral:
            wide, digits, scale = "DECIMAL(38, 0)", 0, 0
        elif type_.name == "decimal":
            digits, scale = type_.precision, type_.scale
            wide = f"DECIMAL(38, {scale})"
            if digits > _ADDED:
                raise Unsupported(f"{call.text} has too many digits to be added up and taken away exactly")
        else:
            raise Unsupported(f"{call.text} of {type_.text or type_.name} hangs on the order of rows")
        value = f"CAST(({said}) AS {wide})"
        if self.changes:
            value = f"CASE WHEN {COUNT} > 0 THEN {value} ELSE -{value} END"
        total = self._part(f"sum({value})")
        if call.function == "sum":
            result = f"CAST({total} AS {f'DECIMAL({digits + 10}, {scale})' if digits else 'BIGINT'})"
        elif not digits:
            result = f"CAST({total} AS DOUBLE) / {count}"
        elif digits <= _AVERAGED:
            own = f"CAST({total} AS DECIMAL({digits + 10}, {scale}))"
            result = f"CAST({own} / {count} AS DECIMAL({digits + 4}, {scale + 4}))"
        else:
            raise Unsupported(f"{call.text} has too many digits to be rounded as Spark does it")
        return f"CASE WHEN {count} > 0 THEN {result} END"

    def _part(self, of_rows: str, merge: str = "sum") -> str:
        """An accumulator, as it is merged."""
        known = next((part for part in self.parts if part.of_rows == of_rows), None)
        part = known or _Part(f"{_PART}{len(self.parts)}", of_rows, merge)
        if known is None:
            self.parts.append(part)
        return part.merged

    def _by_group(self, node: exp.Expr) -> exp.Expr:
        """A part of an expression, by the column of the group that it is."""
        if isinstance(node, exp.Column) and node.name.startswith(_ANSWER):
            return node
        if not isinstance(node, exp.Alias | exp.Literal):
            meaning = self._meaning(node)
            if meaning in self.groups:
                return exp.column(f"{_GROUP}{list(self.groups).index(meaning)}")
        if isinstance(node, exp.Column | exp.Star):
            raise Unsupported(f"{sql(node)} is neither grouped nor aggregated")
        return node

    def _meaning(self, tree: exp.Expr) -> str:
        """An expression with the relations of its columns, so that two spellings of one are one text."""

        def plain(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column):
                return node
            try:
                index, found = self.names.resolve(column_ref(node), self.sources)
            except Unresolved:
                return node
            return exp.column(self.names.fold(found.name), table=f"r{index}", quoted=True)

        return sql(tree.copy().transform(plain))

    def _unknown(self, column: exp.Expression) -> bool:
        """Whether a column is of no relation: the name of an item."""
        try:
            self.names.resolve(column_ref(column), self.sources)
        except Unresolved:
            return True
        return False

    def _check(self, scalar: Scalar) -> None:
        check_deterministic(scalar)
        if scalar.tree.find(exp.Star):
            raise Unsupported(f"{scalar.shown} is of all columns")
        if word := of_the_query(scalar.text):
            raise Unsupported(f"{word} is another value at each look")
        if self.changes and may_raise(scalar.tree, lambda t: self.names.type_of(t, self.sources), ansi=True):
            raise Unsupported(f"{scalar.shown} might raise an error on a row that goes later")


def _by(groups: Any) -> str:
    listed = ", ".join(groups)
    return f" GROUP BY {listed}" if listed else ""
