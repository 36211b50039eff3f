"""``dovetail stream``: a query over folders in which files arrive, and a live line of how far it is."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.live import Live
from rich.text import Text

from optimizer.commands import say
from optimizer.commands.inputs import Job, Table, read_pairs, read_tables
from optimizer.commands.work import optimizer_for, read_table
from planner.errors import InputError
from planner.state.progress import of_arrangements
from planner.state.sink import Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


_LOOK = 1  # seconds between two looks at a running query


@dataclass(frozen=True)
class Streamed:
    """A folder as a stream: its files, its schema if it is given, and its watermark as (column, delay)."""

    table: Table
    schema: str | None
    watermark: tuple[str, str] | None


@dataclass(frozen=True)
class StreamJob:
    """A query over streams, where it keeps its state, where its rows go, and how it runs."""

    job: Job
    streams: tuple[Streamed, ...]
    checkpoint: str
    out: str
    format: str
    trigger: str | None
    files: int | None
    state_modules: bool | None
    state_ttl: float | None
    bins: bool | None


def read_streams(
    streams: Sequence[str], schemas: Sequence[str], watermarks: Sequence[str], *, here: bool
) -> tuple[Streamed, ...]:
    """The streams of ``--stream``, with what ``--schema`` and ``--watermark`` say of them.  Raises ``InputError``."""
    if not streams:
        raise InputError("--stream NAME=FOLDER/ is missing; without a stream, take `dovetail run`")
    tables = read_tables(streams, here=here, option="--stream")
    names = {table.name for table in tables}
    types = read_pairs("--schema", schemas)
    delays: dict[str, tuple[str, str]] = {}
    for place, delay in read_pairs("--watermark", watermarks).items():
        name, dot, column = place.partition(".")
        if not (dot and column):
            raise InputError(f"--watermark wants NAME.COLUMN='1 minute', not {place!r}")
        if name in delays:
            raise InputError(f"--watermark {place}: {name} has one already, on {delays[name][0]}")
        delays[name] = (column, delay.strip("'\""))
    for option, given in (("--schema", types), ("--watermark", delays)):
        if odd := next((name for name in given if name not in names), None):
            raise InputError(f"{option} {odd}: there is no --stream {odd}; the streams are {', '.join(sorted(names))}")
    return tuple(Streamed(t, types.get(t.name), delays.get(t.name)) for t in tables)


def run_stream(told: StreamJob) -> None:
    """Run a query until all is taken, or until Ctrl-C, with a live line.  Raises what Spark raises."""
    with optimizer_for(told.job) as opt:
        with say.status("looking at the streams"):
            for stream in told.streams:
                view(opt.session, stream, told.files)
            plan = opt.stream_plan(told.job.text, state_modules=told.state_modules, bins=told.bins)
        if plan.join or plan.reason:
            say.remark(plan.explain())
        query = opt.stream(
            told.job.text,
            checkpoint=told.checkpoint,
            sink=Sink(told.format, told.out),
            trigger=told.trigger,
            state_modules=told.state_modules,
            state_ttl=told.state_ttl,
            bins=told.bins,
        )
        try:
            _follow(query)
        except KeyboardInterrupt:
            query.stop()
            say.remark("stopped; the same command goes on from the checkpoint")


def view(session: SparkSession, stream: Streamed, files: int | None) -> None:
    """Give a folder its name as a stream, of at most so many files in an epoch.  Raises ``InputError``."""
    table = stream.table
    schema: Any = stream.schema
    if schema is None and table.format == "json":  # Spark reads times in JSON as text unless asked
        schema = session.read.option("inferTimestamp", "true").json(table.path).schema
    elif schema is None:
        schema = read_table(session, table).schema
    reader = session.readStream.schema(schema).format(table.format)
    if table.format == "csv":
        reader = reader.option("header", "true")
    if files is not None:
        reader = reader.option("maxFilesPerTrigger", files)
    rows = reader.load(table.path)
    if stream.watermark:
        column, delay = stream.watermark
        types = {f.name.lower(): f.dataType.simpleString() for f in rows.schema.fields}
        found = types.get(column.lower())
        if found not in ("timestamp", "timestamp_ntz"):
            said = f"there is no column {column}" if found is None else f"{column} is {found}"
            raise InputError(
                f"--watermark {table.name}.{column}: {said}, and a watermark needs a time; the columns are "
                f"{', '.join(f'{n} {t}' for n, t in types.items())} (--schema says others)"
            )
        rows = rows.withWatermark(column, delay)
    rows.createOrReplaceTempView(table.name)


def _follow(query: StreamingQuery) -> None:
    """Show how far a query is until it ends.  Raises what ended it."""
    rows, last = 0, -1
    with _line() as show:
        ended = False
        while not ended:
            ended = bool(query.awaitTermination(_LOOK))
            for progress in query.recentProgress:
                if progress["batchId"] <= last:
                    continue
                last = progress["batchId"]
                rows += progress["numInputRows"]
                show(line(progress, rows))
    done = "1 epoch is" if last == 0 else f"{last + 1:,} epochs are"
    say.remark(f"{done} done; the same command goes on with what comes")


def line(progress: Any, rows: int) -> str:
    """How far a query is: its epoch, rows of this run, rows a second, how old the newest row is, what is kept."""
    said = [f"epoch {progress['batchId']}", f"{rows:,} rows"]
    took = progress["durationMs"].get("triggerExecution", 0)
    if took:
        said.append(f"{progress['numInputRows'] * 1000 / took:,.0f} rows/s")
    newest = progress["eventTime"].get("max")
    if newest:
        lag = datetime.now(UTC) - datetime.fromisoformat(newest)
        said.append(f"lag {say.seconds(max(0.0, lag.total_seconds()))}")
    if state := _state(progress["stateOperators"]):
        said.append(f"state {state}")
    return "   ".join(said)


def _state(operators: Sequence[Any]) -> str:
    """What is kept after an epoch; nothing where nothing is."""
    rows = sum(o["numRowsTotal"] for o in operators)
    if not of_arrangements(operators):
        return f"{rows:,} rows in Spark's store" if operators else ""
    own = [o["customMetrics"] for o in operators]
    late = sum(o["rowsLateInAll"] for o in own)
    return f"{rows:,} rows, {sum(o['bytes'] for o in own):,} bytes{f', {late:,} late' if late else ''}"


@contextmanager
def _line() -> Iterator[Any]:
    """Something that shows a line in the place of the one before; a line each where nobody looks."""
    if not sys.stderr.isatty():
        yield say.remark
        return
    with Live(console=say.err(), refresh_per_second=4) as live:
        yield lambda text: live.update(Text(re.sub(r"\s*\n\s*", " ", text), style="dim"))
