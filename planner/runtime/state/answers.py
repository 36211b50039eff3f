"""The rows that an epoch returns for a join: its statements, each over views of the segments that it may need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from planner.errors import StateError
from planner.runtime.batch import run
from planner.runtime.own_views import OWN_VIEWS
from planner.runtime.state.changes import as_changes, first_of_two
from planner.runtime.state.segments import Segments, empty
from planner.runtime.state.sinks import Output
from planner.state.delta import version_of
from planner.state.manifest import Segment, marks_of
from planner.state.spec import VERSIONS, StreamJoin, view
from planner.state.upkeep import reachable
from planner.state.within import within

Planned = Callable[[SparkSession, str], str]


@dataclass(frozen=True)
class Rows:
    """What the state has in an ``epoch``, by input: segments that were there ``before`` it, and ``new`` ones.

    ``then`` and ``now`` are the watermarks before the epoch and after it, in milliseconds.
    """

    epoch: int
    before: tuple[tuple[Segment, ...], ...]
    new: tuple[tuple[Segment, ...], ...]
    then: int | None = None
    now: int | None = None

    def all_new(self) -> Rows:
        """The same for a join that has seen none of it yet."""
        whole = tuple((*old, *new) for old, new in zip(self.before, self.new, strict=True))
        return replace(self, before=((),) * len(whole), new=whole, then=None)


@dataclass
class Asked:
    """A join whose rows each epoch returns: its statements have a ``schema``, and ``output`` takes what they return.

    ``plan`` says as what a statement runs on a session; ``plans`` what it said, by the statement and the size of what
    the statement reads.  ``name`` tells joins on one state apart.
    """

    join: StreamJoin
    schema: StructType
    output: Output
    plan: Planned
    name: str = ""
    plans: dict[tuple[str, tuple[int, ...]], str] = field(default_factory=dict)

    def answer(self, session: SparkSession, segments: Segments, rows: Rows) -> DataFrame:
        """The rows that it returns; of changelogs, the changes.

        Raises ``StateError`` where a left join finds two rows under a key that is said to tell them apart.
        """
        half = _Halves(self, session, segments, rows)
        if self.join.delta and self.join.delta.unique:
            half.check_keys(self.join.delta.unique)
        blocks = self.join.blocks
        frames = [*half.pairs()] if not blocks.again else [*half.first_matches()]
        if rows.now is not None:
            frames += [found for side, lone in enumerate(blocks.lone) if lone for found in half.lone(side, rows.now)]
        answer = reduce(DataFrame.unionAll, frames) if frames else empty(session, self.schema)
        return as_changes(answer, self.join.changes) if self.join.changes else answer


class _Halves:
    """The statements of one join in one epoch."""

    def __init__(self, asked: Asked, session: SparkSession, segments: Segments, rows: Rows):
        self.asked, self.session, self.segments, self.rows = asked, session, segments, rows
        self.join = asked.join
        self.new = [rows.new[side.input] for side in self.join.sides]
        self.old = [rows.before[side.input] for side in self.join.sides]
        self.views: dict[str, tuple[tuple[Segment, ...], str]] = {}
        self.sizes: dict[str, int] = {}

    def check_keys(self, keys: tuple[tuple[int, tuple[str, ...]], ...]) -> None:
        """Raise ``StateError`` where two rows of an input agree in a key that is said to tell them apart."""
        for number, key in keys:
            side, new = self.join.sides[number], self.new[number]
            if not new:
                continue
            rows = self.segments.side(self.session, side, (*self.old[number], *new))
            twice = first_of_two(rows, self.segments.side(self.session, side, new), key)
            if twice is not None:
                name, values = self.join.inputs[side.input].name, ", ".join(map(str, twice))
                raise StateError(
                    f"two rows of {name} have {', '.join(key)} = {values} in epoch {self.rows.epoch}, and a left join "
                    "was told that there is one at most; a row must go before the end of the epoch in which its key "
                    "comes again"
                )

    def pairs(self) -> Iterator[DataFrame]:
        """What is new on each side with all of the sides after it, and what was there before on those before it."""
        for side, statement in enumerate(self.join.blocks.pairs):
            if self.new[side] and self._has_partners(side):
                yield self._ask(statement)

    def first_matches(self) -> Iterator[DataFrame]:
        """The rows of the left that have had no match before this epoch, and have one now."""
        if self.new[0] and self._has_partners(0):
            yield self._ask(self.join.blocks.pairs[0])
        if self.new[1] and self._has_partners(1):
            matches, before = self.join.blocks.again
            self._ask(matches).createOrReplaceTempView(view("again", 0))
            self._view("prev", 1, self.old[1])
            self._ask(before).createOrReplaceTempView(view("first", 0))
            yield self._ask(self.join.blocks.pairs[1])

    def lone(self, side: int, now: int) -> Iterator[DataFrame]:
        """The answer for rows of a side that have become final: for those that match nothing, or for all of them."""
        position, other, then, said = self.join.finals[side], 1 - side, self.rows.then, self.join.sides[side]
        final = []
        if self.old[side] and now != then:
            reached = f"{position} <= {now * 1000}" + ("" if then is None else f" AND {position} > {then * 1000}")
            final.append(self.segments.side(self.session, said, self.old[side], reached))
        if self.new[side]:
            final.append(self.segments.side(self.session, said, self.new[side], f"{position} <= {now * 1000}"))
        if not final:
            return
        reduce(DataFrame.unionAll, final).createOrReplaceTempView(view("final", side))
        self.sizes[view("final", side)] = sum(s.rows for s in (*self.old[side], *self.new[side]))
        self._view("curr", other, (*self.old[other], *self.new[other]))
        if unmatched := self.join.blocks.unmatched[side]:
            self._ask(unmatched).createOrReplaceTempView(view("lone", side))
            self._view("none", other, ())
        yield self._ask(self.join.blocks.lone[side])

    def _has_partners(self, side: int) -> bool:
        """Make the views for what is new on a side; False where one of the others has no row that it could meet."""
        new = self.new[side]
        marks = marks_of(new)
        self._view("d", side, new)
        delta = self.join.delta
        lefts = {lookup.input for lookup in delta.paths[side].lookups if lookup.left} if delta else ()
        for other in range(len(self.join.sides)):
            if other == side:
                continue
            version = version_of(side, other)
            there = self.old[other] if version == "prev" else (*self.old[other], *self.new[other])
            reaches = [r for r in self.join.reaches if {r.small[0], r.large[0]} == {side, other}]
            found = reachable(there, other, marks, reaches)
            if not found:
                if other not in lefts:
                    return False
                self._view(version, other, ())
                continue
            state = self.join.inputs[self.join.sides[other].input]
            self._view(version, other, found, within(state, found, other, marks, reaches))
        return True

    def _view(self, version: str, side: int, segments: tuple[Segment, ...], which: str = "") -> None:
        """Make a view, unless it stands there from a statement before."""
        name = view(version, side)
        if self.views.get(name) != (segments, which):
            rows = self.segments.side(self.session, self.join.sides[side], segments, which)
            rows.createOrReplaceTempView(name)
            self.views[name] = segments, which
        self.sizes[name] = sum(s.rows for s in segments)

    def _ask(self, statement: str) -> DataFrame:
        """The rows of a statement, by the plan that it had when its views were about as large: within four times."""
        plans = self.asked.plans
        sizes = tuple(rows.bit_length() // 2 for name, rows in sorted(self.sizes.items()) if name in statement)
        if (statement, sizes) not in plans:
            plans[statement, sizes] = self.asked.plan(self.session, statement)
        return run(self.session, plans[statement, sizes])


def schema_of_answer(session: SparkSession, join: StreamJoin, schemas: tuple[StructType, ...]) -> Any:
    """The schema of what an epoch returns, or the first line of Spark's error."""
    with OWN_VIEWS:
        return _asked_over_nothing(session, join, schemas)


def _asked_over_nothing(session: SparkSession, join: StreamJoin, schemas: tuple[StructType, ...]) -> Any:
    from planner.runtime.batch import analysed

    made: list[str] = []
    statements = "".join((*join.blocks.steps, *join.blocks.answers))
    try:
        for side, said in enumerate(join.sides):
            rows = empty(session, schemas[said.input])
            rows = rows.where(said.rows) if said.rows else rows
            rows = rows.selectExpr(*(f"{value} AS `{shown.replace('`', '``')}`" for shown, value in said.shown))
            for name in (view(version, side) for version in VERSIONS):
                if name in statements:
                    rows.createOrReplaceTempView(name)
                    made.append(name)
        wrong = [f for f in (analysed(session, step) for step in join.blocks.steps) if isinstance(f, str)]
        if wrong:
            return wrong[0]
        found = analysed(session, "\nUNION ALL\n".join(f"({b})" for b in join.blocks.answers))
        return found if isinstance(found, str) else found[1]
    finally:
        for name in made:
            with suppress(Exception):
                session.catalog.dropTempView(name)
