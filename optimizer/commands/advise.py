"""``dovetail advise``: plans the statements of a workload and prints what is rewritten, declined, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rich import box
from rich.table import Table
from rich.text import Text

from optimizer.advise.advice import advise
from optimizer.advise.baseline import format_baseline, new_loops, read_baseline
from optimizer.advise.planners import OfflinePlanner, SessionWorkloadPlanner, WorkloadPlanner
from optimizer.advise.report import LoopFinding, Report, StatementAdvice
from optimizer.advise.workload import WorkloadStatement, read_workload
from optimizer.commands import terminal
from optimizer.commands.failures import CommandFailed, Exit, describe_failure
from optimizer.commands.inputs import Job
from planner.catalog import UniqueKey
from planner.errors import InputError, reason_of

_STYLES = {"rewritten": "green", "nested loop": "yellow", "problem": "red"}


def run_advise(
    path: str,
    job: Job,
    catalog: str | None,
    *,
    html: str | None,
    json: bool,
    verify: bool,
    measure: bool,
    fail_on: str | None,
    baseline: str | None,
    new_baseline: str | None,
) -> None:
    """Plan the workload, print the report, write its files; raise ``CommandFailed`` for what ``fail_on`` names."""
    statements = read_workload(path)
    known = read_baseline(baseline) if baseline is not None else None
    if html is not None:
        from optimizer.advise.page import require_jinja

        require_jinja()
    report = _planned(statements, job, catalog, verify=verify, measure=measure)
    if json:
        terminal.print_json(report.to_json())
    else:
        _print(report)
    if html is not None:
        from optimizer.advise.page import render_page

        _write("--html", html, render_page(report))
    if new_baseline is not None:
        _write("--write-baseline", new_baseline, format_baseline(report))
    if different := [s for s in report.statements if s.same is False]:
        raise CommandFailed(f"{different[0].where}: the rewriting returns other rows; please report it", Exit.FAILED)
    if fail_on and (found := new_loops(report, known or Counter())):
        raise CommandFailed(_describe_new(found, has_baseline=known is not None), Exit.FAILED)


def _write(option: str, path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        raise InputError(f"{option} {path} cannot be written: {reason}") from error


def _planned(
    statements: tuple[WorkloadStatement, ...], job: Job, catalog: str | None, *, verify: bool, measure: bool
) -> Report:
    declares_tables = job.catalog is not None and any("columns" in body for _, body in job.catalog.tables.values())
    if declares_tables and not (verify or job.tables or job.remote):
        return _advised(statements, _offline(job, catalog or ""), verify=False)
    from optimizer.commands.work import optimizer_for

    with optimizer_for(job) as opt:
        return _advised(statements, SessionWorkloadPlanner(opt, measure=measure), verify=verify)


def _advised(statements: tuple[WorkloadStatement, ...], planner: WorkloadPlanner, *, verify: bool) -> Report:
    with terminal.show_status("planning the statements"):
        return advise(statements, planner, lambda error: describe_failure(error)[0], verify=verify)


def _offline(job: Job, catalog: str) -> OfflinePlanner:
    """A planner over the tables of the catalog file, with the keys of ``--key``."""
    from planner.offline_catalog.read_catalog import read_catalog
    from planner.sql.table_names import name_of

    found = read_catalog(Path(catalog))
    tables = {found.table_key(table.name): table for table in found.tables}
    for name, columns in job.keys:
        key = found.table_key(name_of(name))
        if key not in tables:
            raise InputError(f"--key {name}={','.join(columns)}: the catalog declares no table {name}")
        tables[key] = replace(tables[key], keys=(*tables[key].keys, UniqueKey(columns)))
    return OfflinePlanner(replace(found, tables=tuple(tables.values())), job.options)


def _describe_new(found: list[tuple[StatementAdvice, LoopFinding]], *, has_baseline: bool) -> str:
    statement, loop = found[0]
    where = f"{statement.file}:{loop.place.line}:{loop.place.column}"
    known = "that the baseline does not list" if has_baseline else "and no --baseline lists it"
    more = f" ({len(found)} such loops)" if len(found) > 1 else ""
    return (
        f"{where}: Spark runs this join as a nested loop {known}{more}. {loop.remedy} To accept it, add it with "
        "--write-baseline."
    )


def _print(report: Report) -> None:
    console = terminal.stdout_console()
    shown = [s for s in report.statements if s.status not in ("unchanged", "not a query")]
    if shown:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
        table.add_column("statement", overflow="fold")
        table.add_column("result", overflow="fold")
        table.add_column("saves", justify="right", overflow="fold")
        for s in shown:
            status = Text(s.status, style=_STYLES.get(s.status, ""))
            table.add_row(Text(_escape(s.where)), status, describe_gain(s))
        console.print(table)
        console.print()
    for s in shown:
        if lines := list(details(s)):
            console.print(Text(_escape(s.where), style="bold"))
            for line in lines:
                console.print(Text(f"  {_escape(line)}"))
    if shown:
        console.print()
    console.print(Text(f"{report.summary}. Planned against {report.planned_against}."))


def describe_gain(advice: StatementAdvice) -> str:
    """The estimated gain of a rewriting for a reader: seconds on one core, else pairs; ``unknown`` without estimate."""
    if advice.status != "rewritten":
        return ""
    if advice.seconds_saved is not None and advice.seconds_saved > 0:
        return f"about {terminal.format_seconds(advice.seconds_saved)}"
    if advice.pairs_saved is not None and advice.pairs_saved > 0:
        return f"about {advice.pairs_saved:.2g} pairs"
    known = [own.pairs for own, _ in advice.replaced if own.pairs is not None]
    return f"part of {max(known):.2g} pairs" if known else "unknown"


def details(advice: StatementAdvice) -> Iterator[str]:
    """The report on a statement, a line each: problem, rules, nested loops, reasons."""
    if advice.problem:
        yield advice.problem
    if advice.rules:
        yield f"rewritten by {', '.join(advice.rules)}"
        yield from _estimates(advice)
    for loop in advice.loops:
        sides = f"{loop.kind} join of {loop.left} and {loop.right}"
        on = f" on {loop.condition}" if loop.condition else ", without a condition"
        pairs = f", up to {float(loop.pairs):.2g} pairs" if loop.pairs is not None else ", an unknown number of pairs"
        state = "nested loop removed" if loop.removed else "nested loop"
        yield f"{loop.place.line}:{loop.place.column} {state}: {sides}{on}{pairs}"
        if loop.remedy:
            yield f"  {loop.remedy}"
    places = {loop.place for loop in advice.loops if loop.remedy}
    for d in advice.declined:
        yield f"{d.place.line}:{d.place.column} {d.rule} declined: {d.reason}"
        if d.remedy and d.place not in places:
            yield f"  {d.remedy}"
    if advice.verified:
        yield f"verified: {advice.verified}"


def _estimates(advice: StatementAdvice) -> Iterator[str]:
    for own, chosen in advice.replaced:
        if own.pairs is not None:
            pairs = f"compares up to {own.pairs:.2g} pairs"
            after = f", the rewriting about {chosen.pairs:.2g}" if chosen.pairs is not None else ""
            shuffled = f" and shuffles {chosen.bytes / 2**20:,.0f} MiB" if chosen.bytes is not None else ""
            yield f"estimate: Spark {pairs}{after}{shuffled}"
        else:
            yield "no estimate: the sizes, or the pairs with equal keys, are unknown"


def _escape(text: str) -> str:
    return terminal.escape_control_characters(text)
