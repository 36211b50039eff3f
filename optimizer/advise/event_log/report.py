"""Prints findings: as text that fits 80 columns, and as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.text import Text

from dovetail.optimizer import terminal
from dovetail.optimizer.advise.event_log.application import Application
from dovetail.optimizer.advise.event_log.errors import LogProblem
from dovetail.optimizer.advise.event_log.findings import Finding
from dovetail.optimizer.advise.event_log.named_runs import Comparison, NamedRun, compare_runs
from dovetail.optimizer.advise.event_log.plan_nodes import ATTRIBUTE
from dovetail.optimizer.advise.page import Entry, render
from dovetail.planner.errors import plural

MOST = 20
_MOST_OF_PAGE = 200
_LINES = 4
_WIDTH = 80


@dataclass(frozen=True)
class Reported:
    """A finding, and the application that it belongs to."""

    app: AppSummary
    finding: Finding


@dataclass(frozen=True)
class AppSummary:
    """An application in the report, without its findings; ``runs``: of statements that Dovetail has named."""

    file: Path
    id: str
    name: str
    spark: str
    task_seconds: float
    ended: bool
    runs: tuple[NamedRun, ...] = ()

    @classmethod
    def of(cls, file: Path, app: Application) -> AppSummary:
        """The summary of an application that was read."""
        return cls(file, app.id, app.name, app.spark, app.total / 1000, app.ended, tuple(app.runs))


def print_report(apps: Sequence[AppSummary], found: Sequence[Reported]) -> None:
    """Print the findings: the same join of several executions once, with the sum of its task time."""
    console = terminal.page_console()
    width = min(console.width, _WIDTH) - 5
    groups = _group(found)
    for number, group in enumerate(groups[:MOST], 1):
        for line, style in _lines(group, width):
            begin = f"{number:>3}. " if not style else "     "
            console.print(Text(begin + terminal.escape_control_characters(line), style=style or "bold"), soft_wrap=True)
        console.print()
    if len(groups) > MOST:
        console.print(f"{len(groups) - MOST:,} more joins with less task time; --json prints all of them.\n")
    comparisons = _comparisons(apps)
    for one in comparisons[:MOST]:
        console.print(_compared(one), soft_wrap=True)
    if comparisons:
        console.print()
    console.print(_summary(apps, groups))


def _comparisons(apps: Sequence[AppSummary]) -> list[Comparison]:
    return compare_runs(run for app in apps for run in app.runs)


def _compared(one: Comparison) -> str:
    """The runs of a statement that Dovetail has named, in one line."""
    sides = (
        _describe_side(one.written, one.failed_written, "as written"),
        _describe_side(one.rewritten, one.failed_rewritten, f"rewritten by {one.rules}"),
    )
    ratio = f": {one.ratio:.1f} times as fast" if one.ratio is not None else ""
    return f"Statement {one.hash}: {', '.join(filter(None, sides))}{ratio}"


def _describe_side(seconds: tuple[float, ...], failed: int, how: str) -> str:
    """The median and the number of the runs, and how many more failed; nothing without any."""
    if not seconds:
        return f"{how} {plural(failed, 'run')} failed" if failed else ""
    more = f", {failed:,} failed" if failed else ""
    return f"{terminal.format_seconds(median(seconds))} {how} ({plural(len(seconds), 'run')}{more})"


def _group(found: Sequence[Reported]) -> list[list[Reported]]:
    """Findings of one application with the same join, those with the most task time first."""
    groups: dict[object, list[Reported]] = {}
    for one in found:
        join = one.finding.join
        text = ATTRIBUTE.sub(r"\1", join.complete_condition)
        groups.setdefault((one.app.file, join.node, join.type, text, one.finding.verdict.answer), []).append(one)
    return sorted(groups.values(), key=lambda group: -sum(one.finding.seconds for one in group))


def _lines(group: list[Reported], width: int) -> list[tuple[str, str]]:
    """The lines of a group, each with its style; the first one has none."""
    one, finding = group[0], group[0].finding
    seconds, share = (sum(value) for value in zip(*((o.finding.seconds, o.finding.share) for o in group), strict=True))
    join, verdict = finding.join, finding.verdict
    kind = f"{join.node} {join.type}".strip()
    lines = [
        (line, style if style or not n else "bold")
        for text, style in (
            (f"{terminal.format_seconds(seconds)} of task time, {share:.0%}: {kind}", ""),
            (f"{one.app.file.name}, {one.app.name or 'no name'}", "dim"),
            (f"{one.app.id or 'no application ID'}, {_executions(group)}", "dim"),
            *((text, "dim") for text in _describe_origin(finding)),
            (_describe_rows(finding), "default"),
        )
        for n, line in enumerate(_wrap(text, width))
    ]
    lines += [(line, "cyan") for line in _wrap(join.complete_condition or "no condition", width)]
    text = _describe_verdict(finding)
    lines += [(line, {"yes": "green", "no": "yellow"}.get(verdict.answer, "magenta")) for line in _wrap(text, width)]
    if finding.sql:
        lines += [(line, "dim") for line in _wrap(f"SQL: {' '.join(finding.sql.split())}", width, 2)]
    return lines


def _executions(group: list[Reported]) -> str:
    first = f"execution {group[0].finding.execution}"
    return f"{first} and {len(group) - 1:,} more" if len(group) > 1 else first


def _describe_origin(finding: Finding) -> list[str]:
    origin = finding.origin
    site = [f"Called by: {origin.call_site}"] if origin.call_site else []
    return [*site, f"Description: {origin.description}"] if origin.description else site


def _describe_verdict(finding: Finding) -> str:
    verdict = finding.verdict
    answer = {"yes": f"Dovetail takes it: {verdict.rewriting}.", "no": "Dovetail leaves it to Spark."}
    return f"{answer.get(verdict.answer, 'Dovetail cannot tell from the plan.')} {verdict.reason}"


def _describe_rows(finding: Finding) -> str:
    left, right, out = ("?" if rows is None else f"{rows:,}" for rows in finding.rows)
    text = f"{left} × {right} rows, {out} out"
    if finding.skew and finding.skew.ratio >= 2:
        skew = finding.skew
        longest, median = (terminal.format_seconds(seconds) for seconds in (skew.longest, skew.median))
        text += f"; {skew.tasks:,} tasks, longest {longest}, median {median}"
    return text


def _wrap(text: str, width: int, most: int = _LINES) -> list[str]:
    lines = textwrap.wrap(text, width) or [""]
    return lines if len(lines) <= most else [*lines[: most - 1], lines[most - 1][: width - 2].rstrip() + " …"]


def _summary(apps: Sequence[AppSummary], groups: Sequence[Sequence[Reported]]) -> str:
    read = plural(len(apps), "application")
    seconds = terminal.format_seconds(sum(app.task_seconds for app in apps))
    if not groups:
        return f"{read}, {seconds} of task time: no joins that Spark runs badly."
    taken = sum(group[0].finding.verdict.answer == "yes" for group in groups)
    joins = plural(len(groups), "join")
    return f"{read}, {seconds} of task time.\n{joins} that Spark runs badly; Dovetail takes {taken:,} of them."


def render_report(apps: Sequence[AppSummary], found: Sequence[Reported]) -> str:
    """Render the findings as an HTML page.  Raises ``EnvironmentProblem`` if Jinja is not installed."""
    groups = _group(found)
    entries = [_entry(number, group) for number, group in enumerate(groups[:_MOST_OF_PAGE], 1)]
    more = len(groups) - len(entries)
    summary = _summary(apps, groups) + (f" The page has the {len(entries):,} with the most task time." if more else "")
    return render("Advice from event logs", summary, ("Join", "Dovetail", "Task time"), entries)


def _entry(number: int, group: list[Reported]) -> Entry:
    one, finding = group[0], group[0].finding
    join, status = finding.join, {"yes": "takes it", "no": "leaves it"}.get(finding.verdict.answer, "cannot tell")
    seconds, share = (sum(value) for value in zip(*((o.finding.seconds, o.finding.share) for o in group), strict=True))
    facts = (
        f"{one.app.file.name}, {one.app.name or 'no name'}, {_executions(group)}.",
        *_describe_origin(finding),
        f"{_describe_rows(finding)}.",
        f"Condition: {join.complete_condition or 'none'}",
        _describe_verdict(finding),
    )
    figure = f"{terminal.format_seconds(seconds)}, {share:.0%}"
    color = {"takes it": "fired", "leaves it": "declined"}.get(status, "warning")
    name = f"{number}. {join.node} {join.type}".rstrip()
    return Entry(f"j{number}", name, status, color, figure, facts, finding.sql or "")


def to_json(apps: Sequence[AppSummary], found: Sequence[Reported], problems: Sequence[LogProblem]) -> dict[str, Any]:
    """The report as JSON: every finding, those with the most task time first."""
    return {
        "applications": [
            {name: value for name, value in vars(app).items() if name != "runs"} | {"file": str(app.file)}
            for app in apps
        ],
        "findings": [_finding_json(one) for one in found],
        "statements": [one.to_json() for one in _comparisons(apps)],
        "problems": [{"file": str(problem.path), "reason": problem.reason} for problem in problems],
    }


def _finding_json(one: Reported) -> dict[str, Any]:
    finding, skew = one.finding, one.finding.skew
    left, right, out = finding.rows
    return {
        "file": str(one.app.file),
        "application": one.app.id,
        "application_name": one.app.name,
        "execution": finding.execution,
        "call_site": finding.origin.call_site or None,
        "description": finding.origin.description or None,
        "node": finding.join.node,
        "join_type": finding.join.type or None,
        "keys": [f"{left_key} = {right_key}" for left_key, right_key in finding.join.keys],
        "condition": finding.join.condition or None,
        "rows": {"left": left, "right": right, "out": out},
        "task_seconds": finding.seconds,
        "share": round(finding.share, 4),
        "stages": list(finding.stages),
        "skew": skew
        and {
            "tasks": skew.tasks,
            "longest_seconds": skew.longest,
            "median_seconds": skew.median,
            "ratio": round(skew.ratio, 2),
            "records_ratio": round(skew.records_ratio, 2),
        },
        "dovetail": {
            "takes_it": finding.verdict.answer,
            "as": finding.verdict.rewriting or None,
            "reason": finding.verdict.reason,
        },
        "sql": finding.sql,
    }
