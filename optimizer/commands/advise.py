"""``dovetail advise``: plans the statements of a workload and prints what is rewritten, declined, and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

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


@dataclass(frozen=True)
class AdviseJob:
    """A workload, what to find out about it, and where the results go; ``fail_on`` ends with code 1."""

    path: str
    job: Job
    catalog: str | None
    html: str | None
    json: bool
    verify: bool
    measure: bool
    fail_on: bool
    baseline: str | None
    new_baseline: str | None

    def run(self) -> None:
        """Plan the workload, print the report, write its files; raise ``CommandFailed`` for what ``fail_on`` names."""
        statements = read_workload(self.path)
        known = read_baseline(self.baseline) if self.baseline is not None else None
        if self.html is not None:
            check_jinja()
        report = self._plan(statements)
        if self.json:
            terminal.print_json(report.to_json())
        else:
            _print(report)
        if self.html is not None:
            write_text("--html", self.html, render_report(report))
        if self.new_baseline is not None:
            write_text("--write-baseline", self.new_baseline, format_baseline(report))
        if other := next((s for s in report.statements if s.same is False), None):
            raise CommandFailed(f"{other.where}: the rewriting returns other rows; please report it", Exit.FAILED)
        if self.fail_on and (found := new_loops(report, known or Counter())):
            raise CommandFailed(_describe_new(found, has_baseline=known is not None), Exit.FAILED)

    def _plan(self, statements: tuple[WorkloadStatement, ...]) -> Report:
        if is_offline(self.job) and not self.verify:
            return self._advise(statements, offline_planner(self.job, self.catalog or ""))
        from dovetail.optimizer.commands.work import optimizer_for

        with optimizer_for(self.job) as opt:
            return self._advise(statements, SessionWorkloadPlanner(opt, measure=self.measure))

    def _advise(self, statements: tuple[WorkloadStatement, ...], planner: WorkloadPlanner) -> Report:
        with terminal.show_status("planning the statements"):
            return advise(
                statements, planner, lambda e: describe_failure(e)[0], verify=self.verify, variables=self.job.settings
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
