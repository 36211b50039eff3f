"""``dovetail explain`` and ``rewrite``: plan the statements of a job, without running a query."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import typer

from dovetail.optimizer.advise.planners import OfflinePlanner, WorkloadPlanner, created_name
from dovetail.optimizer.commands.inputs import Job
from dovetail.optimizer.commands.offline import planner_for
from dovetail.optimizer.commands.several import heading, located_statement
from dovetail.optimizer.failures import CommandFailed, Exit
from dovetail.optimizer.planning.plan import Mode, Plan
from dovetail.optimizer.terminal import print_error, print_note, print_warnings, show_status
from dovetail.planner.errors import InputError, QueryError, UnmatchedBracket, Unsupported
from dovetail.planner.explain.html.page import check_jinja
from dovetail.planner.expr.tokens import tokenize
from dovetail.planner.sql.lookup_views import lookups_of, needs_sql

_SESSION_COMMANDS = frozenset(("SET", "RESET", "USE"))
"""Statements that change how later ones are planned, and that cost nothing."""


def plan_job(job: Job) -> Iterator[Plan | CommandFailed]:
    """Plan the statements in their order, on a session, or without Spark against the columns of a catalog file.

    Later statements can read the views of earlier ones, and have their settings.  One of several that cannot be planned
    is its error.
    """
    with planner_for(job) as planner:
        yield from _plans(job, planner)
    if isinstance(planner, OfflinePlanner) and job.catalog:
        print_note(f"planned without Spark, against the tables of {job.catalog.path}")


def show_explanations(job: Job, mode: Mode, out: str | None) -> None:
    """Print the explanation of each statement, or write all to a file.

    Raises ``CommandFailed`` after the others if one of several cannot be planned.
    """
    if mode == "html":
        check_jinja()
        if len(job.statements) > 1:
            raise InputError(
                f"{job.source} has {len(job.statements)} statements, and a page shows one; `dovetail advise "
                f"{job.source} --html FILE` writes a page of all"
            )
    found = list(plan_job(job))
    failures = [error for error in found if isinstance(error, CommandFailed)]
    explanation = _explain(job, found, mode)
    if out is None:
        typer.echo(explanation)
    else:
        Path(out).write_text(f"{explanation}\n", encoding="utf-8")
    for plan in (plan for plan in found if isinstance(plan, Plan)):
        if mode == "sql":
            _warn_of_rejection(plan)
        if mode in ("cost", "sql"):  # the other modes include it
            print_warnings(plan.warnings)
    for error in failures[:-1]:
        print_error(str(error))
    if failures:
        raise failures[-1]


def _explain(job: Job, found: list[Plan | CommandFailed], mode: Mode) -> str:
    """The explanations of the plans, each below its heading if there are several; as one list in JSON."""
    if len(found) > 1 and mode == "json":
        records = [json.loads(p.explain("json")) if isinstance(p, Plan) else {"error": str(p)} for p in found]
        return json.dumps(records, indent=2, ensure_ascii=False)
    texts = {number: plan.explain(mode) for number, plan in enumerate(found, 1) if isinstance(plan, Plan)}
    if len(found) > 1:
        end = ";" if mode == "sql" else ""
        texts = {number: f"-- {heading(job, number)}\n{text}{end}" for number, text in texts.items()}
    return "\n\n".join(texts.values())


def show_rewritings(job: Job) -> None:
    """Print the SQL of each statement, for any data; what a lookup fetches goes to stderr."""
    job = replace(job, options=replace(job.options, generic_plan=True))  # the text is kept, and runs over other rows
    for plan in plan_job(job):
        if isinstance(plan, CommandFailed):
            raise plan
        text = plan.sql()
        typer.echo(f"{text};\n" if len(job.statements) > 1 else text, nl=not text.endswith("\n"))
        _warn_of_rejection(plan)
        print_warnings(plan.warnings)
        for join in lookups_of(plan.physical if plan.rewritten else None):
            keys = needs_sql(plan.physical, join) if plan.physical else ""
            print_note(f"{join.view} is made by the runtime: rows of {join.spec.table} fetched for\n{keys}")


def _warn_of_rejection(plan: Plan) -> None:
    if plan.rejection:
        print_warnings([f"Spark cannot run this statement: {plan.rejection}"])


def _check_brackets(text: str) -> None:
    """Raise ``QueryError`` for brackets that do not match, which Spark cannot read either."""
    try:
        tokenize(text)
    except UnmatchedBracket as no:
        raise QueryError(no.reason, no.place) from no
    except Unsupported:
        return


def _plans(job: Job, planner: WorkloadPlanner) -> Iterator[Plan | CommandFailed]:
    for number, statement in enumerate(job.statements, 1):
        is_last = number == len(job.statements)
        try:
            with located_statement(job, number), show_status("planning"):
                _check_brackets(statement.text)
                plan = planner.explained(statement.text)
                if not is_last and (name := created_name(plan)):
                    planner.add_relation(name, plan)
                elif not is_last and tokenize(statement.text).word(0) in _SESSION_COMMANDS:
                    planner.run_command(statement.text)
        except CommandFailed as failure:
            if len(job.statements) == 1 or failure.code not in (Exit.FAILED, Exit.UNUSABLE):
                raise
            yield failure
        else:
            yield plan
