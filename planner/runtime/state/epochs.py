"""A join of streams as one streaming query: what Spark hands over as a micro-batch is an epoch.

    1  segments   the rows that arrived, without late ones, become segments           one job
    2  answer     the statement over what is new, what was there before, and both     one job, planned like any other
    3  sink       its rows, in place of those of an earlier try
    4  upkeep     segments that have had their time are dropped, mostly expired or small ones written as one
    5  manifest   the state after the epoch, written in one step

Where several views share a state, steps 2 and 3 are done for each view in turn; the others are done once for all.

Whatever is interrupted before the fifth step is done again from the state before the epoch.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from time import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from planner.runtime.batch import run
from planner.runtime.state.answers import Asked, Rows
from planner.runtime.state.query import StateQuery
from planner.runtime.state.segments import Delta, Segments, rows_of, setting, tagged, timed
from planner.state.manifest import Change, Manifest
from planner.state.progress import Told
from planner.state.sink import trigger_of
from planner.state.spec import StreamJoin
from planner.state.store import Store
from planner.state.time import side_time, watermark
from planner.state.upkeep import expired, to_rewrite

_LOG = logging.getLogger("dovetail")
_NEVER = (2**63 - 1) // 1000  # milliseconds: a watermark that has passed all times


@dataclass
class Epochs:
    """The epochs of one streaming query.  ``join`` tells what is read and kept, and ``asked`` which joins of that.

    ``ttl`` is in seconds.  ``told``: what the last epochs left in the state.  ``of_a_view``: a view over all rows keeps
    them, so that a state without end is no reason for a warning.
    """

    join: StreamJoin
    asked: tuple[Asked, ...]
    store: Store
    segments: Segments
    ttl: float | None
    policy: str
    told: Told
    of_a_view: bool = False
    first: bool = True
    warned: int = 0

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
            there = tuple(i.segments for i in before.inputs)
            new = tuple((arrived.segment,) if arrived.segment else () for arrived in delta.inputs)
            rows = Rows(epoch, there, new, before.watermark, now)
            for one in self.asked:
                own = rows if one.name in ("", *before.answered) else rows.all_new()
                one.output.write(one.answer(session, self.segments, own), epoch, again=self.first)
            answered = tuple(one.name for one in self.asked if one.name)
            after = self._after(session, before, delta, Manifest(epoch, (), times, now, answered=answered), clock)
        self.store.commit(after)
        self.told.add(before, after, [arrived.segment.rows if arrived.segment else 0 for arrived in delta.inputs])
        self.first = False
        _LOG.info("epoch %s: state of %s", epoch, self._kept(after, range(len(after.inputs))))
        self._warn(before, after)

    def close(self, session: SparkSession) -> None:
        """Return what would be returned once no row arrives any more, as an epoch after the last."""
        epochs = self.store.epochs()
        if not epochs:
            return
        last = self.store.manifest(epochs[-1])
        before = tuple(i.segments for i in last.inputs)
        rows = Rows(last.epoch + 1, before, ((),) * len(before), last.watermark, _NEVER)
        for one in self.asked:
            one.output.write(one.answer(session, self.segments, rows), rows.epoch, again=True)

    def catch_up(self, session: SparkSession) -> None:
        """Let joins that are new on a state return what they find in it, where no epoch has come to do that."""
        epochs = self.store.epochs()
        last = self.store.manifest(epochs[-1]) if epochs else None
        if not last or all(one.name in last.answered for one in self.asked):
            return
        there = tuple(i.segments for i in last.inputs)
        rows = Rows(last.epoch, ((),) * len(there), there)
        late = [one for one in self.asked if one.name not in last.answered]
        for one in late:
            one.output.write(one.answer(session, self.segments, rows), last.epoch, again=True)
        self.store.commit(replace(last, answered=(*last.answered, *(one.name for one in late))))

    def _kept(self, state: Manifest, inputs: Iterable[int]) -> str:
        told = ((self.join.inputs[n].name, state.inputs[n]) for n in inputs)
        return ", ".join(f"{name}: {kept.rows:,} rows, {kept.bytes:,} bytes" for name, kept in told)

    def _warn(self, before: Manifest, after: Manifest) -> None:
        """Warn of a state without end: after the first epoch, and whenever it has doubled.  A changelog has one.

        Of a view it is said once, and is no warning.
        """
        lasting = self.join.lasting if self.ttl is None and not self.join.changes else ()
        rows = sum(after.inputs[n].rows for n in lasting)
        if not rows or rows < 2 * self.warned or (self.of_a_view and self.warned):
            return
        self.warned = rows
        names = " and ".join(self.join.inputs[n].name for n in lasting)
        if self.of_a_view:
            _LOG.info(
                "no row of %s ever leaves the state, which has %s; a view over all rows needs them. A watermark on the "
                "other side's time and a band on it would bound it",
                names,
                self._kept(after, lasting),
            )
            return
        _LOG.warning(
            "no row of %s ever leaves the state, which has %s, %s rows of them from epoch %s; a watermark on the other "
            "side's time and a band on it would bound it, and so would state_ttl=seconds of opt.stream",
            names,
            self._kept(after, lasting),
            f"{rows - sum(before.inputs[n].rows for n in lasting):,}",
            after.epoch,
        )

    def _times(self, before: Manifest, delta: Delta) -> tuple[tuple[int | None, ...], int | None]:
        """The watermarks after the epoch: of each side, and of the query."""
        join = self.join
        delays = [join.inputs[side.input].delay for side in join.sides]
        then = before.times if timed(join) and before.times else (None,) * len(join.sides)
        times = tuple(side_time(t, d, delay) for t, d, delay in zip(then, delta.times, delays, strict=True))
        known = [times[n] for n in timed(join)]
        return times, watermark(before.watermark or 0, known, self.policy) if known else None

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
