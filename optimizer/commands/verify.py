"""``dovetail verify``: compares a query as written with its rewriting, and measures both if requested."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from dovetail.optimizer import terminal
from dovetail.optimizer.commands.inputs import Job, check_page
from dovetail.optimizer.commands.work import optimizer_for
from dovetail.optimizer.verification import Verification
from dovetail.optimizer.verify.batch import Checks
from dovetail.planner.explain.html.page import check_jinja


def run_verify(job: Job, checks: Checks, *, html: str | None, json: bool) -> None:
    """Compare the rows of both ways, print the result, and write its page; end with code 1 if they differ."""
    if html is not None:
        check_page(html)
        check_jinja()
    with optimizer_for(job) as opt:
        with terminal.show_status("planning the query") as show:
            found = opt.verify(job.text, **vars(replace(checks, progress=show)))
        page = opt.plan(job.text).explain("html", verified=found) if html is not None else ""
    if html is not None:
        Path(html).write_text(f"{page}\n", encoding="utf-8")
    if json:
        terminal.print_json(_to_json(found))
    else:
        typer.echo(str(found))
    if not found.same:
        raise typer.Exit(1)


def _to_json(found: Verification) -> dict[str, Any]:
    names = ("same", "rewritten", "rows", "missing", "extra", "schema", "sample", "stopped", "explanations")
    facts = {name: getattr(found, name) for name in names}
    facts["differences"] = [row.show(found.columns) for row in found.differences]
    if found.runs:
        return {**facts, "seconds": found.runs.seconds}
    if found.seconds:
        return {**facts, "seconds": dict(zip(("written", "rewritten"), found.seconds, strict=True))}
    return facts
