"""``dovetail advise``: plans the statements of a workload and prints what is rewritten, declined, and why.

A nested loop is known by its file, kind, sides and condition, and not by its line, which moves with each edit.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from rich.text import Text

from dovetail.optimizer import terminal
from dovetail.optimizer.advise.advice import advise
from dovetail.optimizer.advise.lines import describe_gain, details
from dovetail.optimizer.advise.page import render_report
from dovetail.optimizer.advise.report import LoopFinding, Report, StatementAdvice
from dovetail.optimizer.advise.workload import read_workload
from dovetail.optimizer.commands.inputs import Job, write_text
from dovetail.optimizer.commands.offline import planner_for
from dovetail.optimizer.failures import CommandFailed, Exit
from dovetail.planner.errors import InputError
from dovetail.planner.explain.html.page import check_jinja

_STYLES = {"rewritten": "green", "nested loop": "yellow", "problem": "red"}


def run_advise(
    path: str,
    job: Job,
    *,
    html: str | None,
    json: bool,
    verify: bool,
    measure: bool,
    fail_on: bool,
    baseline: str | None,
    new_baseline: str | None,
) -> None:
    """Plan a workload, print the report, write its files; raise ``CommandFailed`` for what ``fail_on`` names."""
    statements = read_workload(path)
    known = read_baseline(baseline) if baseline is not None else None
    if html is not None:
        check_jinja()
    with (
        planner_for(job, measure=measure, needs_spark=verify) as planner,
        terminal.show_status("planning the statements"),
    ):
        report = advise(statements, planner, verify=verify, variables=job.settings)
    if json:
        terminal.print_json(report.to_json())
    else:
        _print(report)
    if html is not None:
        write_text("--html", html, render_report(report))
    if new_baseline is not None:
        write_text("--write-baseline", new_baseline, format_baseline(report))
    if other := next((s for s in report.statements if s.same is False), None):
        raise CommandFailed(f"{other.where}: the rewriting returns other rows; please report it", Exit.FAILED)
    if fail_on and (found := new_loops(report, known or Counter())):
        raise CommandFailed(_describe_new(found, has_baseline=known is not None), Exit.FAILED)


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
        table = terminal.new_table()
        table.add_column("statement", overflow="fold")
        table.add_column("result", overflow="fold")
        table.add_column("saves", justify="right", overflow="fold")
        for s in shown:
            status = Text(s.status, style=_STYLES.get(s.status, ""))
            table.add_row(Text(terminal.escape_control_characters(s.where)), status, describe_gain(s))
        console.print(table)
        console.print()
    for s in shown:
        if lines := list(details(s)):
            console.print(Text(terminal.escape_control_characters(s.where), style="bold"))
            for line in lines:
                console.print(Text(f"  {terminal.escape_control_characters(line)}"))
    if shown:
        console.print()
    console.print(Text(f"{report.summary}. Planned against {report.planned_against}."))


Key = tuple[str, str, str, str, str]


def read_baseline(path: str) -> Counter[Key]:
    """The known nested loops of a file.  Raises ``InputError``."""
    try:
        loops = json.loads(Path(path).read_text(encoding="utf-8-sig"))["nested_loops"]
        return Counter((x["file"], x["kind"], x["left"], x["right"], x["condition"]) for x in loops)
    except FileNotFoundError as error:
        raise InputError(f"--baseline {path}: there is no such file; write it with --write-baseline") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"--baseline {path} is not a baseline; write it again with --write-baseline") from error


def format_baseline(report: Report) -> str:
    """The baseline of the nested loops that remain, in the order of files and places."""
    found = [(s.file, loop.place, loop) for s in report.statements for loop in s.remaining_loops]
    known = sorted(found, key=lambda one: one[:2])
    loops = [
        {"file": file, "kind": loop.kind, "left": loop.left, "right": loop.right, "condition": loop.condition}
        for file, _, loop in known
    ]
    return json.dumps({"nested_loops": loops}, indent=2, ensure_ascii=False) + "\n"


def new_loops(report: Report, known: Counter[Key]) -> list[tuple[StatementAdvice, LoopFinding]]:
    """The nested loops that remain and are not known."""
    left, found = Counter(known), []
    for statement in report.statements:
        for loop in statement.remaining_loops:
            key = (statement.file, loop.kind, loop.left, loop.right, loop.condition)
            if left[key]:
                left[key] -= 1
            else:
                found.append((statement, loop))
    return found
