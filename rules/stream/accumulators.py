"""Rewrites a grouping query over accumulators: one stored row for each group instead of the joined rows.

    SELECT d.region, count(*), avg(f.amount) FROM … GROUP BY d.region HAVING count(*) > 2

    of rows    SELECT d.region AS __dt_g0, count(*) AS __dt_p0, sum(CAST(f.amount AS DECIMAL(38, 2))) AS __dt_p1, …
    merged     SELECT __dt_g0, sum(__dt_p0) AS __dt_p0, … GROUP BY __dt_g0
    above      SELECT __dt_g0, __dt_a0, __dt_a1 FROM (SELECT __dt_g0, sum(__dt_p0) AS __dt_a0, … GROUP BY __dt_g0)
               WHERE __dt_a0 > 2

Supported are aggregates whose value does not depend on how their rows are divided: counts, sums and averages of
integers and decimals, and minima and maxima of inserts.  Sums of floating-point numbers depend on the order of rows.
(Gupta and Mumick, Maintenance of Materialized Views, 1995: self-maintainable aggregates.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from dovetail.planner.bind.scope import Scope
from dovetail.planner.bind.select_list import items_named, over_from
from dovetail.planner.errors import UnknownName, Unsupported
from dovetail.planner.expr import Scalar, columns_in, quote, sql
from dovetail.planner.expr.aggregate_calls import Call, calls, replaced
from dovetail.planner.expr.calls import volatile
from dovetail.planner.expr.stable_functions import first_stable_function
from dovetail.planner.logical import Aggregate, Filter, Logical, Project, Sort, map_expressions
from dovetail.planner.logical.clauses import Windows
from dovetail.planner.logical.relations import Opaque
from dovetail.planner.sql.to_sql import to_sql
from dovetail.planner.state.changes import COUNT
from dovetail.planner.types.schema import SqlType
from dovetail.planner.types.try_expressions import can_raise
from dovetail.rules.query.decorrelation import check_deterministic
from dovetail.rules.query.grouping import grouping_expressions
from dovetail.rules.query.query_block import read_block, where

Types = Callable[[Sequence[str]], Sequence[SqlType]]
JOINED = "__dt_joined"
"""The name under which the rows of the join are read."""

_GROUP, _PART, _ANSWER, _THERE = "__dt_g", "__dt_p", "__dt_a", "__dt_there"
_AVERAGED = 15  # digits of a decimal whose average is rounded as Spark does it, for groups of less than a billion rows
_ADDED = 28  # digits of a decimal whose sum has ten more, as many as there can be; Spark negates up to 34 exactly


@dataclass(frozen=True)
class Accumulators:
    """Three queries: ``of_rows`` over joined rows, and ``merged`` and ``above`` over its result."""

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
        """Its merged value over accumulators."""
        return f"{self.merge}({self.name})"


def accumulators(clauses: Sequence[Logical], rows: str, scope: Scope, types: Types, *, changes: bool) -> Accumulators:
    """Rewrite a query over accumulators.

    ``clauses`` are its clauses above FROM and WHERE, from the outermost in.  ``rows`` is the relation of its joined
    rows, which count in ``COUNT`` if they are ``changes``.  ``types`` returns the types of expressions over ``rows``.
    Raises ``Refused``, ``Unsupported`` if the query needs the rows.
    """
    project = next(n for n in clauses if isinstance(n, Project))
    builder = _Query(scope, project.items, types, changes)
    block = read_block(project)
    assert block is not None  # a stream is in FROM
    if not scope.names.catalog.settings.ansi:
        raise Unsupported("without ANSI mode a sum that overflows wraps around; set spark.sql.ansi.enabled")
    builder.read_groups(grouping_expressions(block, scope))
    items = tuple(map(builder.over_groups, project.items))
    if not builder.parts and block.aggregate is None:
        raise Unsupported("it aggregates nothing")
    having = builder.having(c for n in clauses if isinstance(n, Filter) for c in n.condition)
    new: dict[Logical, Any] = {n: builder.sorted(n) for n in clauses if isinstance(n, Sort)}
    new[project] = replace(project, items=items, hint=None)
    query: Any = where(Opaque(Scalar(f"({builder.answers()})")), having)
    for clause in reversed(clauses):
        if not isinstance(clause, Aggregate | Filter | Windows):  # an item with a window has no accumulators
            query = replace(new.get(clause, clause), child=query)
    return Accumulators(builder.of_rows(rows), builder.merged(), to_sql(query))


class _Query:
    """The groups of a query, and the accumulators that its aggregates need."""

    def __init__(self, scope: Scope, items: tuple[Scalar, ...], types: Types, changes: bool):
        self.scope, self.items, self.types, self.changes = scope, items, types, changes
        self.groups: dict[str, str] = {}  # by what they mean, as written
        self.parts: list[_Part] = []
        self.found: dict[tuple[str, str], str] = {}  # the value of an aggregate over accumulators
        self.counts_rows = False

    def read_groups(self, keys: tuple[Scalar, ...]) -> None:
        """Read the expressions of GROUP BY."""
        for key in keys:
            self._check(key)
            self.groups.setdefault(self.scope.bind(key).canonical, key.text)
        if keys and self.changes:
            self.counts_rows = True
            self.parts.append(_Part(_THERE, f"sum({COUNT})"))

    def over_groups(self, item: Scalar) -> Scalar:
        """Rewrite an expression over the columns of groups and aggregates."""
        text = sql(self._grouped(item))
        return Scalar(f"{text} AS {quote(item.tree.name)}" if isinstance(item.tree, exp.Column) else text)

    def having(self, conditions: Iterable[Scalar]) -> tuple[Scalar, ...]:
        """Rewrite HAVING over the columns of groups, which are left out where they have no rows."""
        found = [Scalar(f"{_THERE} > 0")] if self.counts_rows else []
        return (*found, *map(self._over_answers, conditions))

    def sorted(self, sort: Sort) -> Sort:
        """Rewrite ORDER BY over the columns of groups; names of items stay, and win over columns of that name."""
        return map_expressions(sort, self._sort_key)

    def _sort_key(self, key: Scalar) -> Scalar:
        columns = list(columns_in(key.tree))
        plain = not calls(key) and all(self._is_alias(c) or self.scope.find(c) is None for c in columns)
        if plain and (odd := volatile(key.tree)):
            raise Unsupported(f"{sql(odd)} is not known to be a function of one row")
        return Scalar(key.text) if plain else self._over_answers(key)

    def _over_answers(self, scalar: Scalar) -> Scalar:
        """Rewrite an expression of HAVING or ORDER BY, which may name items."""
        return Scalar(sql(self._grouped(over_from(scalar, self.items, self.scope))))

    def _is_alias(self, column: exp.Expression) -> bool:
        return bool(items_named(column, self.items, self.scope.names))

    def _grouped(self, scalar: Scalar) -> exp.Expr:
        """Replace groups and aggregates in an expression by their columns."""
        tree = replaced(scalar, calls(scalar), self._answer).tree.transform(self._by_group)
        if odd := volatile(tree):
            raise Unsupported(f"{sql(odd)} is not known to be a function of one row")
        return tree

    def of_rows(self, rows: str) -> str:
        """Write the query for the accumulators of joined rows."""
        items = [f"{text} AS {_GROUP}{n}" for n, text in enumerate(self.groups.values())]
        items += [f"{part.of_rows} AS {part.name}" for part in self.parts]
        return f"SELECT {', '.join(items)} FROM {rows}{_by(self.groups.values())}"

    def merged(self) -> str:
        """Write the query that merges accumulators; groups that add up to zero are left out."""
        groups = [f"{_GROUP}{n}" for n in range(len(self.groups))]
        items = [*groups, *(f"{part.merged} AS {part.name}" for part in self.parts)]
        left = [f"coalesce({part.merged}, 0) <> 0" for part in self.parts] if self.changes else []
        having = f" HAVING {' OR '.join(left)}" if left else ""
        return f"SELECT {', '.join(items)} FROM {JOINED}{_by(groups)}{having}"

    def answers(self) -> str:
        """Write the query for the groups with the values of their aggregates."""
        groups = [f"{_GROUP}{n}" for n in range(len(self.groups))]
        items = [*groups, *(f"{value} AS {_ANSWER}{n}" for n, value in enumerate(self.found.values()))]
        if self.counts_rows:
            items.append(f"sum({_THERE}) AS {_THERE}")
        return f"SELECT {', '.join(items)} FROM {JOINED}{_by(groups)}"

    def _answer(self, call: Call) -> str:
        """Return the column of an aggregate; the accumulators of a new aggregate are added."""
        if call.distinct:
            raise Unsupported(f"{call.text} cannot be computed from partial aggregates")
        meaning = (call.function, self.scope.bind(call.argument).canonical if call.argument else "*")
        if meaning not in self.found:
            self.found[meaning] = self._value(call)
        return f"{_ANSWER}{list(self.found).index(meaning)}"

    def _value(self, call: Call) -> str:
        if call.argument is None:
            return f"coalesce({self._part(f'sum({COUNT})' if self.changes else 'count(*)')}, 0)"
        self._check(call.argument)
        argument = call.argument.text
        if call.function in ("min", "max"):
            if self.changes:
                raise Unsupported(f"{call.text} of rows that may be deleted cannot be computed from partial aggregates")
            return self._part(f"{call.function}({argument})", call.function)
        count = self._part(
            f"sum(CASE WHEN ({argument}) IS NOT NULL THEN {COUNT} END)" if self.changes else f"count({argument})"
        )
        if call.function == "count":
            return f"coalesce({count}, 0)"
        return self._sum(call, argument, count)

    def _sum(self, call: Call, argument: str, count: str) -> str:
        """Return a sum or an average, NULL of no rows; accumulated with the largest precision."""
        (type_,) = self.types([argument])
        if type_.integral:
            wide, digits, scale = "DECIMAL(38, 0)", 0, 0
        elif type_.name == "decimal":
            digits, scale = type_.precision, type_.scale
            wide = f"DECIMAL(38, {scale})"
            if digits > _ADDED:
                raise Unsupported(f"{call.text} has too many digits to be added and subtracted exactly")
        else:
            raise Unsupported(f"{call.text} of {type_.text} depends on the order of rows")
        value = f"CAST(({argument}) AS {wide})"
        if self.changes:
            value = f"CASE WHEN {COUNT} > 0 THEN {value} ELSE -{value} END"
        total = self._part(f"sum({value})")
        if call.function == "sum":
            result = f"CAST({total} AS {f'DECIMAL({digits + 10}, {scale})' if digits else 'BIGINT'})"
        elif not digits:
            result = f"CAST({total} AS DOUBLE) / {count}"
        elif digits <= _AVERAGED:
            exact = f"CAST({total} AS DECIMAL({digits + 10}, {scale}))"
            result = f"CAST({exact} / {count} AS DECIMAL({digits + 4}, {scale + 4}))"
        else:
            raise Unsupported(f"{call.text} has too many digits to be rounded as Spark does")
        return f"CASE WHEN {count} > 0 THEN {result} END"

    def _part(self, of_rows: str, merge: str = "sum") -> str:
        """Return the merged value of an accumulator, which is added if it is new."""
        known = next((part for part in self.parts if part.of_rows == of_rows), None)
        part = known or _Part(f"{_PART}{len(self.parts)}", of_rows, merge)
        if known is None:
            self.parts.append(part)
        return part.merged

    def _by_group(self, node: exp.Expr) -> exp.Expr:
        """Replace a node of an expression that is a group by the column of the group."""
        if isinstance(node, exp.Column) and node.name.startswith(_ANSWER):
            return node
        if not isinstance(node, exp.Alias | exp.Literal):
            with suppress(UnknownName):  # it holds an aggregate, or the name of an item
                meaning = self.scope.bind(node).canonical
                if meaning in self.groups:
                    return exp.column(f"{_GROUP}{list(self.groups).index(meaning)}")
        if isinstance(node, exp.Column | exp.Star):
            raise Unsupported(f"{sql(node)} is neither grouped by nor aggregated")
        return node

    def _check(self, scalar: Scalar) -> None:
        check_deterministic(scalar)
        if scalar.tree.find(exp.Star):
            raise Unsupported(f"{scalar.shown} reads all columns")
        if word := first_stable_function(scalar.text):
            raise Unsupported(f"{word} may have another value at each refresh")
        if self.changes and can_raise(scalar, self.scope.type_of, ansi=True):
            raise Unsupported(f"{scalar.shown} might raise an error on a row that is deleted later")


def _by(groups: Any) -> str:
    listed = ", ".join(groups)
    return f" GROUP BY {listed}" if listed else ""
