"""Computes the rows that an epoch returns for a join: its statements over views of the segments that may match."""

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
from planner.runtime.state.changes import first_duplicate_key, to_changes
from planner.runtime.state.segments import Segments, empty_rows
from planner.runtime.state.sinks import Output
from planner.runtime.temporary_views import TEMPORARY_VIEWS_LOCK
from planner.state.compaction import reachable
from planner.state.delta import version_of
from planner.state.manifest import Segment, marks_of
from planner.state.segment_pruning import prune_segments
from planner.state.spec import VERSIONS, StreamJoin, view

PlanStatement = Callable[[SparkSession, str], str]


@dataclass(frozen=True)
class Rows:
    """The segments of the state in an ``epoch``, by input: those from ``before`` it, and ``new`` ones.

    ``then`` and ``now`` are the watermarks before the epoch and after it, in milliseconds.
    """

    epoch: int
    before: tuple[tuple[Segment, ...], ...]
    new: tuple[tuple[Segment, ...], ...]
    then: int | None = None
    now: int | None = None

    def all_new(self) -> Rows:
        """Return the same rows for a join that has read none of them: all are new."""
        whole = tuple((*old, *new) for old, new in zip(self.before, self.new, strict=True))
        return replace(self, before=((),) * len(whole), new=whole, then=None)


@dataclass
class JoinRequest:
    """A join whose rows each epoch returns: its statements have a ``schema``, and ``output`` takes their rows.

    ``plan`` plans a statement on a session; ``plans`` caches the results by the statement and the sizes of its inputs.
    ``name`` identifies one of several joins on one state.
    """

    join: StreamJoin
    schema: StructType
    output: Output
    plan: PlanStatement
    name: str = ""
    plans: dict[tuple[str, tuple[int, ...]], str] = field(default_factory=dict)

    def answer(self, session: SparkSession, segments: Segments, rows: Rows) -> DataFrame:
        """Return the rows of the join in an epoch; of changelogs, the changes.

        Raises ``StateError`` if a left join finds two rows under a key that is declared unique.
        """
        half_joins = _HalfJoins(self, session, segments, rows)
        if self.join.delta and self.join.delta.unique:
            half_joins.check_keys(self.join.delta.unique)
        blocks = self.join.blocks
        frames = [*half_joins.pairs()] if not blocks.again else [*half_joins.first_matches()]
        if rows.now is not None:
            preserved = [side for side, statement in enumerate(blocks.lone) if statement]
            frames += [found for side in preserved for found in half_joins.unmatched_rows(side, rows.now)]
        answer = reduce(DataFrame.unionAll, frames) if frames else empty_rows(session, self.schema)
        return to_changes(answer, self.join.changes) if self.join.changes else answer


class _HalfJoins:
    """The statements of one join in one epoch."""

    def __init__(self, request: JoinRequest, session: SparkSession, segments: Segments, rows: Rows):
        self.request, self.session, self.segments, self.rows = request, session, segments, rows
        self.join = request.join
        self.new = [rows.new[side.input] for side in self.join.sides]
        self.old = [rows.before[side.input] for side in self.join.sides]
        self.views: dict[str, tuple[tuple[Segment, ...], str]] = {}
        self.sizes: dict[str, int] = {}

    def check_keys(self, keys: tuple[tuple[int, tuple[str, ...]], ...]) -> None:
        """Raise ``StateError`` if two rows of an input have the same values in a key that is declared unique."""
        for number, key in keys:
            side, new = self.join.sides[number], self.new[number]
            if not new:
                continue
            rows = self.segments.side(self.session, side, (*self.old[number], *new))
            twice = first_duplicate_key(rows, self.segments.side(self.session, side, new), key)
            if twice is not None:
                name, values = self.join.inputs[side.input].name, ", ".join(map(str, twice))
                raise StateError(
                    f"Two rows of {name} have {', '.join(key)} = {values} in epoch {self.rows.epoch}, and the declared "
                    "key allows one. Delete a row no later than in the epoch in which its key comes again, or declare "
                    "another key"
                )

    def pairs(self) -> Iterator[DataFrame]:
        """Join the new rows of each side with all rows of later sides, and the earlier rows of the sides before."""
        for side, statement in enumerate(self.join.blocks.pairs):
            if self.new[side] and self._can_match(side):
                yield self._run_statement(statement)

    def first_matches(self) -> Iterator[DataFrame]:
        """Return the rows of the left that had no match before this epoch, and have one now."""
        if self.new[0] and self._can_match(0):
            yield self._run_statement(self.join.blocks.pairs[0])
        if self.new[1] and self._can_match(1):
            matches, before = self.join.blocks.again
            self._run_statement(matches).createOrReplaceTempView(view("again", 0))
            self._view("prev", 1, self.old[1])
            self._run_statement(before).createOrReplaceTempView(view("first", 0))
            yield self._run_statement(self.join.blocks.pairs[1])

    def unmatched_rows(self, side: int, now: int) -> Iterator[DataFrame]:
        """Return the answer for rows of a side that became final: those without a match, or all of them."""
        position, other, then, relation = self.join.finals[side], 1 - side, self.rows.then, self.join.sides[side]
        final = []
        if self.old[side] and now != then:
            reached = f"{position} <= {now * 1000}" + ("" if then is None else f" AND {position} > {then * 1000}")
            final.append(self.segments.side(self.session, relation, self.old[side], reached))
        if self.new[side]:
            final.append(self.segments.side(self.session, relation, self.new[side], f"{position} <= {now * 1000}"))
        if not final:
            return
        reduce(DataFrame.unionAll, final).createOrReplaceTempView(view("final", side))
        self.sizes[view("final", side)] = sum(s.rows for s in (*self.old[side], *self.new[side]))
        self._view("curr", other, (*self.old[other], *self.new[other]))
        if unmatched := self.join.blocks.unmatched[side]:
            self._run_statement(unmatched).createOrReplaceTempView(view("lone", side))
            self._view("none", other, ())
        yield self._run_statement(self.join.blocks.lone[side])

    def _can_match(self, side: int) -> bool:
        """Make the views for the new rows of a side; False if another side has no row that they could match."""
        new = self.new[side]
        marks = marks_of(new)
        self._view("d", side, new)
        delta = self.join.delta
        lefts = {lookup.input for lookup in delta.paths[side].lookups if lookup.left} if delta else ()
        for other in range(len(self.join.sides)):
            if other == side:
                continue
            version = version_of(side, other)
            candidates = self.old[other] if version == "prev" else (*self.old[other], *self.new[other])
            reaches = [r for r in self.join.reaches if {r.small[0], r.large[0]} == {side, other}]
            found = reachable(candidates, other, marks, reaches)
            if not found:
                if other not in lefts:
                    return False
                self._view(version, other, ())
                continue
            state = self.join.inputs[self.join.sides[other].input]
            self._view(version, other, found, prune_segments(state, found, other, marks, reaches))
        return True

    def _view(self, version: str, side: int, segments: tuple[Segment, ...], which: str = "") -> None:
        """Make a view, unless an earlier statement has made the same one."""
        name = view(version, side)
        if self.views.get(name) != (segments, which):
            rows = self.segments.side(self.session, self.join.sides[side], segments, which)
            rows.createOrReplaceTempView(name)
            self.views[name] = segments, which
        self.sizes[name] = sum(s.rows for s in segments)

    def _run_statement(self, statement: str) -> DataFrame:
        """Run a statement with the plan that was made when its views had about the same size (within four times)."""
        plans = self.request.plans
        sizes = tuple(rows.bit_length() // 2 for name, rows in sorted(self.sizes.items()) if name in statement)
        if (statement, sizes) not in plans:
            plans[statement, sizes] = self.request.plan(self.session, statement)
        return run(self.session, plans[statement, sizes])


def schema_of_answer(session: SparkSession, join: StreamJoin, schemas: tuple[StructType, ...]) -> Any:
    """Return the schema of the rows of an epoch, or the first line of Spark's error."""
    with TEMPORARY_VIEWS_LOCK:
        return _analyze_over_no_rows(session, join, schemas)


def _analyze_over_no_rows(session: SparkSession, join: StreamJoin, schemas: tuple[StructType, ...]) -> Any:
    from planner.runtime.batch import analyze

    made: list[str] = []
    statements = "".join((*join.blocks.steps, *join.blocks.answers))
    try:
        for number, side in enumerate(join.sides):
            rows = empty_rows(session, schemas[side.input])
            rows = rows.where(side.rows) if side.rows else rows
            rows = rows.selectExpr(*(f"{value} AS `{shown.replace('`', '``')}`" for shown, value in side.shown))
            for name in (view(version, number) for version in VERSIONS):
                if name in statements:
                    rows.createOrReplaceTempView(name)
                    made.append(name)
        wrong = [f for f in (analyze(session, step) for step in join.blocks.steps) if isinstance(f, str)]
        if wrong:
            return wrong[0]
        found = analyze(session, "\nUNION ALL\n".join(f"({b})" for b in join.blocks.answers))
        return found if isinstance(found, str) else found[1]
    finally:
        for name in made:
            with suppress(Exception):
                session.catalog.dropTempView(name)
