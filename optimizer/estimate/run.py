"""Runs an estimate: looks at a sample that grows, then at the exact answer where no sample suffices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from math import inf
from random import SystemRandom
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from dovetail.optimizer.estimate.answer import Answer, EstimatedRow
from dovetail.optimizer.planning.parameters import name_parameters
from dovetail.planner.errors import OptionError, QueryError, Refused
from dovetail.planner.estimate.clusters import ROWS, ClusterSample, Interval, fewest_rows
from dovetail.planner.estimate.expression import Value, evaluate
from dovetail.planner.estimate.groups import GroupSums, Powers
from dovetail.planner.estimate.looks import CLUSTERS, STEP, Look, first_look, next_look
from dovetail.planner.sql.from_sql import from_sql
from dovetail.planner.sql.reader import check_query
from dovetail.rules.context import Context
from dovetail.rules.estimate.query import EstimatedQuery, read_estimate
from dovetail.rules.estimate.sample_statement import sample_statement, size_statement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from dovetail.executor.session.named_frames import NamedFrames
    from dovetail.optimizer.planning.plan import Plan
    from dovetail.optimizer.session.planner import SessionPlanner

_MOST_GROUPS = 10_000
_SHORT = 3.0  # seconds of an exact run that are not worth a sample
_ATTEMPT = 6.0  # seconds after which an exact run that was predicted to be short is canceled
_PAIRS = 5e7  # joined rows that Spark aggregates in a second

_SOON = f"The exact run is predicted to take less than {_SHORT:.0f} s, so it follows"
_LAST = "A larger sample would save nothing, so the exact answer follows"


class Goal(NamedTuple):
    """When an estimate ends: at this relative error of all certified groups, or after so many seconds.

    ``seed`` repeats a sample; None draws one.
    """

    error: float
    confidence: float
    seconds: float | None
    seed: int | None = None

    def check(self) -> None:
        """Raise ``OptionError`` for values that no estimate can have."""
        _check_type("error", self.error, int | float)
        _check_type("confidence", self.confidence, int | float)
        _check_type("seconds", self.seconds, int | float | None)
        _check_type("seed", self.seed, int | None)
        if not 0 < self.error < 1:
            raise OptionError(f"error={self.error} is no relative error; give a number between 0 and 1, such as 0.01")
        if not 0.5 <= self.confidence < 1:
            raise OptionError(
                f"confidence={self.confidence} is no confidence; give a number from 0.5 up to 1, such as 0.95"
            )
        if self.seconds is not None and not self.seconds > 0:
            raise OptionError(f"seconds={self.seconds} is no time limit; give a number above 0, or None")


def _check_type(name: str, given: object, types: Any) -> None:
    if isinstance(given, bool) or not isinstance(given, types):
        raise OptionError(f"{name}={given!r} is no {'whole ' if types == int | None else ''}number")


@dataclass(frozen=True)
class Estimate:
    """A statement to estimate: its text with named parameters, how it is read, and what an estimate needs to run it."""

    planner: SessionPlanner
    text: str
    arguments: Any
    named: NamedFrames | None
    query: EstimatedQuery
    schema: StructType
    goal: Goal
    seed: int

    @property
    def session(self) -> SparkSession:
        """The session on which it runs."""
        return self.planner.session

    @property
    def aggregates(self) -> tuple[int, ...]:
        """The numbers of the columns that are estimated."""
        return tuple(n for n, column in enumerate(self.query.columns) if column.group is None)

    def answers(self) -> Iterator[Answer]:
        """Yield an answer for each look, and at the end the exact one, unless an earlier one suffices."""
        from dovetail.executor.session.time_limit import TimeIsUp

        start = monotonic()
        end = inf if self.goal.seconds is None else start + self.goal.seconds
        answer: Answer | None = None
        try:
            sums = GroupSums(self.query.products, self.sizes(end))
            look: Look | None = first_look(self.goal.confidence, sums.rows, self.goal.error)
            while look is not None:
                self.read(sums, look.read, end)
                found = self.answer(sums, look, monotonic() - start, answer)
                suffices, is_short, after = self._suffices(found), self._is_short(found), self._next(found, look)
                answer = replace(found, reason="" if suffices else _SOON if is_short else "" if after else _LAST)
                yield answer
                if suffices:
                    return
                exact: Answer | None = None
                if is_short:
                    with suppress(TimeIsUp):
                        exact = self._exact(start, min(end, monotonic() + _ATTEMPT), answer)
                if exact:
                    yield exact
                    return
                look = after
            assert answer is not None
            yield self._exact(start, end, answer)
        except TimeIsUp:
            if answer is None:
                raise QueryError(
                    f"No part of the rows was read in {self.goal.seconds:g} s; give the estimate more seconds"
                ) from None

    def _views(self) -> AbstractContextManager[None]:
        return self.named.views() if self.named else nullcontext()

    def sizes(self, until: float) -> list[Powers]:
        """Count the rows of all clusters."""
        sizes: list[Powers] = [(0.0, 0.0, 0.0)] * (CLUSTERS // STEP)
        statement = size_statement(self.query, self.seed)
        for step, *powers in self._collect(lambda: self.planner.plan_part(statement, self.arguments), until):
            sizes[step] = (powers[0], powers[1], powers[2])
        return sizes

    def read(self, sums: GroupSums, end: int, until: float) -> None:
        """Read further clusters, up to number ``end``."""
        statement = sample_statement(self.query, sums.read, end, self.seed)
        groups = len(self.query.groups)
        for row in self._collect(lambda: self.planner.plan_part(statement, self.arguments), until):
            sums.add(tuple(row[:groups]), row[groups], row[groups + 1 :])
        sums.read = end
        _check_few(len(sums))

    def _collect(self, plan: Callable[[], Plan], until: float) -> list[Any]:
        """Plan a statement, and return its rows.  Raises ``TimeIsUp``, ``QueryError``, and what Spark raises."""
        from dovetail.executor.session.time_limit import TimeIsUp, time_limit

        left = until - monotonic()
        if left <= 0:
            raise TimeIsUp
        with self._views(), time_limit(self.session, left if left < inf else None):
            rows = plan().run().limit(_MOST_GROUPS + 1).collect()
        _check_few(len(rows))
        return rows

    def answer(self, sums: GroupSums, look: Look, seconds: float, before: Answer | None) -> Answer:
        """The answer of a look, from the sums of its clusters; ``before``: the answer of the last look."""
        samples = list(sums.samples())
        fewest = {n: fewest_rows(self._values(n, samples)) for n in self.aggregates}
        rows = tuple(self._row(values, sample, look.error, fewest) for values, sample in samples)
        intervals = [value for row in rows if row.certified for value in row.values if isinstance(value, Interval)]
        return Answer(
            tuple(sorted(rows, key=lambda row: -(row.sampled_rows or 0))),
            exact=False,
            share=look.read / CLUSTERS,
            sampled=self.query.sampled.name,
            confidence=self.goal.confidence,
            widest=max((interval.error for interval in intervals), default=inf),
            seconds=seconds,
            seed=self.seed,
            reason="",
            postponed=self.query.postponed,
            schema=self.schema,
            aggregates=self.aggregates,
            session=self.session,
            earlier=(*before.earlier, before) if before else (),
        )

    def _values(
        self, number: int, samples: list[tuple[tuple[Any, ...], ClusterSample]]
    ) -> Iterator[tuple[ClusterSample, Value]]:
        """The values of a column in all groups that have one."""
        for _, sample in samples:
            if value := self._value(number, sample):
                yield sample, value

    def _value(self, number: int, sample: ClusterSample) -> Value | None:
        """The value of a column in a group; None for NULL: no value in the sample, or a division by zero."""
        column, totals = self.query.columns[number], sample.estimates(len(self.query.totals))
        assert column.tree is not None
        return evaluate(column.tree, totals) if all(totals[n] for n in column.present) else None

    def _row(
        self, group: tuple[Any, ...], sample: ClusterSample, error: float, fewest: dict[int, float]
    ) -> EstimatedRow:
        met = sample.sums.get((ROWS,), 0.0)
        columns = self.query.columns
        values: list[Any] = [None if column.group is None else group[column.group] for column in columns]
        for n in self.aggregates:
            if value := self._value(n, sample):
                found = sample.interval(value, error)
                if self.query.counts_all_rows and value.slopes.keys() <= {ROWS}:
                    found = Interval(value.number, value.number, value.number, True)
                if self.query.is_count(n):  # the rows that were read are some of them
                    found = found._replace(low=max(found.low, value.number / sample.scale))
                values[n] = found._replace(certified=found.certified and met >= fewest[n])
        certified = all(values[n] is not None and values[n].certified for n in self.aggregates)
        return EstimatedRow(tuple(values), round(met), certified)

    def _is_short(self, answer: Answer) -> bool:
        """Whether the exact run is predicted to be short, from the first look and the rows that it has joined."""
        rows = sum(row.sampled_rows or 0 for row in answer.rows) / answer.share
        return not answer.earlier and answer.seconds + rows / _PAIRS < _SHORT

    def _next(self, answer: Answer, look: Look) -> Look | None:
        factor = self.goal.error / answer.widest if 0 < answer.widest < inf else None
        return next_look(look, factor, jumps=self.goal.seconds is None)

    def _suffices(self, answer: Answer) -> bool:
        """Whether all certified intervals are narrow enough, and nearly all rows are in certified groups."""
        rows = sum(row.sampled_rows or 0 for row in answer.rows)
        certified = sum(row.sampled_rows or 0 for row in answer.rows if row.certified)
        return answer.widest <= self.goal.error and certified >= (1 - self.goal.error) * rows

    def _exact(self, start: float, end: float, before: Answer) -> Answer:
        found = self._collect(lambda: self.planner.plan_to_run(self.text, self.arguments), end)
        rows = [
            EstimatedRow(
                tuple(
                    Interval(value, value, value, True) if n in self.aggregates and value is not None else value
                    for n, value in enumerate(row)
                ),
                None,
                True,
            )
            for row in found
        ]
        return replace(
            before,
            rows=tuple(rows),
            exact=True,
            share=1.0,
            widest=0.0,
            seconds=monotonic() - start,
            reason="",
            earlier=(*before.earlier, before),
        )


def _check_few(groups: int) -> None:
    if groups > _MOST_GROUPS:
        raise QueryError(f"The statement has more than {_MOST_GROUPS:,} groups, too many for estimates; use opt.sql()")


def prepare_estimate(planner: SessionPlanner, text: str, args: Any, frames: Mapping[str, Any], goal: Goal) -> Estimate:
    """Analyze and read a statement.  Raises ``QueryError`` if it cannot be estimated, and what Spark raises."""
    from dovetail.executor.catalog.repeatable import is_deterministic
    from dovetail.executor.session.batch import run
    from dovetail.executor.session.estimated_rows import is_number
    from dovetail.executor.session.named_frames import name_frames

    goal.check()
    check_query(text, ", so there is nothing to estimate; give its SELECT alone")
    named = name_frames(planner.session, text, frames) if frames else None
    numbered, arguments = name_parameters(named.text if named else text, args)
    with named.views() if named else nullcontext():
        frame = run(planner.session, numbered, arguments)
        if frame.isStreaming:
            raise QueryError("Estimates read tables, and this statement reads a stream; materialize it instead")
        if not is_deterministic(frame):
            raise QueryError("This statement calls a function that may return another value each time, such as rand()")
        catalog = planner.make_catalog(arguments)
        try:
            logical, _ = from_sql(numbered, catalog.settings)
        except Refused as no:
            raise QueryError(f"Dovetail cannot read this statement, so it cannot be estimated: {no.reason}") from no
        query = read_estimate(logical, Context(catalog, planner.options))
        for column, field in zip(query.columns, frame.schema, strict=True):
            if column.group is None and not is_number(field.dataType):
                raise QueryError(
                    f"{field.name} is of type {field.dataType.simpleString()}, and only numbers are estimated. Run the "
                    "statement with opt.sql()"
                )
        if isinstance(error := catalog.analyze(sample_statement(query, 0, CLUSTERS, 0)), str):
            raise QueryError(f"Spark cannot read a sample of this statement: {error}. Run it with opt.sql()")
    chosen = SystemRandom().randrange(2**31) if goal.seed is None else goal.seed
    return Estimate(planner, numbered, arguments, named, query, frame.schema, goal, chosen)
