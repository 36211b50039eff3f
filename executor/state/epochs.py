"""Runs a join of streams as one streaming query: each micro-batch of Spark is an epoch.

    1  segments   the rows that arrived, without late ones, become segments           one job
    2  answer     the statement over new rows, earlier rows, and both                 one job, planned like any other
    3  sink       its rows, in place of those of an earlier attempt
    4  compaction expired segments are dropped; mostly expired or small ones are merged
    5  manifest   the state after the epoch, written in one step

If several views share a state, steps 2 and 3 run for each view in turn; the others run once for all.

An epoch that is interrupted before the fifth step runs again from the state before it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from time import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from dovetail.executor.session.batch import classic, run
from dovetail.executor.state.answers import JoinRequest, Rows
from dovetail.executor.state.micro_batch import only_start, with_short_errors
from dovetail.executor.state.query import StateQuery
from dovetail.executor.state.segments import Delta, Segments, settings, sides_with_watermark, tagged_query
from dovetail.executor.state.store import Store
from dovetail.planner.errors import plural
from dovetail.planner.state.compaction import expired, to_rewrite
from dovetail.planner.state.manifest import Change, Manifest
from dovetail.planner.state.progress import EpochProgress, StepTimes
from dovetail.planner.state.sink import trigger_of
from dovetail.planner.state.spec import StreamJoin
from dovetail.planner.state.time import side_time, watermark

_LOG = logging.getLogger("dovetail.stream")
_READ_TASKS, _TASKS_OF_CORE = "spark.sql.files.minPartitionNum", 4
_SPREAD_ROWS, _LARGER_STATE = 200_000, 8
_NEVER = (2**63 - 1) // 1000  # milliseconds: a watermark that has passed all times


@dataclass
class Epochs:
    """The epochs of one streaming query: ``join`` describes the stored inputs, ``requests`` the joins over them.

    ``ttl`` is in seconds.  ``progress``: the state after the last epochs.  ``for_view``: a view over all rows stores
    them all, so that a state that grows without bound is no reason for a warning.  ``run``: the token of this
    run, from its first epoch on.
    """

    join: StreamJoin
    requests: tuple[JoinRequest, ...]
    store: Store
    segments: Segments
    policy: str
    progress: EpochProgress
    ttl: float | None = None
    for_view: bool = False
    first: bool = True
    warned: int = 0
    run: str = ""

    def __call__(self, batch: DataFrame, epoch: int) -> None:
        """Run an epoch.  Raises ``StateError`` if another run of a query has taken the state over."""
        if not self.run:
            self.run = self.store.claim()
        self.store.check_owner(self.run)
        try:
            self._run(batch, epoch)
        except Exception:
            self.store.check_owner(self.run)  # the other run may have removed files of this one
            raise

    def _run(self, batch: DataFrame, epoch: int) -> None:
        session, clock, steps = batch.sparkSession, int(time() * 1000), StepTimes()
        before = self.store.before(epoch, len(self.join.inputs))
        if self.first:
            self.store.check(before)
        self.store.clean(before, all_of_it=self.first)
        with settings(session, epoch_settings(session)):
            delta = self.segments.write(batch, epoch, before.watermark, clock)
            steps.end("segments")
            times, now = self._times(before, delta)
            there = tuple(i.segments for i in before.inputs)
            new = tuple((arrived.segment,) if arrived.segment else () for arrived in delta.inputs)
            rows = Rows(epoch, there, new, before.watermark, now)
            with settings(session, join_settings(rows)):
                for request in self.requests:
                    read = rows if request.name in ("", *before.answered) else rows.all_new()
                    request.output.write(request.answer(session, self.segments, read), epoch, again=self.first)
            steps.end("answer")
            answered = tuple(request.name for request in self.requests if request.name)
            after = self._after(session, before, delta, Manifest(epoch, (), times, now, answered=answered), clock)
        steps.end("compaction")
        self.store.check_owner(self.run)
        self.store.commit(after)
        steps.end("manifest")
        added = [arrived.segment.rows if arrived.segment else 0 for arrived in delta.inputs]
        self.progress.add(before, after, added, steps)
        self.first = False
        sizes = self._describe_sizes(after, range(len(after.inputs)))
        _LOG.info("epoch %s in %s: state of %s", epoch, steps, sizes)
        self._warn(before, after)

    def close(self, session: SparkSession) -> None:
        """Return the rows that are final once no more rows arrive, as an epoch after the last."""
        epochs = self.store.epochs()
        if not epochs:
            return
        last = self.store.manifest(epochs[-1])
        before = tuple(i.segments for i in last.inputs)
        rows = Rows(last.epoch + 1, before, ((),) * len(before), last.watermark, _NEVER)
        for request in self.requests:
            request.output.write(request.answer(session, self.segments, rows), rows.epoch, again=True)

    def catch_up(self, session: SparkSession) -> None:
        """Let joins that are new on a state return its rows, if no epoch has run that did so."""
        epochs = self.store.epochs()
        last = self.store.manifest(epochs[-1]) if epochs else None
        if not last or all(request.name in last.answered for request in self.requests):
            return
        there = tuple(i.segments for i in last.inputs)
        rows = Rows(last.epoch, ((),) * len(there), there)
        behind = [request for request in self.requests if request.name not in last.answered]
        for request in behind:
            request.output.write(request.answer(session, self.segments, rows), last.epoch, again=True)
        self.store.commit(replace(last, answered=(*last.answered, *(request.name for request in behind))))

    def _describe_sizes(self, state: Manifest, inputs: Iterable[int]) -> str:
        sizes = ((self.join.inputs[n].name, state.inputs[n]) for n in inputs)
        return ", ".join(f"{name}: {plural(size.rows, 'row')}, {size.bytes:,} bytes" for name, size in sizes)

    def _warn(self, before: Manifest, after: Manifest) -> None:
        """Warn of a state that grows without bound: after the first epoch, and whenever it has doubled.

        Changelogs delete rows themselves.  For a view the message comes once, and is no warning.
        """
        lasting = self.join.lasting if self.ttl is None and not self.join.changes else ()
        rows = sum(after.inputs[n].rows for n in lasting)
        if not rows or rows < 2 * self.warned or (self.for_view and self.warned):
            return
        self.warned = rows
        names = " and ".join(self.join.inputs[n].name for n in lasting)
        if self.for_view:
            _LOG.info(
                "no row of %s ever leaves the state, which has %s; a view over all rows needs them. A watermark on the "
                "other side's time and a band on it would bound it",
                names,
                self._describe_sizes(after, lasting),
            )
            return
        _LOG.warning(
            "no row of %s ever leaves the state, which has %s, %s rows of them from epoch %s; a watermark on the other "
            "side's time and a band on it would bound it, and so would state_ttl=seconds of opt.stream",
            names,
            self._describe_sizes(after, lasting),
            f"{rows - sum(before.inputs[n].rows for n in lasting):,}",
            after.epoch,
        )

    def _times(self, before: Manifest, delta: Delta) -> tuple[tuple[int | None, ...], int | None]:
        """Compute the watermarks after the epoch: of each side, and of the query."""
        join = self.join
        delays = [join.inputs[side.input].delay for side in join.sides]
        then = before.times if sides_with_watermark(join) and before.times else (None,) * len(join.sides)
        times = tuple(side_time(t, d, delay) for t, d, delay in zip(then, delta.times, delays, strict=True))
        known = [times[n] for n in sides_with_watermark(join)]
        return times, watermark(before.watermark or 0, known, self.policy) if known else None

    def _after(self, session: SparkSession, before: Manifest, delta: Delta, after: Manifest, clock: int) -> Manifest:
        """Compute the state after the epoch; ``after`` has its number and its watermarks."""
        change = Change(list(before.inputs))
        if not any(arrived.segment for arrived in delta.inputs):
            change.obsolete.append(delta.folder)
        oldest = None if self.ttl is None else clock - int(self.ttl * 1000)
        for number, arrived in enumerate(delta.inputs):
            change.add(number, arrived.segment, read=arrived.read, late=arrived.late)
            if old := expired(change.inputs[number].segments, after.watermark, oldest):
                change.put(number, old)
            versions = bool(self.join.inputs[number].key)
            if old := to_rewrite(change.inputs[number].segments, after.watermark, versions=versions):
                change.put(number, old, self.segments.merge(session, number, old, after.epoch, after.watermark))
        return replace(after, inputs=tuple(change.inputs), obsolete=tuple(change.obsolete))


def epoch_settings(session: SparkSession) -> dict[str, str]:
    """Return the settings of an epoch; each of its few files is a task, since one may have most matches."""
    adaptive = {"spark.sql.adaptive.enabled": "true"}
    if not classic(session):
        return adaptive
    return adaptive | {_READ_TASKS: str(_TASKS_OF_CORE * session.sparkContext.defaultParallelism)}


def join_settings(rows: Rows) -> dict[str, str]:
    """Return the settings of an epoch's joins: no broadcast of many rows, which the driver alone would hash.

    Spark goes by the bytes of files, and 500,000 rows have few.  A state that is far larger than the new rows is not
    shuffled for that.
    """
    new, before = ([sum(s.rows for s in segments) for segments in state] for state in (rows.new, rows.before))
    spread = min(new) >= _SPREAD_ROWS and sum(before) <= _LARGER_STATE * sum(new)
    return {"spark.sql.autoBroadcastJoinThreshold": "-1"} if spread else {}


def start_epochs(
    session: SparkSession, epochs: Epochs, checkpoint: str | Path, trigger: str | None, name: str | None
) -> StreamingQuery:
    """Start the streaming query.  Raises what Spark raises."""
    stream = run(session, tagged_query(epochs.join))
    writer = stream.writeStream.option("checkpointLocation", str(checkpoint))
    if name is not None:
        writer = writer.queryName(name)
    if when := trigger_of(trigger):
        writer = writer.trigger(**when)
    if not classic(session):
        return writer.foreachBatch(epochs).start()
    with only_start(checkpoint):
        return StateQuery(writer.foreachBatch(with_short_errors(epochs)).start(), epochs.progress)
