"""``dovetail shadow-report``: ranks the statements of a table by what their rewritings gain, and verifies the best."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.text import Text

from dovetail.optimizer import terminal
from dovetail.optimizer.advise.lines import describe_savings
from dovetail.optimizer.commands.inputs import Job
from dovetail.optimizer.commands.work import optimizer_for
from dovetail.optimizer.failures import CommandFailed, Exit, describe_failure
from dovetail.optimizer.statements.log import read_log
from dovetail.optimizer.statements.shadow_report import ShadowReport, ShadowStatement
from dovetail.optimizer.verify.batch import Checks


@dataclass(frozen=True)
class _Verified:
    """The result for one statement; ``same`` is None if no rows were compared."""

    hash: str
    text: str
    same: bool | None


def run_shadow_report(path: str, job: Job, checks: Checks, *, verify: int, json: bool) -> None:
    """Print the report; with ``verify``, run so many statements both ways.

    Raises ``CommandFailed`` if their rows differ, and if no statement was compared.
    """
    records, wrong = read_log(Path(path))
    report = ShadowReport.of(records)
    best = report.rewritten[:verify]
    verified = _verify(best, job, checks) if best else ()
    if json:
        terminal.print_json(_to_json(report, verified, wrong))
    else:
        _print(report, verified)
    if wrong:
        terminal.print_warnings([f"{wrong:,} lines of {path} are no records of statements"])
    if different := [v for v in verified if v.same is False]:
        raise CommandFailed(f"{different[0].hash}: the rewriting returns other rows; please report it", Exit.FAILED)
    if verify and not any(v.same for v in verified):
        reason = "could be compared, for the reasons above" if best else "has a rewriting"
        raise CommandFailed(f"Nothing is verified: no statement of {path} {reason}", Exit.FAILED)


def _verify(statements: tuple[ShadowStatement, ...], job: Job, checks: Checks) -> tuple[_Verified, ...]:
    found = []
    with optimizer_for(job) as opt:
        for statement in statements:
            hash_ = statement.last.text("hash")
            if statement.last.values.get("needs_arguments"):
                reason = "not verified: the table has no arguments and DataFrames of statements; call opt.verify"
                found.append(_Verified(hash_, reason, None))
                continue
            try:
                with terminal.show_status(f"running {hash_} both ways"):
                    result = opt.verify(statement.last.text("text"), timeout=checks.timeout, sample=checks.sample)
                is_compared = result.rewritten and not result.stopped
                found.append(_Verified(hash_, str(result), result.same if is_compared else None))
            except Exception as error:  # noqa: BLE001 - it concerns one statement of many
                found.append(_Verified(hash_, f"not verified: {describe_failure(error)[0]}", None))
    return tuple(found)


def _print(report: ShadowReport, verified: tuple[_Verified, ...]) -> None:
    console = terminal.stdout_console()
    if report.rewritten:
        table = terminal.new_table()
        table.add_column("statement")
        table.add_column("runs", justify="right")
        table.add_column("saves", justify="right", overflow="fold")
        table.add_column("planning", justify="right")
        table.add_column("at", overflow="fold")
        table.add_column("SQL", overflow="fold")
        for s in report.rewritten:
            saves, planning = describe_savings(s.savings) or "unknown", terminal.format_seconds(s.planning_seconds)
            cells = (s.last.text("hash"), f"{s.runs:,}", saves, planning, _site(s), _first_words(s))
            table.add_row(*(Text(terminal.escape_control_characters(cell)) for cell in cells))
        console.print(table)
        console.print()
    for s in report.rewritten:
        for error in dict.fromkeys(s.errors):
            console.print(Text(f"{s.last.text('hash')}: the rewriting failed: {error}"))
    for v in verified:
        console.print(Text(f"{v.hash}: {terminal.escape_control_characters(v.text)}"))
    for rule, count in report.declined.most_common():
        console.print(Text(f"left to Spark by {rule}: {count:,}" if " " not in rule else f"{rule}: {count:,}"))
    console.print(Text(f"{report.summary}."))


def _site(statement: ShadowStatement) -> str:
    return statement.last.text("call_site").rpartition("/")[2]


def _first_words(statement: ShadowStatement) -> str:
    text = " ".join(statement.last.text("text").split())
    return text if len(text) <= 60 else f"{text[:59]}…"


def _to_json(report: ShadowReport, verified: tuple[_Verified, ...], wrong: int) -> dict[str, Any]:
    results = {v.hash: {"verified": v.text, "same": v.same} for v in verified}
    return {
        "statements": [{**s.to_json(), **results.get(s.last.text("hash"), {})} for s in report.rewritten],
        "declined": dict(report.declined.most_common()),
        "summary": report.summary,
        "wrong_lines": wrong,
    }
