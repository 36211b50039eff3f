"""A join of streams as one streaming query: what Spark hands over as a micro-batch is an epoch.

    1  segments   the rows that arrived, without late ones, become segments           one job
    2  answer     the statement over what is new, what was there before, and both     one job, planned like any other
    3  sink       its rows, in place of those of an earlier try
    4  upkeep     segments that have had their time are dropped, mostly expired or small ones written as one
    5  manifest   the state after the epoch, written in one step

Whatever is interrupted before the fifth step is done again from the state before the epoch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from time import time
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from planner.errors import StateError
from planner.runtime.batch import run
from planner.runtime.own_views import OWN_VIEWS
from planner.runtime.state.changes import as_changes, first_of_two
from planner.runtime.state.query import StateQuery
from planner.runtime.state.segments import Arrived, Delta, Segments, empty, rows_of, setting, tagged
from planner.runtime.state.sinks import Output
from planner.state.delta import version_of
from planner.state.manifest import Change, Manifest, Segment
from planner.state.progress import Told
from planner.state.sink import trigger_of
from planner.state.spec import VERSIONS, StreamJoin, view
from planner.state.store import Store
from planner.state.time import side_time, watermark
from planner.state.upkeep import expired, reachable, to_rewrite
from planner.state.within import within

_LOG = logging.getLogger("dovetail")
_NEVER = (2**63 - 1) // 1000  # milliseconds: a watermark that has passed all times

Planned = Callable[[SparkSession, str], str]


@dataclass
class Epochs:
    """The epochs of one query.  ``plan`` says as what a statement runs on a session; ``ttl`` is in seconds.

    ``told``: what the last epochs left in the state.  ``plans``: what ``plan`` said, by the statement and the size of
    what the statement reads.
    """

    join: StreamJoin
    store: Store
    segments: Segments
    output: Output
    plan: Planned
    schema: StructType
    ttl: float | None
    policy: str
    told: Told
    first: bool = True
    warned: int = 0
    plans: dict[tuple[str, tuple[int, ...]], str] = field(default_factory=dict)

    def __call__(self, batch: DataFrame, epoch: int) -> None:
        """Run an epoch."""
        session, clock = batch.sparkSession, int(time() * 1000)
        before = self.store.before(epoch, len(self.join.inputs))
        if self.first:
            self.store.check(before)
        self.store.clean(before, all_of_it=self.first)
        with setting(session, "spark.sql.adaptive.enabled", "true"):
            delta = self.segments.write(batch, epoch, before.watermark, clock)
            times, now = self._times(before, delta)
            if self.join.delta and self.join.delta.unique:
                self._check_keys(session, before, delta, self.join.delta.unique)
            answer = self.answer(session, before, delta, now)
            if self.join.changes:
                answer = as_changes(answer, self.join.changes)
            self.output.write(answer, epoch, again=self.first)
            after = self._after(session, before, delta, Manifest(epoch, (), times, now), clock)
        self.store.commit(after)
        self.told.add(before, after, [arrived.segment.rows if arrived.segment else 0 for arrived in delta.inputs])
        self.first = False
        _LOG.info("epoch %s: state of %s", epoch, self._kept(after, range(len(after.inputs))))
        self._warn(before, after)

    def _check_keys(
        self, session: SparkSession, before: Manifest, delta: Delta, keys: tuple[tuple[int, tuple[str, ...]], ...]
    ) -> None:
        """Raise ``StateError`` where two rows of an input agree in a key that is said to tell them apart."""
        for side, key in keys:
            number = self.join.sides[side].input
            new, name = delta.inputs[number].segment, self.join.inputs[number].name
            if new is None:
                continue
            rows = self.segments.side(session, side, (*before.inputs[number].segments, new))
            twice = first_of_two(rows, self.segments.side(session, side, (new,)), key)
            if twice is not None:
                values, epoch = ", ".join(map(str, twice)), before.epoch + 1
                raise StateError(
                    f"two rows of {name} have {', '.join(key)} = {values} in epoch {epoch}, and a left join was told "
                    "that there is one at most; a row must go before the end of the epoch in which its key comes again"
                )

    def close(self, session: SparkSession) -> None:
        """Return what would be returned once no row arrives any more, as an epoch after the last."""
        epochs = self.store.epochs()
        if not epochs:
            return
        before = self.store.manifest(epochs[-1])
        nothing = Delta((Arrived(0, 0, None),) * len(before.inputs), ())
        self.output.write(self.answer(session, before, nothing, _NEVER), before.epoch + 1, again=True)

    def answer(self, session: SparkSession, before: Manifest, delta: Delta, now: int | None) -> DataFrame:
        """The rows of the epoch; ``now`` is the watermark after it."""
        half = _Halves(self, session, before, delta)
        blocks = self.join.blocks
        frames = [*half.pairs()] if not blocks.again else [*half.first_matches()]
        if now is not None:
            frames += [found for side, lone in enumerate(blocks.lone) if lone for found in half.lone(side, now)]
        return reduce(DataFrame.unionAll, frames) if frames else empty(session, self.schema)

    def _kept(self, state: Manifest, inputs: Iterable[int]) -> str:
        told = ((self.join.inputs[n].name, state.inputs[n]) for n in inputs)
        return ", ".join(f"{name}: {kept.rows:,} rows, {kept.bytes:,} bytes" for name, kept in told)

    def _warn(self, before: Manifest, after: Manifest) -> None:
        """Warn of a state without end: after the first epoch, and whenever it has doubled.  A changelog has one."""
        lasting = self.join.lasting if self.ttl is None and not self.join.changes else ()
        rows = sum(after.inputs[n].rows for n in lasting)
        if not rows or rows < 2 * self.warned:
            return
        self.warned = rows
        _LOG.warning(
            "no row of %s ever leaves the state, which has %s, %s rows of them from epoch %s; a watermark on the other "
            "side's time and a band on it would bound it, and so would state_ttl=seconds of opt.stream",
            " and ".join(self.join.inputs[n].name for n in lasting),
            self._kept(after, lasting),
            f"{rows - sum(before.inputs[n].rows for n in lasting):,}",
            after.epoch,
        )

    def _times(self, before: Manifest, delta: Delta) -> tuple[tuple[int | None, ...], int | None]:
        """The watermarks after the epoch: of each side, and of the query."""
        join = self.join
        delays = [join.inputs[side.input].delay for side in join.sides]
        then = before.times or (None,) * len(join.sides)
        times = tuple(side_time(t, d, delay) for t, d, delay in zip(then, delta.times, delays, strict=True))
        timed = [t for t, side in zip(times, join.sides, strict=True) if join.inputs[side.input].event_time]
        return times, watermark(before.watermark or 0, timed, self.policy) if timed else None

    def _after(self, session: SparkSession, before: Manifest, delta: Delta, after: Manifest, clock: int) -> Manifest:
        """The state after the epoch, of which ``after`` tells the number and the time."""
        change = Change(list(before.inputs))
        if not any(arrived.segment for arrived in delta.inputs):
            change.obsolete.append(rows_of(after.epoch))
        oldest = None if self.ttl is None else clock - int(self.ttl * 1000)
        for number, arrived in enumerate(delta.inputs):
            change.add(number, arrived.segment, read=arrived.read, late=arrived.late)
            if gone := expired(change.inputs[number].segments, after.watermark, oldest):
                change.put(number, gone)
            versions = bool(self.join.inputs[number].key)
            if old := to_rewrite(change.inputs[number].segments, after.watermark, versions=versions):
                change.put(number, old, self.segments.merge(session, number, old, after.epoch, after.watermark))
        return replace(after, inputs=tuple(change.inputs), obsolete=tuple(change.obsolete))


class _Halves:
    """The statements of one epoch, each over views of the segments that it may need."""

    def __init__(self, epochs: Epochs, session: SparkSession, before: Manifest, delta: Delta):
        self.epochs, self.session, self.before = epochs, session, before
        self.join, self.segments = epochs.join, epochs.segments
        found = [delta.inputs[side.input].segment for side in self.join.sides]
        self.new: list[tuple[Segment, ...]] = [(s,) if s else () for s in found]
        self.old = [before.inputs[side.input].segments for side in self.join.sides]
        self.sizes: dict[str, int] = {}

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
        position, other, then = self.join.finals[side], 1 - side, self.before.watermark
        final = []
        if self.old[side] and now != then:
            reached = f"{position} <= {now * 1000}" + ("" if then is None else f" AND {position} > {then * 1000}")
            final.append(self.segments.side(self.session, side, self.old[side], reached))
        if self.new[side]:
            final.append(self.segments.side(self.session, side, self.new[side], f"{position} <= {now * 1000}"))
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
        (new,) = self.new[side]
        self._view("d", side, (new,))
        delta = self.join.delta
        lefts = {lookup.input for lookup in delta.paths[side].lookups if lookup.left} if delta else ()
        for other in range(len(self.join.sides)):
            if other == side:
                continue
            version = version_of(side, other)
            there = self.old[other] if version == "prev" else (*self.old[other], *self.new[other])
            reaches = [r for r in self.join.reaches if {r.small[0], r.large[0]} == {side, other}]
            found = reachable(there, other, new.marks, reaches)
            if not found:
                if other not in lefts:
                    return False
                self._view(version, other, ())
                continue
            state = self.join.inputs[self.join.sides[other].input]
            self._view(version, other, found, within(state, found, other, new.marks, reaches))
        return True

    def _view(self, version: str, side: int, segments: tuple[Segment, ...], which: str = "") -> None:
        name = view(version, side)
        self.segments.side(self.session, side, segments, which).createOrReplaceTempView(name)
        self.sizes[name] = sum(s.rows for s in segments)

    def _ask(self, statement: str) -> DataFrame:
        """The rows of a statement, by the plan that it had when its views were about as large: within four times."""
        plans = self.epochs.plans
        sizes = tuple(rows.bit_length() // 2 for name, rows in sorted(self.sizes.items()) if name in statement)
        if (statement, sizes) not in plans:
            plans[statement, sizes] = self.epochs.plan(self.session, statement)
        return run(self.session, plans[statement, sizes])


def start_epochs(
    session: SparkSession, epochs: Epochs, checkpoint: str | Path, trigger: str | None, name: str | None
) -> StreamingQuery:
    """Start the streaming query.  Raises what Spark raises."""
    stream = run(session, tagged(epochs.join))
    writer = stream.writeStream.option("checkpointLocation", str(checkpoint))
    if name is not None:
        writer = writer.queryName(name)
    if when := trigger_of(trigger):
        writer = writer.trigger(**when)
    return StateQuery(writer.foreachBatch(epochs).start(), epochs.told)


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
