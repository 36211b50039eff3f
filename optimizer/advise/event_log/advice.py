"""Reads all event logs of a folder, one after the other, and prints a report on their joins."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from dovetail.optimizer import terminal
from dovetail.optimizer.advise.event_log.errors import LogProblem
from dovetail.optimizer.advise.event_log.files import find_logs
from dovetail.optimizer.advise.event_log.findings import Finding
from dovetail.optimizer.advise.event_log.read_log import read_log
from dovetail.optimizer.advise.event_log.report import AppSummary, Reported
from dovetail.optimizer.advise.event_log.verdicts import Verdict
from dovetail.optimizer.planning.plan import Plan
from dovetail.optimizer.planning.statement import plan_sql
from dovetail.planner.catalog import Catalog
from dovetail.planner.errors import DovetailError, reason_of


def read_folder(
    folder: Path, catalog: Catalog | None = None
) -> tuple[list[AppSummary], list[Reported], list[LogProblem]]:
    """Read the logs: the applications, the findings with the most task time first, and a problem per faulty log."""
    try:
        logs, problems = find_logs(folder)
    except OSError as error:
        return [], [], [LogProblem(folder, f"It cannot be read: {reason_of(error)}.")]
    if not logs and not problems:
        problems.append(LogProblem(folder, "The folder has no event logs; spark.eventLog.dir names the folder."))
    apps: list[AppSummary] = []
    found: list[Reported] = []
    statements = Statements(catalog) if catalog else None
    with _progress() as progress:
        size = sum(log.size for log in logs)
        task = progress.add_task("", total=size)
        for log in logs:
            progress.update(task, description=log.path.name[:40])
            app, problem = read_log(log, partial(progress.open, mode="rb", buffering=0, total=size, task_id=task))
            if problem:
                problems.append(problem)
            if app is None:
                continue
            apps.append(AppSummary.of(log.path, app))
            found += [Reported(apps[-1], statements.judge(one) if statements else one) for one in app.findings()]
    found.sort(key=lambda one: -one.finding.seconds)
    return apps, found, problems


def _progress() -> Progress:
    console = terminal.stderr_console()
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


@dataclass
class Statements:
    """Statements planned with a catalog, each once."""

    catalog: Catalog
    _plans: dict[str, Plan | None] = field(default_factory=dict)

    def judge(self, finding: Finding) -> Finding:
        """Judge a finding by the plan of its statement, too; the same finding where the plan adds nothing."""
        plan = self._plan(finding.sql) if finding.sql else None
        verdict = _combine(finding.verdict, plan) if plan else None
        return replace(finding, verdict=verdict) if verdict else finding

    def _plan(self, sql: str) -> Plan | None:
        if sql not in self._plans:
            try:
                self._plans[sql] = plan_sql(sql, self.catalog)
            except DovetailError:
                self._plans[sql] = None
        return self._plans[sql]


def _combine(verdict: Verdict, plan: Plan) -> Verdict | None:
    """The verdict on a join of a statement, which may have other joins as well."""
    rules = ", ".join(plan.rules)
    if plan.rewritten and verdict.answer != "no":
        return Verdict(
            "yes", verdict.rewriting or "a rewriting", f"{verdict.reason} The statement is rewritten: {rules}."
        )
    if plan.rewritten:
        return replace(verdict, reason=f"{verdict.reason} Other parts of the statement are rewritten: {rules}.")
    if plan.declined and verdict.answer != "no":
        return Verdict("no", "", f"The statement is not rewritten: {plan.declined[0].reason.rstrip('.')}.")
    return None
