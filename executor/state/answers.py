"""Computes the rows that an epoch returns for a join: its program over views of the segments that may match."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from dovetail.executor.session.batch import classic, run
from dovetail.executor.session.named_frames import run_over_frames
from dovetail.executor.session.temporary_views import TEMPORARY_VIEWS_LOCK, drop_view
from dovetail.executor.state.changes import first_duplicate_key, to_changes
from dovetail.executor.state.segments import Segments, empty_rows
from dovetail.executor.state.sinks import Output
from dovetail.planner.errors import StateError
from dovetail.planner.state.compaction import reachable
from dovetail.planner.state.manifest import Segment, marks_of
from dovetail.planner.state.program import Read, Step, Version
from dovetail.planner.state.segment_pruning import prune_segments
from dovetail.planner.state.spec import StreamJoin

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
        epoch = _Epoch(self, session, segments, rows)
        if self.join.delta and self.join.delta.unique:
            epoch.check_keys(self.join.delta.unique)
        frames = [*epoch.returned()]
        answer = reduce(DataFrame.unionAll, frames) if frames else empty_rows(session, self.schema)
        return to_changes(answer, self.join.changes) if self.join.changes else answer


class _Epoch:
    """The program of one join in one epoch; ``views`` are those made of segments, and ``computed`` those of steps."""

    def __init__(self, request: JoinRequest, session: SparkSession, segments: Segments, rows: Rows):
        self.request, self.session, self.segments, self.rows = request, session, segments, rows
        self.join = request.join
        self.new = [rows.new[side.input] for side in self.join.sides]
        self.old = [rows.before[side.input] for side in self.join.sides]
        self.views: dict[Read, tuple[tuple[Segment, ...], str]] = {}
        self.computed: set[Read] = set()
        self.sizes: dict[Read, int] = {}
        self.frames: dict[str, DataFrame] = {}

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

    def returned(self) -> Iterator[DataFrame]:
        """Run the steps whose versions have rows, and return the rows of the query."""
        for step in self.join.program.steps:
            if not self._make_views(step):
                continue
            rows = self._run_statement(step)
            if step.into is None:
                yield rows
            else:
                self._compute(step.into, rows)

    def _make_views(self, step: Step) -> bool:
        """Make the views that a step reads; False if it returns no rows, since one that it requires has none."""
        if step.start is not None and not self.new[step.start]:
            return False
        required = step.flow.required
        return all(self._make_view(read, step) or read not in required for read in step.flow.reads)

    def _make_view(self, read: Read, step: Step) -> bool:
        """Make a view that a step reads, unless an earlier one has made the same; False if it has no rows."""
        match read.version:
            case Version.FINAL:
                return self._final(read)
            case Version.MATCHED | Version.FIRST | Version.UNMATCHED:
                return read in self.computed
        segments, which = self._segments(read, step)
        if self.views.get(read) != (segments, which):
            rows = self.segments.side(self.session, self.join.sides[read.side], segments, which)
            self._name(read, rows)
            self.views[read] = segments, which
        self.sizes[read] = sum(s.rows for s in segments)
        return bool(segments)

    def _segments(self, read: Read, step: Step) -> tuple[tuple[Segment, ...], str]:
        """Return the segments of a version, and a condition on their rows; those that new rows of a step may match."""
        side, start = read.side, step.start
        old = self.old[side] if read.version in (Version.BEFORE, Version.ALL) else ()
        new = self.new[side] if read.version in (Version.NEW, Version.ALL) else ()
        if start in (None, side):
            return (*old, *new), ""
        marks = marks_of(self.new[start])
        reaches = [r for r in self.join.reaches if {r.small[0], r.large[0]} == {start, side}]
        found = reachable((*old, *new), side, marks, reaches)
        return found, prune_segments(self.join.inputs[self.join.sides[side].input], found, side, marks, reaches)

    def _final(self, read: Read) -> bool:
        """Make a view of the rows of a side that became final in this epoch; False if there may be none."""
        side, now, then = read.side, self.rows.now, self.rows.then
        if now is None:
            return False
        position, relation = self.join.finals[side], self.join.sides[side]
        final = []
        if self.old[side] and now != then:
            reached = f"{position} <= {now * 1000}" + ("" if then is None else f" AND {position} > {then * 1000}")
            final.append(self.segments.side(self.session, relation, self.old[side], reached))
        if self.new[side]:
            final.append(self.segments.side(self.session, relation, self.new[side], f"{position} <= {now * 1000}"))
        if not final:
            return False
        self._compute(read, reduce(DataFrame.unionAll, final))
        self.sizes[read] = sum(s.rows for s in (*self.old[side], *self.new[side]))
        return True

    def _compute(self, read: Read, rows: DataFrame) -> None:
        """Make a view of rows that were computed."""
        self._name(read, rows)
        self.computed.add(read)

    def _name(self, read: Read, rows: DataFrame) -> None:
        """Give rows the name by which statements read them."""
        rows.createOrReplaceTempView(read.view)
        self.frames[read.view] = rows

    def _run_statement(self, step: Step) -> DataFrame:
        """Run a statement with the plan that was made when its views had about the same size (within four times)."""
        plans = self.request.plans
        sizes = tuple(self.sizes[read].bit_length() // 2 for read in step.flow.reads if read in self.sizes)
        if (step.sql, sizes) not in plans:
            plans[step.sql, sizes] = self.request.plan(self.session, step.sql)
        if classic(self.session):
            return run(self.session, plans[step.sql, sizes])
        # Spark Connect reads a view when its DataFrame runs, and by then a later step may have replaced it.
        return run_over_frames(self.session, plans[step.sql, sizes], None, self.frames)


def schema_of_answer(session: SparkSession, join: StreamJoin, schemas: tuple[StructType, ...]) -> Any:
    """Return the schema of the rows of an epoch, or the first line of Spark's error."""
    with TEMPORARY_VIEWS_LOCK:
        return _analyze_over_no_rows(session, join, schemas)


def _analyze_over_no_rows(session: SparkSession, join: StreamJoin, schemas: tuple[StructType, ...]) -> Any:
    from dovetail.executor.session.requests import analyze

    made: list[str] = []
    steps = join.program.steps
    try:
        for number, side in enumerate(join.sides):
            rows = empty_rows(session, schemas[side.input])
            rows = rows.where(side.rows) if side.rows else rows
            rows = rows.selectExpr(*(f"{value} AS `{shown.replace('`', '``')}`" for shown, value in side.shown))
            for name in {r.view for step in steps for r in step.flow.reads if r.side == number}:
                rows.createOrReplaceTempView(name)
                made.append(name)
        wrong = [f for f in (analyze(session, step.sql) for step in steps if step.into) if isinstance(f, str)]
        if wrong:
            return wrong[0]
        found = analyze(session, "\nUNION ALL\n".join(f"({step.sql})" for step in join.program.returned))
        return found if isinstance(found, str) else found[1]
    finally:
        for name in made:
            with suppress(Exception):
                drop_view(session, name)
