"""``dovetail verify``: compares a query as written with its rewriting, and measures both if asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from optimizer.commands import terminal
from optimizer.commands.inputs import Job, check_page
from optimizer.commands.work import optimizer_for
from optimizer.verification import Verification
from planner.explain.html.page import check_jinja


def run_verify(job: Job, *, measure: bool, html: str | None, json: bool) -> None:
    """Compare the rows of both ways, print the result, and write its page; end with code 1 if they differ."""
    if html is not None:
        check_page(html)
        check_jinja()
    with optimizer_for(job) as opt:
        with terminal.show_status("running the query both ways"):
            found = opt.verify(job.text, measure=measure)
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
    facts = {k: getattr(found, k) for k in ("same", "rewritten", "rows", "missing", "extra", "schema")}
    return {**facts, "seconds": found.runs.seconds} if found.runs else facts
