"""``dovetail keep``: views over folders in which files arrive, refreshed and printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from json import dumps
from time import perf_counter, sleep
from typing import TYPE_CHECKING

import typer

from optimizer.commands import say
from optimizer.commands.inputs import Job
from optimizer.commands.streamed import Streamed, view
from optimizer.commands.work import optimizer_for
from planner.errors import InputError, one_of
from planner.state.sink import Sink

if TYPE_CHECKING:
    from optimizer import Optimizer
    from optimizer.kept import KeptView
    from optimizer.kept_together import KeptViews

_ROWS = 100  # of a view are printed, unless as JSON


@dataclass(frozen=True)
class KeepJob:
    """A query over streams as a view: its name, where it is kept, and how often it is refreshed (seconds).

    ``beside`` are queries of other views on the same state, by name.
    """

    job: Job
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
    beside: Mapping[str, str]


def run_keep(told: KeepJob) -> bool:
    """Build or refresh the view and print it, once or until Ctrl-C; whether it is what recomputing gives, if asked.

    Raises ``InputError``, and what ``Optimizer.keep`` raises.
    """
    names = [stream.table.name for stream in told.streams]
    if odd := next((name for name in told.changelogs if name not in names), None):
        raise InputError(f"--changelog {odd}: there is no --stream {odd}; {one_of(names, odd)}")
    with optimizer_for(told.job) as opt:
        with say.status("looking at the streams"):
            for stream in told.streams:
                view(opt.session, stream, told.files)
            for name, column in told.changelogs.items():
                opt.declare_changelog(name, column, ())
        start = perf_counter()
        with say.status("finding the joined rows"):
            kept = _kept(opt, told)
        views = list(kept.values()) if isinstance(kept, Mapping) else [kept]
        say.remark(kept.explain())
        _show(views, told, perf_counter() - start)
        try:
            while told.every is not None:
                sleep(told.every)
                start = perf_counter()
                kept.refresh()
                _show(views, told, perf_counter() - start)
        except KeyboardInterrupt:
            say.remark("stopped; the same command goes on with what comes")
        return not told.verify or min(map(_verified, views))


def _kept(opt: Optimizer, told: KeepJob) -> KeptView | KeptViews:
    """The view, or it and those beside it, each of which writes into a folder of its own."""
    if not told.beside:
        sink = Sink(told.format, told.out) if told.out else None
        return opt.keep(told.job.text, told.name, state=told.state, sink=sink)
    queries = {told.name: told.job.text, **told.beside}
    sinks = {name: Sink(told.format, f"{told.out}/{name}") for name in queries} if told.out else {}
    return opt.keep_together(queries, state=told.state, sinks=sinks)


def _show(views: list[KeptView], told: KeepJob, took: float) -> None:
    for view_ in views:
        table, named = view_.table(), len(views) > 1
        if told.json:
            row = "to_json(struct(*), map('ignoreNullFields', 'false'))"
            for (found,) in table.selectExpr(row).toLocalIterator():
                typer.echo(f'{{"view":{dumps(view_.name)},"row":{found}}}' if named else found)
            continue
        if named:
            say.out().print(f"\n{view_.name}", markup=False)
        rows = table.limit(_ROWS + 1).collect()
        kinds = [(f.name, f.dataType.simpleString()) for f in table.schema]
        say.out().print(say.rows_table(kinds, rows[:_ROWS]))
        if len(rows) > _ROWS:
            say.remark(f"the first {_ROWS} rows; --json prints all")
    fresh = ", ".join(view_.name for view_ in views)
    say.remark(f"{fresh} {'is' if len(views) == 1 else 'are'} fresh, in {say.seconds(took)}")


def _verified(kept: KeptView) -> bool:
    with say.status("recomputing, to compare"):
        found = kept.verify()
    say.remark(str(found))
    return found.same
