"""Many calls in one statement: planned once and run twice for all; taken apart where that does not tell of each.

A place that says what it repeats holds each call bare, as an item of a list or as a condition on rows of its own.  In
the others one call stands for many: a CASE over rows that each has of its own, or a struct of aggregates.

What raises or differs is halved down to single calls.  What is declined is so for all, where one or two of the calls
are declined alone, too: they are put together by what the rules ask of an expression.
"""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from dovetail import Optimizer, Plan
from dovetail.planner.errors import Unsupported
from dovetail.planner.expr import Scalar
from dovetail.planner.types.schema import SqlType, sql_type
from dovetail.planner.types.try_expressions import can_raise
from dovetail.planner.types.typed import infer_type
from pieces import Failure, Tally, repeated, rows_of, said
from rule_places import VIEW, Place, compared, fits, query, query_of_many, topped
from spark_calls import LABELS, Call, make_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CASES = 8  # calls of one type in a CASE, whose values all meet each other


class Bunches:
    """The verdicts of one session under one setting."""

    def __init__(self, session: SparkSession, optimizer: Optimizer, setting: str, tally: Tally):
        self.session = session
        self.optimizer = optimizer
        self.setting = setting
        self.tally = tally
        self._ansi = session.conf.get("spark.sql.ansi.enabled") == "true"
        self._types = {f.name: sql_type(f.dataType.simpleString()) for f in session.table("wild").schema.fields}
        self._made: dict[tuple[int, int, tuple[str, ...]], str] = {}
        self._raising: dict[str, set[str]] = defaultdict(set)
        self._natures: dict[str, str] = {}

    def of(self, place: Place, calls: Sequence[Call]) -> Iterator[list[Call]]:
        """The calls that fit a place, those together that Dovetail is likely to treat alike."""
        kinds: dict[tuple[str, ...], list[Call]] = defaultdict(list)
        listed = place.repeats or place.needs == "aggregate"
        for call in calls:
            if fits(place, call):
                alone = not call.deterministic or call.kind == "generator" or call.guarded
                alike = [call.kind, call.table, call.name if alone else "", self._nature(call)]
                alike.append("" if listed else call.type)
                alike.append(str("{same" in place.template and compared(call)))
                kinds[tuple(alike)].append(call)
        most = LABELS if listed else _CASES
        for some in kinds.values():
            yield from (some[start : start + most] for start in range(0, len(some), most))

    def _nature(self, call: Call) -> str:
        """What the rules ask of every expression: can it be read, and may it raise?"""
        if call.name not in self._natures:
            try:
                tree = Scalar(call.over("")).tree
                raises = can_raise(tree, lambda t: infer_type(t, self._type), ansi=self._ansi)
                self._natures[call.name] = "raises" if raises else "has a value"
            except Unsupported:
                self._natures[call.name] = "is not read"
        return self._natures[call.name]

    def _type(self, leaf: exp.Expression) -> SqlType | None:
        return self._types.get(leaf.name)

    def look(self, place: Place, calls: list[Call]) -> None:
        """Plan these calls in a place and compare what comes out."""
        self.tally.planned += len(calls)
        self.tally.settings[self.setting] += len(calls)
        self.tally.functions.update(f for call in calls for f in call.functions)
        raising = self._raising[_hole(place)]
        for some in ([c for c in calls if c.name in raising], [c for c in calls if c.name not in raising]):
            if some:
                self._look(place, some)

    def _look(self, place: Place, calls: list[Call]) -> None:
        text = self._text(place, calls)
        try:
            plan = self.optimizer.plan(text)
        except Exception as error:  # noqa: BLE001  whatever it is, it would have cost the query its rewriting
            if len(calls) == 1 and isinstance(rows_of(lambda: self.session.sql(text)), str):
                self.tally.declined += 1
                self.tally.reasons["plain Spark does not take it"] += 1
            else:
                self._apart(place, calls, ("fault", text, "", f"{type(error).__name__}: {error}"[:600]))
            return
        if not plan.rewritten:
            self._declined(place, calls, text, plan)
        elif calls[0].deterministic:
            self._compare(place, calls, text, plan)
        else:
            self._rewritten(place, calls)
            if repeated(calls[0], text, plan):
                self.tally.failures.append(self._failure("repeated", place, calls, text, plan.sql(), ""))

    def _apart(self, place: Place, calls: list[Call], found: tuple[str, str, str, str]) -> None:
        """A failure of one call; many are looked at again, each half alone."""
        if len(calls) == 1:
            kind, text, rewriting, reason = found
            self.tally.failures.append(self._failure(kind, place, calls, text, rewriting, reason))
            return
        before, middle = len(self.tally.failures), len(calls) // 2
        self._look(place, calls[:middle])
        self._look(place, calls[middle:])
        if len(self.tally.failures) == before:  # only together
            kind, text, rewriting, reason = found
            self.tally.failures.append(self._failure(kind, place, calls, text, rewriting, reason))

    def _declined(self, place: Place, calls: list[Call], text: str, plan: Plan) -> None:
        if lost := next((d.reason for d in plan.declined if d.rule == "schema check"), None):
            self._apart(place, calls, ("lost", text, "", lost[:600]))
            return
        if len(calls) > 1 and not all(self._declines_alone(place, call) for call in _two(calls, place)):
            middle = len(calls) // 2
            self._look(place, calls[:middle])
            self._look(place, calls[middle:])
            return
        self.tally.declined += len(calls)
        for d in plan.declined:
            self.tally.reasons[f"{d.rule}: {_short(d.reason)}"] += len(calls)
        if not plan.declined:
            self.tally.reasons[f"no word: {place.name}"] += len(calls)

    def _declines_alone(self, place: Place, call: Call) -> bool:
        try:
            return not self.optimizer.plan(self._text(place, [call])).rewritten
        except Exception:  # noqa: BLE001  said of the half in which it stands
            return False

    def _rewritten(self, place: Place, calls: list[Call]) -> None:
        self.tally.rewritten += len(calls)
        self.tally.rewritten_functions.update(f for call in calls for f in call.functions)
        self.tally.places[place.name] += len(calls)

    def _compare(self, place: Place, calls: list[Call], text: str, plan: Plan) -> None:
        before = rows_of(lambda: self.session.sql(text))
        if isinstance(before, str):
            raising = self._raising[_hole(place)]
            if len(calls) > 1 and not all(call.name in raising for call in calls):
                self._find_raising(place, calls)
                for some in ([c for c in calls if c.name in raising], [c for c in calls if c.name not in raising]):
                    if some:
                        self._look(place, some)
                return
            self._rewritten(place, calls)
            self.tally.raised += len(calls)
            return
        after = rows_of(plan.dataframe)
        if after != before:
            kind = "raises" if isinstance(after, str) else "rows"
            self._apart(place, calls, (kind, text, plan.sql(), f"plain {said(before)}\nfound {said(after)}"))
            return
        self._rewritten(place, calls)
        self.tally.compared += len(calls)
        self.tally.empty += 0 if before else len(calls)

    def _find_raising(self, place: Place, calls: list[Call]) -> bool:
        """Find the calls on which plain Spark raises; whether there are any."""
        if isinstance(rows_of(lambda: self.session.sql(self._text(place, calls))), str):
            middle = len(calls) // 2
            if len(calls) == 1:
                self._raising[_hole(place)].add(calls[0].name)
            elif not (self._find_raising(place, calls[:middle]) | self._find_raising(place, calls[middle:])):
                self._raising[_hole(place)].update(call.name for call in calls)
            return True
        return False

    def _failure(self, kind: str, place: Place, calls: list[Call], text: str, rewriting: str, reason: str) -> Failure:
        functions = tuple(f for call in calls for f in call.functions)
        return Failure(kind, self.setting, place.name, functions, text, rewriting, reason)

    def _text(self, place: Place, calls: list[Call]) -> str:
        """The statement; its tables are made."""
        one = calls if len(calls) == 1 or place.repeats else [_one(place, calls)]
        labels = len(calls) if len(calls) > 1 and (place.asks or (len(one) == 1 and place.needs != "aggregate")) else 0
        key = (labels, len(one), tuple(call.name for call in calls))
        name = self._made.get(key, "")
        if not name:
            name = self._made[key] = f"b{len(self._made)}"
            for table in make_tables(self.session, name, one, labels):
                self.optimizer.declare_key(table, ["id"])
        if "{view}" in place.template:
            many = len(one) > 1
            items = ", ".join(f"{call.over('')} AS v{n if many else ''}" for n, call in enumerate(one))
            self.session.sql(f"CREATE OR REPLACE TEMP VIEW {VIEW}_{name} AS SELECT id, g, k, {items} FROM t_{name}")
        if len(one) > 1:
            return query_of_many(place, one, name)
        return query(place, replace(one[0], name=name)) or ""


def _one(place: Place, calls: list[Call]) -> Call:
    """A call that stands for many."""
    functions = tuple(f for call in calls for f in call.functions)
    if place.needs == "aggregate":
        text = f"struct({', '.join(topped(call, call.marked) for call in calls)})"
        return replace(calls[0], functions=functions, kind="aggregate", text=text, inner="", type="struct")
    whens = " ".join(f"WHEN {n} THEN {call.marked}" for n, call in enumerate(calls))
    return replace(calls[0], functions=functions, text=f"CASE §lab {whens} END", inner="")


def _two(calls: list[Call], place: Place) -> list[Call]:
    """Two of them, in each place others; one of a few."""
    start = zlib.crc32(place.name.encode()) % len(calls)
    return [calls[start], calls[(start + len(calls) // 2) % len(calls)]][: 1 + len(calls) // 6]


def _hole(place: Place) -> str:
    """Where plain Spark may raise on a call that has values on all rows."""
    return next((hole for hole in ("{outer", "{step}") if hole in place.template), place.name)


def _short(reason: str) -> str:
    """A reason without the words of the query."""
    told = re.search(r"could raise an error[\w ]*$|(is not deterministic|may not be|stays a subquery).*$", reason)
    return told[0][:100] if told else reason[-100:]
