"""``dovetail stream``: runs a query over folders in which files arrive, with a live progress line."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.live import Live
from rich.text import Text

from dovetail.optimizer import terminal
from dovetail.optimizer.commands.inputs import Job, Table, read_pairs, read_tables
from dovetail.optimizer.commands.work import optimizer_for, read_table
from dovetail.optimizer.failures import located
from dovetail.planner.errors import InputError, plural
from dovetail.planner.state.progress import of_arrangements
from dovetail.planner.state.sink import Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


_LOOK = 1  # seconds between two looks at a running query


@dataclass(frozen=True)
class Streamed:
    """A folder as a stream: its files, its schema if it is given, and its watermark as (column, delay)."""

    table: Table
    schema: str | None
    watermark: tuple[str, str] | None


def read_streams(
    streams: Sequence[str], schemas: Sequence[str], watermarks: Sequence[str], *, here: bool
) -> tuple[Streamed, ...]:
    """Return the streams of ``--stream``, with their ``--schema`` and ``--watermark``.  Raises ``InputError``."""
    if not streams:
        raise InputError("--stream NAME=FOLDER/ is missing; without a stream, take `dovetail run`")
    tables = read_tables(streams, here=here, option="--stream")
    names = {table.name for table in tables}
    types = read_pairs("--schema", schemas)
    delays: dict[str, tuple[str, str]] = {}
    for place, delay in read_pairs("--watermark", watermarks).items():
        name, dot, column = place.partition(".")
        if not (dot and column):
            raise InputError(f"--watermark wants NAME.COLUMN='1 minute', not {f'{place}={delay}'!r}")
        if name in delays:
            raise InputError(f"--watermark {place}: {name} has one already, on {delays[name][0]}")
        delays[name] = (column, delay.strip("'\""))
    for option, given in (("--schema", types), ("--watermark", delays)):
        if odd := next((name for name in given if name not in names), None):
            raise InputError(f"{option} {odd}: there is no --stream {odd}; the streams are {', '.join(sorted(names))}")
    return tuple(Streamed(t, types.get(t.name), delays.get(t.name)) for t in tables)


def run_stream(
    job: Job,
    streams: tuple[Streamed, ...],
    sink: Sink,
    *,
    checkpoint: str,
    trigger: str | None,
    files: int | None,
    state_modules: bool | None,
    state_ttl: float | None,
    bins: bool | None,
) -> None:
    """Run a query until all is taken, or until Ctrl-C, with a live line.  Raises what Spark raises."""
    with optimizer_for(job) as opt:
        with terminal.show_status("looking at the streams"):
            for stream in streams:
                create_view(opt.session, stream, files)
            plan = opt.stream_plan(job.text, state_modules=state_modules, bins=bins)
        if plan.join or plan.reason:
            terminal.print_note(plan.explain())
        query = opt.stream(
            job.text,
            checkpoint=checkpoint,
            sink=sink,
            trigger=trigger,
            state_modules=state_modules,
            state_ttl=state_ttl,
            bins=bins,
        )
        try:
            _follow(query)
        except KeyboardInterrupt:
            query.stop()
            terminal.print_note("stopped; the same command goes on from the checkpoint")


def create_view(session: SparkSession, stream: Streamed, files: int | None) -> None:
    """Give a folder its name as a stream, of at most so many files in an epoch.  Raises ``InputError``."""
    with located(f"--stream {stream.table.name}={stream.table.path}"):
        rows = _read_stream(session, stream, files)
        if stream.watermark:
            rows = _with_watermark(rows, stream.table.name, *stream.watermark)
        rows.createOrReplaceTempView(stream.table.name)


def _read_stream(session: SparkSession, stream: Streamed, files: int | None) -> DataFrame:
    table = stream.table
    schema: Any = stream.schema
    if schema is None:  # without this option Spark reads times in JSON as text
        options = {"inferTimestamp": True} if table.format == "json" else {}
        schema = read_table(session, table, **options).schema
    with located(f"--schema {table.name}={stream.schema}"):
        reader = session.readStream.schema(schema).format(table.format)
    if table.format == "csv":
        reader = reader.option("header", "true")
    if not table.lines:
        reader = reader.option("multiLine", "true")
    if files is not None:
        reader = reader.option("maxFilesPerTrigger", files)
    there = "://" not in table.path and Path(table.path).exists()
    return reader.load(str(Path(table.path).absolute()) if there else table.path)


def _with_watermark(rows: DataFrame, name: str, column: str, delay: str) -> DataFrame:
    types = {f.name.lower(): f.dataType.simpleString() for f in rows.schema.fields}
    found = types.get(column.lower())
    if found not in ("timestamp", "timestamp_ntz"):
        problem = f"there is no column {column}" if found is None else f"{column} is {found}"
        raise InputError(
            f"--watermark {name}.{column}: {problem}, and a watermark needs a time; the columns are "
            f"{', '.join(f'{n} {t}' for n, t in types.items())} (--schema has other columns)"
        )
    with located(f"--watermark {name}.{column}={delay}"):
        return rows.withWatermark(column, delay)


def _follow(query: StreamingQuery) -> None:
    """Show how far a query is until it ends.  Raises what ended it."""
    rows, last = 0, -1
    with _line() as show:
        show("the query runs; its line of progress follows when the first epoch ends")
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
    terminal.print_note(f"{done} done; run the same command to continue with new rows")


def line(progress: Any, rows: int) -> str:
    """How far a query is: its epoch, rows of this run, rows a second, how old the newest row is, what is kept."""
    parts = [f"epoch {progress['batchId']}", plural(rows, "row")]
    took = progress["durationMs"].get("triggerExecution", 0)
    if took:
        parts.append(f"{progress['numInputRows'] * 1000 / took:,.0f} rows/s")
    newest = progress["eventTime"].get("max")
    if newest:
        lag = datetime.now(timezone.utc) - datetime.strptime(newest, "%Y-%m-%dT%H:%M:%S.%f%z")
        parts.append(f"lag {terminal.format_seconds(max(0.0, lag.total_seconds()))}")
    if state := _state(progress["stateOperators"]):
        parts.append(f"state {state}")
    return "   ".join(parts)


def _state(operators: Sequence[Any]) -> str:
    """What is kept after an epoch; nothing where nothing is."""
    rows = sum(o["numRowsTotal"] for o in operators)
    if not of_arrangements(operators):
        return f"{plural(rows, 'row')} in Spark's store" if operators else ""
    metrics = [o["customMetrics"] for o in operators]
    late = sum(o["rowsLateInAll"] for o in metrics)
    return f"{plural(rows, 'row')}, {sum(o['bytes'] for o in metrics):,} bytes{f', {late:,} late' if late else ''}"


@contextmanager
def _line() -> Iterator[Any]:
    """Something that shows a line in the place of the one before; a line each where nobody looks."""
    if not sys.stderr.isatty():
        yield terminal.print_note
        return
    with Live(console=terminal.stderr_console(), refresh_per_second=4) as live:
        yield lambda text: live.update(Text(re.sub(r"\s*\n\s*", " ", text), style="dim"))
