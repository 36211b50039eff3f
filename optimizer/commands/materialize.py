"""``dovetail materialize``: views over folders in which files arrive, refreshed and printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from json import dumps
from time import perf_counter, sleep
from typing import TYPE_CHECKING

import typer

from dovetail.optimizer.commands import terminal
from dovetail.optimizer.commands.failures import located
from dovetail.optimizer.commands.inputs import Job
from dovetail.optimizer.commands.streamed import Streamed, view
from dovetail.optimizer.commands.work import optimizer_for
from dovetail.planner.errors import InputError, one_of
from dovetail.planner.state.sink import Sink

if TYPE_CHECKING:
    from dovetail.optimizer import Optimizer
    from dovetail.optimizer.materialized_view import MaterializedView
    from dovetail.optimizer.materialized_views import MaterializedViews

_ROWS = 100  # of a view are printed, unless as JSON


@dataclass(frozen=True)
class MaterializeJob:
    """A query over streams as a view: its name, where it is kept, and how often it is refreshed (seconds).

    ``other_views`` are queries of other views on the same state, by name.
    """

    query: Job
    streams: tuple[Streamed, ...]
    changelogs: Mapping[str, str]
    name: str
    state: str
    out: str
    format: str
    every: float | None
    files: int | None
    verify: bool
    json: bool
    other_views: Mapping[str, str]


def run_materialize(job: MaterializeJob) -> bool:
    """Build or refresh the view and print it, once or until Ctrl-C; returns whether ``verify`` found no difference.

    Raises ``InputError``, and what ``Optimizer.materialize`` raises.
    """
    names = [stream.table.name for stream in job.streams]
    if odd := next((name for name in job.changelogs if name not in names), None):
        raise InputError(f"--changelog {odd}: there is no --stream {odd}; {one_of(names, odd)}")
    with optimizer_for(job.query) as opt:
        with terminal.show_status("looking at the streams"):
            for stream in job.streams:
                view(opt.session, stream, job.files)
            for name, column in job.changelogs.items():
                with located(f"--changelog {name}={column}"):
                    opt.declare_changelog(name, column, ())
        start = perf_counter()
        with terminal.show_status("finding the joined rows"):
            materialized = _materialize(opt, job)
        views = list(materialized.values()) if isinstance(materialized, Mapping) else [materialized]
        terminal.print_note(materialized.explain())
        _show(views, job, perf_counter() - start)
        try:
            while job.every is not None:
                sleep(job.every)
                start = perf_counter()
                materialized.refresh()
                _show(views, job, perf_counter() - start)
        except KeyboardInterrupt:
            terminal.print_note("stopped; run the same command to continue with new rows")
        return not job.verify or min(map(_verify, views))


def _materialize(opt: Optimizer, job: MaterializeJob) -> MaterializedView | MaterializedViews:
    """Materialize the view, or it and the views of ``--with``, each into its own folder."""
    if not job.other_views:
        sink = Sink(job.format, job.out) if job.out else None
        return opt.materialize(job.query.text, job.name, state=job.state, sink=sink)
    queries = {job.name: job.query.text, **job.other_views}
    sinks = {name: Sink(job.format, f"{job.out}/{name}") for name in queries} if job.out else {}
    return opt.materialize_all(queries, state=job.state, sinks=sinks)


def _show(views: list[MaterializedView], job: MaterializeJob, took: float) -> None:
    from dovetail.executor.session.rows import each_row, take_rows

    for view_ in views:
        table, named = view_.table(), len(views) > 1
        if job.json:
            for values in each_row(table):
                row = dict(zip(table.columns, values, strict=True))
                typer.echo(dumps({"view": view_.name, "row": row} if named else row, ensure_ascii=False))
            continue
        if named:
            terminal.stdout_console().print(f"\n{view_.name}", markup=False)
        rows = take_rows(table, _ROWS + 1)
        kinds = [(f.name, f.dataType.simpleString()) for f in table.schema]
        terminal.print_rows(kinds, rows[:_ROWS])
        if len(rows) > _ROWS:
            terminal.print_note(f"the first {_ROWS} rows; --json prints all")
    fresh = ", ".join(view_.name for view_ in views)
    terminal.print_note(f"{fresh} {'is' if len(views) == 1 else 'are'} fresh, in {terminal.format_seconds(took)}")


def _verify(view_: MaterializedView) -> bool:
    with terminal.show_status("recomputing, to compare"):
        found = view_.verify()
    terminal.print_note(str(found))
    return found.same
