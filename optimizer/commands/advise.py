"""``dovetail advise``: plans the statements of a workload and prints what is rewritten, declined, and why."""

from __future__ import annotations

from collections import Counter

from rich import box
from rich.table import Table
from rich.text import Text

from dovetail.optimizer.advise.advice import advise
from dovetail.optimizer.advise.baseline import format_baseline, new_loops, read_baseline
from dovetail.optimizer.advise.lines import describe_gain, details
from dovetail.optimizer.advise.page import render_report
from dovetail.optimizer.advise.planners import SessionWorkloadPlanner, WorkloadPlanner
from dovetail.optimizer.advise.report import LoopFinding, Report, StatementAdvice
from dovetail.optimizer.advise.workload import WorkloadStatement, read_workload
from dovetail.optimizer.commands import terminal
from dovetail.optimizer.commands.failures import CommandFailed, Exit, describe_failure
from dovetail.optimizer.commands.inputs import Job, write_text
from dovetail.optimizer.commands.offline import is_offline, offline_planner
from dovetail.planner.explain.html.page import check_jinja

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
        check_jinja()
    report = _planned(statements, job, catalog, verify=verify, measure=measure)
    if json:
        terminal.print_json(report.to_json())
    else:
        _print(report)
    if html is not None:
        write_text("--html", html, render_report(report))
    if new_baseline is not None:
        write_text("--write-baseline", new_baseline, format_baseline(report))
    if different := [s for s in report.statements if s.same is False]:
        raise CommandFailed(f"{different[0].where}: the rewriting returns other rows; please report it", Exit.FAILED)
    if fail_on and (found := new_loops(report, known or Counter())):
        raise CommandFailed(_describe_new(found, has_baseline=known is not None), Exit.FAILED)


def _planned(
    statements: tuple[WorkloadStatement, ...], job: Job, catalog: str | None, *, verify: bool, measure: bool
) -> Report:
    if is_offline(job) and not verify:
        return _advised(statements, offline_planner(job, catalog or ""), job, verify=False)
    from dovetail.optimizer.commands.work import optimizer_for

    with optimizer_for(job) as opt:
        return _advised(statements, SessionWorkloadPlanner(opt, measure=measure), job, verify=verify)


def _advised(statements: tuple[WorkloadStatement, ...], planner: WorkloadPlanner, job: Job, *, verify: bool) -> Report:
    with terminal.show_status("planning the statements"):
        return advise(
            statements, planner, lambda error: describe_failure(error)[0], verify=verify, variables=job.settings
        )


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


def _escape(text: str) -> str:
    return terminal.escape_control_characters(text)
