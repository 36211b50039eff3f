"""``dovetail materialize``: views over folders in which files arrive, refreshed and printed."""

from __future__ import annotations

from collections.abc import Mapping
from json import dumps
from time import perf_counter, sleep
from typing import TYPE_CHECKING

import typer

from dovetail.optimizer import terminal
from dovetail.optimizer.commands.inputs import Job
from dovetail.optimizer.commands.streamed import Streamed, create_view
from dovetail.optimizer.commands.work import optimizer_for
from dovetail.optimizer.failures import located
from dovetail.planner.errors import InputError, one_of
from dovetail.planner.state.sink import Sink

if TYPE_CHECKING:
    from dovetail.optimizer.views.materialized_view import MaterializedView
    from dovetail.optimizer.views.materialized_views import MaterializedViews

_ROWS = 100  # of a view are printed, unless as JSON


def run_materialize(
    job: Job,
    queries: Mapping[str, str],
    streams: tuple[Streamed, ...],
    changelogs: Mapping[str, str],
    *,
    state: str,
    sinks: Mapping[str, Sink],
    every: float | None,
    files: int | None,
    verify: bool,
    json: bool,
) -> bool:
    """Build or refresh views and print them, once or until Ctrl-C; returns whether ``verify`` found no difference.

    ``queries``: their texts by name; several views share a state.  ``every``: seconds between two refreshes.
    Raises ``InputError``, and what ``Optimizer.materialize`` raises.
    """
    names = [stream.table.name for stream in streams]
    if odd := next((name for name in changelogs if name not in names), None):
        raise InputError(f"--changelog {odd}: there is no --stream {odd}; {one_of(names, odd)}")
    with optimizer_for(job) as opt:
        with terminal.show_status("looking at the streams"):
            for stream in streams:
                create_view(opt.session, stream, files)
            for name, column in changelogs.items():
                with located(f"--changelog {name}={column}"):
                    opt.declare_changelog(name, column, ())
        start = perf_counter()
        with terminal.show_status("finding the joined rows"):
            materialized: MaterializedView | MaterializedViews
            if len(queries) > 1:
                materialized = opt.materialize_all(queries, state=state, sinks=sinks)
                views = list(materialized.values())
            else:
                ((name, text),) = queries.items()
                materialized = opt.materialize(text, name, state=state, sink=sinks.get(name))
                views = [materialized]
        terminal.print_note(materialized.explain())
        _show(views, perf_counter() - start, json=json)
        try:
            while every is not None:
                sleep(every)
                start = perf_counter()
                materialized.refresh()
                _show(views, perf_counter() - start, json=json)
        except KeyboardInterrupt:
            terminal.print_note("stopped; run the same command to continue with new rows")
        return not verify or min(map(_verify, views))


def _show(views: list[MaterializedView], took: float, *, json: bool) -> None:
    from dovetail.executor.session.rows import each_row, take_rows

    for view in views:
        table, named = view.table(), len(views) > 1
        if json:
            for values in each_row(table):
                row = dict(zip(table.columns, values, strict=True))
                typer.echo(dumps({"view": view.name, "row": row} if named else row, ensure_ascii=False))
            continue
        if named:
            terminal.stdout_console().print(f"\n{view.name}", markup=False)
        rows = take_rows(table, _ROWS + 1)
        kinds = [(f.name, f.dataType.simpleString()) for f in table.schema]
        terminal.print_rows(kinds, rows[:_ROWS])
        if len(rows) > _ROWS:
            terminal.print_note(f"the first {_ROWS} rows; --json prints all")
    fresh = ", ".join(view.name for view in views)
    terminal.print_note(f"{fresh} {'is' if len(views) == 1 else 'are'} fresh, in {terminal.format_seconds(took)}")


def _verify(view: MaterializedView) -> bool:
    with terminal.show_status("recomputing, to compare"):
        found = view.verify()
    terminal.print_note(str(found))
    return found.same
